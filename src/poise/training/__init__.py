"""Training: stages as compiled programs over all runs, in chunks, with progress and checkpoints."""
