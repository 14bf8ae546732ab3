"""Runs: an experiment made ready, trained, and kept in a folder; evaluate it, sample from it, load it again."""
