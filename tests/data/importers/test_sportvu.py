"""The importer on logs written here, whose play is known, and on the published sample where it is available."""

import importlib.util
import json
from pathlib import Path

import numpy as np
import pytest

from poise import PoiseError, Trajectories, split
from poise.cli import main
from poise.data.importers.half_court import Cut, Moments, find_scenes
from poise.data.importers.sportvu import Imported, import_sportvu, read_folder, read_unit
from poise.data.importers.sportvu_files import read_log

HOME, AWAY = 1610612737, 1610612766
NUMBERS = {HOME: [101, 102, 103, 104, 105], AWAY: [7, 50, 300, 301, 302]}
# Feet, and feet per second, as seen from the rim that is attacked; the ball moves with the third attacker.
ATTACK = (
    np.array([[30, 10], [33, 40], [36, 25], [20, 5], [18, 45]]),
    np.array([[2, 3], [-3, 0], [2, -1], [0, 4], [0, 0]]),
)
DEFENSE = (
    np.array([[22, 14], [24, 36], [25, 25], [12, 12], [11, 40]]),
    np.array([[0, 2], [-2, 0], [0, 0], [1, 2], [0, 0]]),
)
PACE = 0.1
EMPTY_7Z = bytes.fromhex("377abcaf271c00038d9bd50f") + bytes(20)  # as one was published


def play(seconds=9.0, quarter=1, clock=700.0, since=0.0, offense=HOME, right=False, shot=24.0, defended=False):
    """Moments of straight motion at 25 Hz; if `defended`, the ball moves with a defender."""
    made = []
    for t in np.arange(round(seconds * 25) + 1) / 25:
        attackers, defenders = (start + PACE * t * speed for start, speed in (ATTACK, DEFENSE))
        places = np.vstack([(defenders if defended else attackers)[2] + [1, 0], attackers, defenders])
        places = [94, 50] - places if right else places
        defense = AWAY if offense == HOME else HOME
        names = [(-1, -1), *((team, number) for team in (offense, defense) for number in NUMBERS[team])]
        entities = [[*name, *place, 0.0] for name, place in zip(names, places.tolist(), strict=True)]
        time = 1_450_000_000_000 + round(1000 * (10_000 * quarter + since + t))
        made.append([quarter, time, round(clock - t, 2), shot - t, None, [entities[0], *entities[:0:-1]]])
    return made


def log(path, *events, game="0021500001"):
    """Writes the log of a game with these events, each a list of moments."""
    path.parent.mkdir(exist_ok=True)
    content = {"gameid": game, "gamedate": "2016-01-01", "events": [{"eventId": "1", "moments": m} for m in events]}
    path.write_text(json.dumps(content))
    return path


def scenes(moments, cut=None):
    """The windows in moments that have the form of a log."""
    heads, entities = (np.array([part(m) for m in moments], float) for part in (lambda m: m[:4], lambda m: m[5]))
    return find_scenes(Moments.joined([Moments.of(heads, entities)]), cut or Cut())


def expected(steps=24, hz=3.0, since=0.0):
    """The positions of the attackers in a window of `play`."""
    times = since + np.arange(steps + 1)[:, None, None] / hz
    return ATTACK[0] + PACE * times * ATTACK[1]


def refused(capsys, *words):
    """The last line that a refused command prints, which is not a traceback."""
    assert main(["import", *map(str, words)]) == 2
    err = capsys.readouterr().err
    assert "Traceback" not in err
    return err.strip().splitlines()[-1]


def test_straight_motion_is_resampled_exactly(tmp_path):
    log(tmp_path / "in/a.json", play())
    import_sportvu(tmp_path / "in", tmp_path / "a.npz", jobs=1)
    players = Trajectories.load(tmp_path / "a.npz")
    np.testing.assert_allclose(players.states, expected().swapaxes(0, 1), atol=0.0051)
    assert players.metadata["player_id"].tolist() == NUMBERS[HOME]
    assert players.metadata["game"].tolist() == [21500001] * 5
    assert players.metadata["ball_nearest_frac"].tolist() == [0, 0, 1, 0, 0]


def test_either_team_attacks_one_rim_in_every_quarter():
    """Teams change sides at half-time; windows are the same whichever team attacks whichever rim."""
    plays = [(1, HOME, False), (1, AWAY, True), (3, HOME, True), (3, AWAY, False)]
    moments = [
        moment
        for number, (quarter, offense, right) in enumerate(plays)
        for moment in play(quarter=quarter, offense=offense, right=right, since=60 * number, clock=700 - 60 * number)
    ]
    found = scenes(moments)
    assert found.quarter.tolist() == [1, 1, 3, 3]
    assert found.teams.tolist() == [[HOME, AWAY], [AWAY, HOME]] * 2
    assert found.players.tolist() == [NUMBERS[HOME] + NUMBERS[AWAY], NUMBERS[AWAY] + NUMBERS[HOME]] * 2
    for states in found.states:
        np.testing.assert_allclose(states, found.states[0], atol=1)
        np.testing.assert_allclose(states[:, 1:6] / 100, expected(), atol=0.0051)


