import gc
import itertools
import threading

import numpy as np
import pytest
from conftest import wander

from poise import DOMAINS, Experiment, PoiseError, Trajectories, split
from poise.data.batches import AHEAD, Source, Stream
from poise.domains import plain
from poise.runs.prepare import prepare
from poise.styles.augmentation import augment_and_label
from poise.styles.scoring import label_all

SPEED = DOMAINS["basketball"].styles["speed"]


def numbered(count: int) -> tuple[Trajectories, np.ndarray]:
    """Trajectories whose states, like their labels, are the number of their row."""
    rows = np.arange(count)
    return Trajectories(rows[:, None, None] + np.zeros((1, 3, 1))), rows[:, None].astype(np.int32)


@pytest.fixture(params=["memory", "disk"])
def stream(request, tmp_path) -> Stream:
    """Two hundred numbered trajectories in windows of 50."""
    demonstrations, labels = numbered(200)
    if request.param == "disk":
        demonstrations.save(tmp_path / "data")
        demonstrations = Trajectories.load(tmp_path / "data")
    return Stream(demonstrations, labels, rows=50)


def rows_of(window) -> list[int]:
    return np.asarray(window.demonstrations.starts)[:, 0].astype(int).tolist()


def take(stream: Stream, count: int, first: int = 0) -> list:
    return list(itertools.islice(stream.windows(first), count))


def test_a_window_has_as_many_rows_as_asked_for_and_none_twice(stream):
    for window in take(stream, 5):
        assert len(set(rows_of(window))) == len(window.demonstrations) == 50
        np.testing.assert_array_equal(window.labels[:, 0], rows_of(window))


def test_streams_and_data_on_the_device_are_sources_of_batches(stream):
    for source in (stream, stream.window(0)):
        assert isinstance(source, Source)


def test_a_window_is_a_function_of_its_number(stream):
    windows = [rows_of(window) for window in take(stream, 6)]
    assert [rows_of(window) for window in take(stream, 3, first=3)] == windows[3:]
    assert len(set(map(tuple, windows))) == 6
    other = Stream(stream.demonstrations, stream.labels, stream.rows, seed=1)
    assert rows_of(other.window(0)) != windows[0]


def test_every_row_is_drawn_as_often_as_any_other(stream):
    drawn = np.bincount(np.concatenate([stream._draw(number) for number in range(2_000)]), minlength=200)
    np.testing.assert_allclose(drawn / 2_000, 50 / 200, atol=0.06)  # six deviations


def test_a_window_larger_than_the_data_has_all_rows(stream):
    window = Stream(stream.demonstrations, stream.labels, rows=1_000).window(0)
    assert rows_of(window) == list(range(200))


def test_each_set_of_labels_follows_its_rows(stream):
    sets = np.stack([stream.labels, -stream.labels]).astype(np.int8)
    window = Stream(stream.demonstrations, sets, rows=20).window(0)
    labels = stream.labels.astype(np.int8)[rows_of(window)]
    assert window.labels.dtype == np.int32
    np.testing.assert_array_equal(window.labels, np.stack([labels, -labels]))


def test_half_of_an_augmented_window_are_copies_labelled_by_the_true_function():
    walks = wander(60)
    style, dynamics = SPEED.fit(walks), plain(walks).dynamics

    def augment(demonstrations, labels, seed):
        return augment_and_label(
            demonstrations, labels, dynamics, lambda copies: label_all([style], copies)[None], 1.0, seed
        )

    stream = Stream(walks, label_all([style], walks)[None], rows=20, augment=augment)
    first, second = take(stream, 2)
    assert len(first.demonstrations) == len(second.demonstrations) == 20
    np.testing.assert_array_equal(first.labels[0], label_all([style], first.demonstrations.numpy()))
    np.testing.assert_array_equal(first.demonstrations.starts[:10], first.demonstrations.starts[10:])
    shift = [np.asarray(w.demonstrations.actions[10:] - w.demonstrations.actions[:10]) for w in (first, second)]
    assert (shift[0] != shift[1]).all()  # other noise in every window


class Recorder:
    """Replaces augmentation on the reader's thread: records the windows that are read, and fails for one of them."""

    def __init__(self, bad: int | None = None):
        self.bad, self.read, self.reached = bad, [], threading.Semaphore(0)

    def __call__(self, demonstrations, labels, number):
        assert threading.current_thread() is not threading.main_thread()
        if number == self.bad:
            raise PoiseError(f"window {number} cannot be read")
        self.read.append(number)
        self.reached.release()
        return demonstrations, labels


def wait_for(recorder: Recorder, count: int) -> None:
    for _ in range(count):
        assert recorder.reached.acquire(timeout=30)


def test_the_next_windows_are_read_while_one_is_used_but_not_all_of_them():
    recorder = Recorder()
    windows = Stream(*numbered(20), rows=4, augment=recorder).windows()
    next(windows)
    wait_for(recorder, 1 + AHEAD)  # and no more, until the next window is asked for
    assert not recorder.reached.acquire(timeout=0.1)
    next(windows)
    wait_for(recorder, 1)
    assert recorder.read == [0, 1, 2, 3]
    windows.close()


def test_an_error_while_reading_reaches_the_consumer():
    windows = Stream(*numbered(20), rows=4, augment=Recorder(bad=2)).windows()
    next(windows)
    next(windows)
    with pytest.raises(PoiseError, match="window 2 cannot be read"):
        next(windows)


@pytest.mark.parametrize("closed", [True, False])
def test_reading_ends_with_the_iterator(closed):
    before, recorder = threading.active_count(), Recorder()
    windows = Stream(*numbered(20), rows=4, augment=recorder).windows()
    next(windows)
    assert threading.active_count() == before + 1
    if closed:
        windows.close()
    del windows
    gc.collect()
    assert threading.active_count() == before


def test_labels_or_windows_of_a_wrong_size_are_refused():
    demonstrations, labels = numbered(20)
    with pytest.raises(PoiseError, match="got 20 trajectories and labels of 19"):
        Stream(demonstrations, labels[:19])
    with pytest.raises(PoiseError, match="at least 2 rows; got 1"):
        Stream(demonstrations, labels, rows=1)


def test_an_experiment_on_disk_has_the_labels_and_styles_of_its_training_part(tmp_path):
    walks = wander(100)
    walks.save(tmp_path / "walks")
    experiment = Experiment(data=str(tmp_path / "walks"), domain="basketball", styles=("speed", "displacement"))
    prepared = prepare(experiment)
    train = split(Trajectories.load(tmp_path / "walks")).train[:]
    assert prepared.splits.train.on_disk()
    assert prepared.styles[0].thresholds == SPEED.fit(train).thresholds
    np.testing.assert_array_equal(prepared.labels, label_all(prepared.styles, train))
    window = Stream(prepared.splits.train, prepared.labels, rows=32).window(0)
    np.testing.assert_array_equal(window.labels, label_all(prepared.styles, window.demonstrations.numpy()))
