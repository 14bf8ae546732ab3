"""Pallas kernels for GPUs; where they are not available, scans in XLA compute the same."""