def test_all_frames_of_a_quarter_decide_which_team_attacks():
    """A team that is nearer to the rim than its defenders in one scramble still counts as attacking."""
    scramble = play(9.0, since=60, clock=600)
    for moment in scramble:
        for entity in moment[5]:
            entity[2] = 30 - entity[2] / 2
    assert scenes(play(20.0) + scramble).teams[:, 0].tolist() == [HOME, HOME, HOME]
    assert scenes(scramble).teams[:, 0].tolist() == []  # alone it is no attack: the ball is with the other team


def test_windows_in_which_the_defense_has_the_ball_are_dropped():
    assert len(scenes(play(20.0) + play(9.0, since=60, clock=600, defended=True)).states) == 2


def test_overlapping_events_give_each_moment_once(tmp_path):
    moments = play(30.0)
    log(tmp_path / "a.json", moments[:400], moments[100:600], moments[:700], moments[250:])
    game, read = read_log(tmp_path / "a.json")
    assert game == "0021500001"
    assert len(read.time) == len(moments)
    np.testing.assert_array_equal(find_scenes(Moments.joined([read, read]), Cut()).states, scenes(moments).states)


def test_gaps_of_moments_without_eleven_entities_are_interpolated_if_they_are_short(tmp_path):
    few, many = play(9.0), play(9.0)
    few[50][5], few[51][5], few[52][5] = few[50][5][1:], few[51][5][:1], None
    for moment in many[50:56]:
        moment[5] = moment[5][:-1]
    states = read_unit([log(tmp_path / "a.json", few)], Cut()).games["0021500001"].states
    np.testing.assert_array_equal(states, scenes(play(9.0)).states)
    assert not len(read_unit([log(tmp_path / "a.json", many)], Cut()).games["0021500001"].states)


def two_plays(change):
    """Two plays of 6 s that follow each other directly, the second with a change."""
    return play(6.0) + play(6.0, **{"since": 6.04, "clock": 693.96, "shot": 17.96, **change})


def test_a_break_ends_a_window():
    assert len(scenes(two_plays({})).states) == 1
    for change in ({"clock": 690.0}, {"clock": 694.5}, {"since": 6.5}, {"quarter": 2}, {"shot": 24.0}, {"right": True}):
        assert not len(scenes(two_plays(change)).states), change
    frozen, substituted, left = two_plays({}), two_plays({}), two_plays({})
    for moment in frozen[140:160]:
        moment[2] = frozen[140][2]
    for moment in substituted[151:]:
        moment[5][3][1] += 40
    left[150][5][2][2] = 48.0
    for moments in (frozen, substituted, left):
        assert not len(scenes(moments).states)


def test_a_clock_that_stutters_does_not_end_a_window():
    moments = play(9.0)
    moments[80][2] = moments[81][2] = moments[79][2]
    assert len(scenes(moments).states) == 1


def test_windows_in_which_a_player_is_impossibly_fast_are_dropped():
    moments = play(9.0)
    for moment in moments[100:]:
        moment[5][1][3] = 50 - moment[5][1][3]
    assert not len(scenes(moments).states)


def test_windows_have_the_requested_steps_rate_and_stride():
    moments = play(20.0)
    assert scenes(moments).clock.tolist() == [700.0, 691.68]  # 8.33 s later, the moment before
    found = scenes(moments, Cut(steps=10, hz=5.0, stride=5))
    assert len(found.states) == 19
    np.testing.assert_allclose(found.states[3, :, 1:6] / 100, expected(10, 5.0, since=3.0), atol=0.0051)
    assert len(scenes(moments, Cut(stride=1)).states) == 37


def test_scenes_are_ball_offense_and_defense(tmp_path):
    log(tmp_path / "in/a.json", play(offense=AWAY))
    import_sportvu(tmp_path / "in", tmp_path / "a.npz", what="scenes", jobs=1)
    found = Trajectories.load(tmp_path / "a.npz")
    assert found.states.shape == (1, 25, 22)
    np.testing.assert_allclose(found.states[0, 0, :12].reshape(6, 2)[1:], ATTACK[0], atol=0.0051)
    assert found.metadata["team_id"].tolist() == [[AWAY, HOME]]
    assert found.metadata["player_id"].tolist() == [NUMBERS[AWAY] + NUMBERS[HOME]]
    assert found.metadata["quarter"].tolist() == [1]


