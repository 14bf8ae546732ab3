"""The files of a study name the provenance of its cells."""

from poise.reproduce.tables import provenance_of


def test_cells_of_several_machines_have_the_provenance_of_all():
    shared = {"command": "poise", "commit": "1234567", "hardware": "a GPU", "seconds": 60.0}
    one = {**shared, "cell": {"algorithm": "ctvae"}, "versions": {"jax": "0.10.0"}}
    versions = {"jax": "0.11.2", "mujoco": "3.17.0"}
    other = {**shared, "cell": {"algorithm": "rnn"}, "versions": versions, "hardware": "2 cores"}
    found = provenance_of({"one": one, "other": other})
    assert found["hardware"] == "2 cores; a GPU"
    assert found["versions"] == {"jax": "0.10.0; 0.11.2", "mujoco": "3.17.0; not recorded"}
    assert found["seconds"] == 120


def test_cells_without_a_commit_say_so():
    shared = {"command": "poise", "hardware": "a GPU", "versions": {}, "seconds": 1.0, "cell": {}}
    assert provenance_of({"one": {**shared, "commit": None}})["commit"] == "not recorded"


def test_the_seconds_of_a_program_count_once():
    shared = {"command": "poise", "commit": "1234567", "hardware": "a GPU", "versions": {}}
    cells = {name: {**shared, "cell": {"algorithm": "ctvae"}, "seconds": s} for name, s in (("a", 50.0), ("b", 60.0))}
    assert provenance_of(cells)["seconds"] == 60
