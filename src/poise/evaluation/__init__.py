"""Evaluation: style-consistency by the true labeling functions in the true environment, and how well networks do."""