def test_a_game_in_many_files_is_one_game(tmp_path):
    """The files are single events without a game's number inside, and a part of the game under another name."""
    whole, moments = tmp_path / "whole", play(30.0)
    log(whole / "0021500001.json", moments)
    parts = tmp_path / "parts"
    parts.mkdir()
    for number in range(5):
        event = {"eventId": str(number), "moments": moments[150 * number : 150 * number + 200]}
        (parts / f"0021500001_{number:04}.json").write_text(json.dumps(event))
    log(parts / "again.json", moments[500:])
    one, many = (read_folder(folder, Cut(), jobs=1) for folder in (whole, parts))
    assert list(one.games) == list(many.games) == ["0021500001"]
    np.testing.assert_array_equal(one.games["0021500001"].states, many.games["0021500001"].states)


@pytest.fixture
def season(tmp_path):
    """Four games, and files that cannot be used."""
    folder = tmp_path / "season"
    for number in range(4):
        log(folder / f"{number}.json", play(9.0 + 9 * number, right=number % 2 == 1), game=f"002150000{number}")
    broken = {
        "cut.json": (folder / "0.json").read_text()[:-100],
        "other.json": '{"name": "x"}',
        "empty.json": "",
        "list.json": "[1, 2]",
        "deep.json": "[" * 100_000,
        "no_moments.json": '{"gameid": "1", "events": [{"moments": []}]}',
        "words.json": json.dumps({"gameid": "1", "moments": [[1, 2, 3, 4, None, list("abcdefghijk")]]}),
        "numbers.json": '{"gameid": "1", "moments": [1, 2]}',
        "nameless.json": json.dumps({"moments": play(1.0)}),
        "ten.json": json.dumps({"gameid": "1", "moments": [[*m[:5], m[5][:10]] for m in play(1.0)]}),
        "short.json": json.dumps({"gameid": "1", "moments": play(1.0)}),
    }
    for name, text in broken.items():
        (folder / name).write_text(text)
    return folder


def test_files_that_cannot_be_used_are_named_with_the_reason(season, tmp_path, capsys):
    assert main(["import", "sportvu", str(season), "--out", str(tmp_path / "a.npz"), "--jobs", "1"]) == 0
    out, err = capsys.readouterr()
    lines = {Path(line.split(": ")[0].removeprefix("skipped ")).stem: line for line in err.strip().splitlines()}
    reasons = {
        "cut": "not JSON, or cut short",
        "other": "not a SportVU log",
        "empty": "not JSON",
        "list": "not a SportVU log",
        "deep": "not JSON",
        "no_moments": "it has no moments",
        "words": "a moment is [quarter",
        "numbers": "a moment is [quarter",
        "nameless": 'no "gameid"',
        "ten": "none of its 26 moments has a ball and two teams of five",
        "short": "no 8.0 s of unbroken half-court play",
    }
    assert lines.keys() == reasons.keys()
    for name, reason in reasons.items():
        assert reason in lines[name]
    assert "50 players in 10 windows of 8.0 s" in out
    assert "4 games; skipped: 11" in out


def test_the_result_does_not_depend_on_the_number_of_jobs(season, tmp_path, capsys):
    printed = []
    for jobs in (1, 2):
        file = str(tmp_path / f"{jobs}.npz")
        assert main(["import", "sportvu", str(season), "--out", file, "--jobs", str(jobs), "--json"]) == 0
        out, err = capsys.readouterr()
        printed.append((err, {**json.loads(out), "file": ""}))
    assert printed[0] == printed[1]
    assert printed[0][1]["windows"] == {f"002150000{number}": number + 1 for number in range(4)}
    assert (tmp_path / "1.npz").read_bytes() == (tmp_path / "2.npz").read_bytes()


def test_the_file_can_be_split_by_game(season, tmp_path):
    import_sportvu(season, tmp_path / "a.npz", jobs=1)
    parts = [set(part.metadata["game"].tolist()) for part in split(Trajectories.load(tmp_path / "a.npz"), by="game")]
    assert all(parts)
    assert sum(map(len, parts)) == len(set.union(*parts)) == 4


def test_archives_are_read_and_damaged_ones_are_named(tmp_path, capsys):
    py7zr = pytest.importorskip("py7zr")
    folder = tmp_path / "in"
    file = log(folder / "a.json", play())
    for name, members in {"good.7z": ["x.json"], "two.7z": ["x.json", "y.json"]}.items():
        with py7zr.SevenZipFile(folder / name, "w") as archive:
            for member in members:
                archive.write(file, member)
    file.unlink()
    good = (folder / "good.7z").read_bytes()
    for name, content in {
        "empty": EMPTY_7Z,
        "cut": good[:-20],
        "none": b"",
        "flipped": good[:60] + b"x" + good[61:],
    }.items():
        (folder / f"{name}.7z").write_bytes(content)
    found = read_folder(folder, Cut(), jobs=1)
    assert list(found.games) == ["0021500001"]
    assert {Path(name).stem for name in found.skipped} == {"two", "empty", "cut", "none", "flipped"}
    assert "holds none" in found.skipped[str(folder / "empty.7z")]
    assert "damaged archive, or cut short" in found.skipped[str(folder / "cut.7z")]


