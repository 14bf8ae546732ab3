"""Demonstrations: what they are, how they are read, written and split, and how training draws from them.

`trajectories` holds `Trajectories`, whose rules are in `checks`; `files` reads arrays in memory and on disk, `writer`
makes folders that are larger than memory, `splits` makes the parts for training, validation and test, `batches` brings
labelled demonstrations to the device, in memory or streamed, and `importers` turns raw recordings into trajectories.
"""
