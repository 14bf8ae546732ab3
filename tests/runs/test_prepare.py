"""Demonstrations of an experiment in three parts."""

import numpy as np

from poise import Trajectories
from poise.runs.experiment import Experiment
from poise.runs.prepare import load_splits


def test_with_test_demonstrations_of_its_own_the_rest_is_divided_in_two_and_keeps_its_metadata(tmp_path, walks):
    games = np.arange(len(walks)) // 4
    Trajectories(walks.states, metadata={"game": games, "hz": np.float32(3)}).save(tmp_path / "walks.npz")
    walks.save(tmp_path / "test.npz")
    data, test = str(tmp_path / "walks.npz"), str(tmp_path / "test.npz")
    splits = load_splits(Experiment(data=data, test=test, split_by="game"), None)
    assert len(splits.test) == len(walks)
    assert len(splits.train) + len(splits.validation) == len(walks)
    for part in (splits.train, splits.validation):
        assert part.metadata["hz"] == 3
        assert part.metadata["game"].shape == (len(part),)
    assert not set(splits.train.metadata["game"]) & set(splits.validation.metadata["game"])
