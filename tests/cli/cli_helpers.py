"""What the tests of commands share: to say one, and to see it refused in one line."""

from poise.cli import main


def say(capsys, *words):
    code = main([str(word) for word in words])
    seen = capsys.readouterr()
    return code, seen.out, seen.err


def refused(capsys, *words):
    """The one line that a bad command gets."""
    code, _, err = say(capsys, *words)
    lines = [line for line in err.strip().splitlines() if line]
    assert code == 2
    assert len(lines) == 1, err
    assert "Traceback" not in err
    return lines[0]
