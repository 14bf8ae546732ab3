import contextlib
import sys

import numpy as np
import pytest

from poise import PoiseError
from poise.system import workers
from poise.system.workers import Worker, WorkerEnded, ask_all

HANDLERS = """
import os
import time

import numpy as np

from poise import PoiseError


def double(*words):
    print("starting")

    def answer(question):
        print("a handler may print")
        os.system("echo and so may a process that it starts")
        return {"twice": 2 * question["number"], "words": np.asarray(words), "where": np.asarray(os.getpid())}

    return answer


def fail():
    def answer(question):
        kind = str(question["kind"])
        if kind == "PoiseError":
            raise PoiseError("a number must not be 1")
        if kind == "ValueError":
            raise ValueError("bad\\nnumber")
        if kind == "MemoryError":
            raise MemoryError
        if kind == "exit":
            os._exit(3)
        return question

    return answer


def refuse(kind):
    if kind == "exit":
        os._exit(3)
    if kind == "hang":
        time.sleep(60)
    raise RuntimeError("no\\nlicense")


def environment(*names):
    return lambda question: {"values": np.asarray([os.environ.get(name, "") for name in names])}
"""


@pytest.fixture(scope="module")
def start(tmp_path_factory):
    """Starts workers whose handlers are in a module of their own, and closes them at the end."""
    folder = tmp_path_factory.mktemp("handlers")
    (folder / "handlers_of_test_workers.py").write_text(HANDLERS)
    started = []

    def start_one(function: str, *arguments: str, **options) -> Worker:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(sys, "path", [str(folder), *sys.path])
            started.append(Worker(f"handlers_of_test_workers:{function}", *arguments, **options))
        return started[-1]

    yield start_one
    for worker in started:
        worker.close()


@pytest.fixture(scope="module")
def double(start) -> Worker:
    """A worker that doubles numbers."""
    return start("double", "two", "words")


def number(value: int) -> dict[str, np.ndarray]:
    return {"number": np.asarray(value)}


def kind(name: str) -> dict[str, np.ndarray]:
    return {"kind": np.asarray(name)}


def test_a_worker_answers_question_after_question(double):
    double.ready()
    for value in (1, 2, 3):
        answer = double.ask(number(value))
        assert answer["twice"] == 2 * value
        assert answer["words"].tolist() == ["two", "words"]


def test_large_arrays_pass_through_the_pipes(double):
    array = np.random.default_rng(0).normal(size=(300, 1000))
    np.testing.assert_array_equal(double.ask({"number": array})["twice"], 2 * array)


@pytest.mark.parametrize("show_errors", [True, False])
def test_prints_do_not_disturb_the_answers_and_go_to_standard_error_or_nowhere(start, capfd, show_errors):
    assert start("double", show_errors=show_errors).ask(number(4))["twice"] == 8
    out, err = capfd.readouterr()
    assert out == ""
    assert ("a handler may print" in err, "and so may a process that it starts" in err) == (show_errors, show_errors)


def test_an_error_in_the_handler_arrives_as_a_poise_error_and_the_worker_lives_on(start):
    worker = start("fail", show_errors=False)
    for name, message in (("PoiseError", "^a number must not be 1$"), ("ValueError", "^ValueError: bad number$")):
        with pytest.raises(PoiseError, match=message):
            worker.ask(kind(name))
        assert worker.ask(kind("good")) == kind("good")


@pytest.mark.parametrize("name", ["exit", "MemoryError"])
def test_a_process_that_ends_raises_worker_ended(start, name):
    worker = start("fail")
    for _ in range(2):  # once while it answers, and again when it is asked after its end
        with pytest.raises(WorkerEnded):
            worker.ask(kind(name))


def test_a_message_that_is_cut_short_raises_worker_ended(tmp_path):
    with open(tmp_path / "message", "wb") as file:
        workers._send(file, number(1))
    content = (tmp_path / "message").read_bytes()
    for length in (0, 5, 8, 100):
        (tmp_path / "message").write_bytes(content[:length])
        with open(tmp_path / "message", "rb") as file, pytest.raises(WorkerEnded):
            workers._receive(file)


def test_a_start_that_fails_is_reported_by_ready(start):
    with pytest.raises(PoiseError, match=r"^RuntimeError: no license$"):
        start("refuse", "").ready()


def test_a_start_that_fails_is_reported_by_ask(start):
    with pytest.raises(PoiseError, match=r"^AttributeError: .* has no attribute 'missing'$"):
        start("missing").ask(number(1))


def test_a_start_that_crashes_or_hangs_is_reported_by_ready(start):
    with pytest.raises(WorkerEnded):
        start("refuse", "exit").ready()
    with pytest.raises(TimeoutError):
        start("refuse", "hang").ready(timeout=0.1)


def test_a_worker_has_the_environment_it_was_given_and_never_the_accelerator(start):
    worker = start("environment", "OWN", "JAX_PLATFORMS", environment={"OWN": "1"})
    assert worker.ask({})["values"].tolist() == ["1", "cpu"]


def test_answers_of_several_workers_come_in_the_order_of_the_questions(start):
    several = [start("double") for _ in range(2)]
    answers = list(ask_all(several, [lambda value=value: number(value) for value in range(20)]))
    assert [int(answer["twice"]) for answer in answers] == list(range(0, 40, 2))
    assert len({int(answer["where"]) for answer in answers}) == 2
    for worker in several:  # they are closed at the end
        with pytest.raises(WorkerEnded):
            worker.ask(number(1))


def test_an_error_in_one_of_several_workers_is_raised_and_closes_all_of_them(start):
    several = [start("fail") for _ in range(2)]
    names = ("good", "better", "PoiseError", "good", "good", "good")
    answers = ask_all(several, [lambda name=name: kind(name) for name in names])
    assert [str(next(answers)["kind"]) for _ in range(2)] == ["good", "better"]
    with pytest.raises(PoiseError, match="a number must not be 1"):
        next(answers)
    for worker in several:
        with pytest.raises(WorkerEnded):
            worker.ask(kind("good"))


def test_a_worker_imports_nothing_from_the_current_folder(tmp_path, monkeypatch):
    (tmp_path / "safetensors.py").write_text("from pathlib import Path\nPath(__file__).with_name('ran').touch()\n")
    monkeypatch.chdir(tmp_path)
    worker = Worker("poise.errors:str", "")
    with contextlib.suppress(PoiseError, WorkerEnded):
        worker.ready(timeout=60)
    worker.close()
    assert not (tmp_path / "ran").exists()