def test_archives_without_py7zr_name_the_extra(tmp_path, monkeypatch, capsys):
    (tmp_path / "a.7z").write_bytes(EMPTY_7Z)
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    assert "pip install 'poise[sportvu]'" in refused(capsys, "sportvu", tmp_path, "--out", tmp_path / "a.npz")


def test_bad_input_is_refused_in_one_line(season, tmp_path, capsys):
    out, empty, useless = tmp_path / "a.npz", tmp_path / "empty", tmp_path / "useless"
    empty.mkdir()
    useless.mkdir()
    (useless / "a.json").write_text("{")
    cases = [
        (("sportvue", season, "--out", out), "invalid choice 'sportvue'"),
        (("sportvu", tmp_path / "none", "--out", out), "no such folder: "),
        (("sportvu", season / "0.json", "--out", out), "is a file; name the folder"),
        (("sportvu", empty, "--out", out), "no SportVU logs in"),
        (("sportvu", useless, "--out", out), "nothing to import"),
        (("sportvu", season, "--out", tmp_path / "a.csv"), "written as .npz"),
        (("sportvu", season, "--out", tmp_path / "no" / "a.npz"), "no such folder"),
        (("sportvu", season, "--out", out, "--what", "teams"), "invalid choice 'teams'"),
        (("sportvu", season, "--out", out, "--steps", 0), "at least 1 step"),
        (("sportvu", season, "--out", out, "--hz", 0), "above 0 and at most 25"),
        (("sportvu", season, "--out", out, "--stride", 0), "at least 1 frame"),
        (("sportvu", season, "--out", out, "--jobs", 0), "at least 1 job"),
        (("sportvu", season), "--out"),
    ]
    for words, message in cases:
        assert message in refused(capsys, *words)
    assert not out.exists()
    with pytest.raises(PoiseError, match="did you mean 'scenes'"):
        import_sportvu(season, out, what="scene")


def test_the_command_has_help(capsys):
    with pytest.raises(SystemExit) as end:
        main(["import", "--help"])
    assert end.value.code == 0
    assert "usage: poise import" in capsys.readouterr().out


RAW = Path(__file__).parents[4] / "shared" / "data" / "nba" / "raw"
published = pytest.mark.skipif(not RAW.is_dir(), reason="the published sample is not available")


@published
def test_the_published_sample_gives_the_same_windows_as_a_game_as_events_and_as_an_archive():
    whole = read_unit([RAW / "0021500492.json"], Cut())
    for files in (sorted((RAW / "events_0021500492").iterdir()), [RAW / "01.01.2016.CHA.at.TOR.partial.7z"]):
        if files[0].suffix == ".7z":
            pytest.importorskip("py7zr")
        other = read_unit(files, Cut())
        assert not other.skipped
        for one, two in zip(whole.games["0021500492"], other.games["0021500492"], strict=True):
            np.testing.assert_array_equal(one, two)
    assert len(whole.games["0021500492"].states) == 8


@published
def test_published_logs_without_play_are_named(capsys):
    pytest.importorskip("py7zr")
    with pytest.raises(PoiseError, match="nothing to import"):
        read_folder(RAW / "published_7z", Cut(), jobs=1)
    assert capsys.readouterr().err.count("skipped") == 3


@published
def test_imported_players_move_as_published_ones_do():
    """The reference is 7,945 players of 53 other games, which were converted by other means."""
    game = read_unit([RAW / "0021500492.json"], Cut())
    states = Imported(game.games, {}).arrays()["states"] * 0.01
    others = np.asarray(Trajectories.load(RAW.parent / "players_test.npz").states)
    assert states[..., 0].min() >= -3
    assert states[..., 0].max() <= 47
    mine, theirs = (3 * np.linalg.norm(np.diff(moves, axis=1), axis=-1) for moves in (states, others))
    assert mine.max() < 25  # ft/s
    assert abs(np.median(mine.mean(axis=1)) - np.median(theirs.mean(axis=1))) < 0.5
    for quantile in (0.25, 0.5, 0.75, 0.95):
        assert np.quantile(mine, quantile) == pytest.approx(np.quantile(theirs, quantile), rel=0.1)
    mine, theirs = (np.linalg.norm(moves - [5.25, 25], axis=-1) for moves in (states, others))
    assert np.median(mine) == pytest.approx(np.median(theirs), rel=0.1)
