"""Every number that the paper prints. `inconsistencies.py` lists where they disagree.

Zhan et al., "Learning Calibratable Policies using Programmatic Style-Consistency", ICML 2020. Sections, equations,
tables and figures have the numbers of the rendered paper. Style-consistency is in percent, over 5 seeds.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Printed:
    """A cell of style-consistency over seeds; the deviation is the sample deviation (n - 1)."""

    low: float
    median: float
    high: float
    mean: float
    deviation: float


Consistency = dict[str, dict[str, Printed]]
"""Algorithm -> column -> cell."""

Numbers = dict[str, dict[str, tuple[float, ...]]]
"""Row -> column -> the numbers of a cell."""


def _lines(rows: str) -> Iterator[tuple[str, list[float]]]:
    """Yields the name and the numbers of every line; bars only separate."""
    for line in rows.strip().splitlines():
        name, *numbers = line.replace("|", " ").split()
        yield name, [float(number) for number in numbers]


def _cut(values: Sequence[float], size: int) -> list[tuple[float, ...]]:
    """The values in tuples of this size."""
    return list(zip(*[iter(values)] * size, strict=True))


def _consistency(columns: str, rows: str) -> Consistency:
    """A table of lines such as `name  min median max  ... | mean deviation  ...`."""
    names, table = columns.split(), {}
    for row, numbers in _lines(rows):
        spreads, means = _cut(numbers[: 3 * len(names)], 3), _cut(numbers[3 * len(names) :], 2)
        table[row] = {name: Printed(*a, *b) for name, a, b in zip(names, spreads, means, strict=True)}
    return table


def _numbers(columns: str, rows: str, each: int = 1) -> Numbers:
    """A table of lines with `each` numbers per column."""
    return {row: dict(zip(columns.split(), _cut(numbers, each), strict=True)) for row, numbers in _lines(rows)}


BASKETBALL_COLUMNS = "speed displacement destination direction curvature"

CHEETAH_COLUMNS = "speed torso_height back_foot_height front_foot_height"

CONSISTENCY: dict[str, Consistency] = {
    # Tables 9a and 11a: basketball, one style of 3 classes
    "single-styles": _consistency(BASKETBALL_COLUMNS, """
    ctvae        82 83 85  71 72 74  81 82 82  76 77 80  60 61 62 | 83.4  1.2  72.4 1.4  81.9 0.6  77.7 1.3  61.0 1.0
    ctvae-info   84 84 87  69 71 74  78 79 83  71 72 74  60 60 62 | 85.0  1.2  71.2 1.9  80.1 1.8  72.3 1.1  60.2 0.8
    ctvae-mi     84 86 87  71 74 74  80 82 84  75 77 78  58 72 74 | 85.8  1.3  72.8 1.5  82.2 1.4  76.9 1.1  68.6 6.4
    ctvae-style  34 95 97  89 96 97  91 97 98  96 97 98  77 81 83 | 72.1 33.3  94.6 3.1  95.0 3.7  96.8 0.7  79.6 2.7
    """),
    # Tables 9b and 11b: basketball, DISPLACEMENT by its number of classes
    "displacement": _consistency("2 3 4 6 8", """
    ctvae        91 92 93  79 83 84  76 79 79  68 70 72  64 66 69 | 92.1 0.9  82.4  2.4  78.0  1.4  69.9  1.4  66.0 2.0
    ctvae-info   90 90 92  83 83 85  75 76 77  68 70 72  60 63 67 | 90.5 0.9  83.6  1.0  75.9  0.9  70.2  1.6  63.4 2.9
    ctvae-mi     90 92 93  81 84 86  75 77 80  66 70 72  62 62 67 | 91.6 1.2  83.5  2.1  77.6  2.5  68.8  2.5  63.7 2.3
    ctvae-style  98 99 99  15 98 99  15 96 96  02 92 94  80 90 93 | 98.7 0.4  81.4 36.9  79.3 35.9  68.1 40.0  88.2 5.1
    """),
    # Tables 9c and 11c: basketball, DESTINATION by its number of classes
    "destination": _consistency("2 3 4 6", """
    ctvae        86 87 87  80 82 83  76 78 79  70 74 77 | 86.6 0.6  81.6  1.3  77.4  1.5  74.0  2.6
    ctvae-info   83 87 88  79 81 83  73 75 78  71 77 78 | 86.2 1.7  81.1  1.4  75.3  2.5  75.3  3.3
    ctvae-mi     86 88 88  80 81 84  71 74 79  73 76 78 | 87.3 0.9  81.6  1.6  74.3  3.1  75.8  2.1
    ctvae-style  97 98 99  68 97 98  35 89 95  67 84 93 | 98.1 0.8  88.2 13.6  77.0 24.1  82.6 11.3
    """),
    # Tables 9d and 11d: basketball, all of several styles at once; columns are styles x classes
    "joint": _consistency("2x3 3x3 4x3 5x3 5x4", """
    ctvae        67 71 73  58 58 62  49 50 52  27 37 35  20 21 22 | 70.5 2.1  58.9 1.5  50.4  1.4  31.6 2.8  20.8  1.0
    ctvae-info   68 69 70  54 58 59  48 51 54  28 32 35  18 21 23 | 69.0 0.9  57.5 2.0  50.5  2.3  31.4 2.5  20.6  2.0
    ctvae-mi     71 72 73  48 56 61  45 51 52  16 30 31  18 21 23 | 71.8 0.7  53.8 5.9  50.2  2.7  26.9 6.3  20.7  1.9
    ctvae-style  92 93 94  86 88 90  62 88 88  66 75 80  11 55 77 | 92.8 1.0  88.3 1.7  81.7 11.0  73.9 5.4  50.3 24.7
    """),
    # Tables 10a and 12a: Cheetah, one style of 2 classes
    "cheetah-single-styles": _consistency(CHEETAH_COLUMNS, """
    ctvae        53 59 62  62 63 70  61 68 73  63 68 72 | 57.4 3.9  64.4 3.1  67.4 4.2  68.5 3.7
    ctvae-info   56 57 61  62 63 72  58 65 72  63 66 69 | 58.3 2.1  65.0 4.2  64.1 5.4  66.1 2.7
    ctvae-mi     53 60 62  62 65 70  60 65 70  66 70 73 | 58.4 3.9  65.7 3.2  65.0 3.6  69.9 2.6
    ctvae-style  68 79 81  79 80 84  77 80 88  74 77 80 | 77.0 5.3  81.0 2.2  81.9 5.4  77.2 2.4
    """),
    # Tables 10b and 12b: Cheetah, SPEED by its number of classes
    "cheetah-speed": _consistency("3 4", """
    ctvae        41 45 49  35 37 41 | 45.2 3.2  37.8 2.9
    ctvae-info   47 49 52  36 39 42 | 49.2 1.8  39.3 2.8
    ctvae-mi     47 48 53  36 37 38 | 49.1 2.2  36.8 1.0
    ctvae-style  59 59 65  42 51 60 | 60.8 2.9  51.3 7.8
    """),
    # Tables 10c and 12c: Cheetah, all of several styles at once; columns are styles x classes
    "cheetah-joint": _consistency("2x2 3x2", """
    ctvae        39 41 43  25 28 29 | 40.9 1.6  27.2 1.9
    ctvae-info   39 41 46  25 27 30 | 41.8 2.3  27.8 2.2
    ctvae-mi     34 40 48  27 28 31 | 40.7 4.9  28.5 1.6
    ctvae-style  43 54 60  38 40 52 | 52.6 6.1  42.8 5.8
    """),
}  # fmt: skip
"""The tables of style-consistency."""

NUMBERS: dict[str, Numbers] = {
    # Table 4, basketball: KL, and negative log-density per step
    "tradeoff": _numbers(
        "kl nld",
        "tvae 2.55 -7.91\n ctvae 2.51 -7.94\n ctvae-info 2.25 -7.91\n ctvae-mi 2.56 -7.94\n ctvae-style 2.27 -7.83",
    ),
    # Table 14: basketball, DESTINATION; the five seeds in rising order, and negative log-density per step
    "rnn": {
        name: {"consistency": tuple(values[:5]), "nld": (values[5],)}
        for name, values in _lines("""
    rnn          79 79 80 81 81 | -7.7
    rnn-style    81 86 91 95 98 | -7.6
    ctvae        81 82 82 82 82 | -8.0
    ctvae-style  91 92 97 98 98 | -7.8
    """)
    },
    # Table 17: labels (%) that noise of 1 to 4 sigma on the scores changes; and sigma, in units that it does not name
    "noise-disagreement": _numbers(BASKETBALL_COLUMNS, """
    1       5.20   6.18   7.46   5.36   5.88
    2      10.33  12.24  15.54  10.93  11.66
    3      15.36  18.08  23.46  16.78  17.24
    4      20.10  23.47  30.10  22.56  22.52
    sigma  0.001  0.02   0.02   0.1    0.02
    """),
    # Table 18 and Figure 4: the share (%) of its style-consistency that CTVAE-style loses when trained on such labels
    "noise-decrease": _numbers(BASKETBALL_COLUMNS, """
    1   2.78   3.21   3.70   3.71   3.16
    2   5.59   7.88   9.75   8.63   4.46
    3   9.71  15.37  16.38  12.39   6.34
    4  11.63  20.54  21.11  19.98  12.41
    """),
    # Table 15a: the labeler's cross-entropy on test trajectories, mean and deviation, in hundredths
    "labeler": _numbers(
        BASKETBALL_COLUMNS, "labeler  3.96 0.33  4.58 0.20  1.61 0.18  3.19 0.25  28.31 0.95", each=2
    ),
    # Table 16: the squared error of learned dynamics per step and dimension, mean and deviation
    "dynamics": _numbers("error", "dynamics  1.47e-7 0.59e-7", each=2),
    # Table 4, Cheetah
    "cheetah-tradeoff": _numbers(
        "kl nld",
        "tvae 29.4 -0.60\n ctvae 29.3 -0.59\n ctvae-info 29.1 -0.58\n ctvae-mi 28.5 -0.57\n ctvae-style 30.1 -0.28",
    ),
    # Table 13: median negative log-density and style-consistency; + is trained half as long again
    "cheetah-longer": _numbers(
        CHEETAH_COLUMNS,
        "ctvae-style -0.28 79 -0.24 80 -0.16 80 -0.22 77\n ctvae-style+ -0.49 70 -0.42 83 -0.36 80 -0.42 74",
        each=2,
    ),
    # Table 15b, in hundredths, and Table 16
    "cheetah-labeler": _numbers(CHEETAH_COLUMNS, "labeler  3.24 0.83  15.87 1.78  17.25 0.73  14.75 0.74", each=2),
    "cheetah-dynamics": _numbers("error", "dynamics  1.93e-2 0.08e-2", each=2),
}  # fmt: skip
"""The other tables."""

PAPER: Mapping[str, Mapping[str, Mapping[str, Printed | tuple[float, ...]]]] = {**CONSISTENCY, **NUMBERS}
"""All tables: table -> algorithm (or another row) -> column -> cell."""


def _medians(columns: str, rows: str) -> Numbers:
    """A table of the main text: one row each for CTVAE, -info, -mi and -style, between commas."""
    names = ("ctvae", "ctvae-info", "ctvae-mi", "ctvae-style")
    return _numbers(columns, "\n".join(f"{name} {row}" for name, row in zip(names, rows.split(","), strict=True)))


MAIN_TEXT: dict[str, Numbers] = {
    "single-styles": _medians(BASKETBALL_COLUMNS, "83 72 82 77 61, 84 71 79 72 60, 86 74 82 77 72, 95 96 97 97 81"),
    "displacement": _medians("2 3 4 6", "92 83 79 70, 90 83 78 70, 92 84 77 70, 99 98 96 92"),
    "joint": _medians("2x3 3x3 4x3 5x3 5x4", "71 58 50 37 21, 69 58 51 32 21, 72 56 51 30 21, 93 88 88 75 55"),
    "cheetah-single-styles": _medians(CHEETAH_COLUMNS, "59 63 68 68, 57 63 65 66, 60 65 65 70, 79 80 80 77"),
    "cheetah-speed": _medians("3 4", "45 37, 49 39, 48 37, 59 51"),
    "cheetah-joint": _medians("2x2 3x2", "41 28, 41 27, 40 28, 54 40"),
}
"""Tables 1, 2 and 3: medians that the appendix repeats."""

RNN_MAIN_TEXT = _numbers("min median max nld", "rnn 79 80 81 -7.7\n rnn-style 81 91 98 -7.6")
"""Table 5, which Table 14 repeats."""

QUOTED: dict[str, tuple[str, str, str, float]] = {
    "Section 6.1, Figure 2, the policy": ("displacement", "ctvae-style", "6", 92),
    "Section 6.1, Figure 2, the baseline": ("displacement", "ctvae", "6", 70),
    "Section 6.2, the policy": ("joint", "ctvae-style", "5x4", 55),
    "Section 6.2, the best baseline": ("joint", "ctvae", "5x4", 21),
    "Section 6.2, Figure 3": ("joint", "ctvae-style", "2x3", 93),
    "Figure 5": ("single-styles", "ctvae-style", "destination", 97),
    "Figure 6": ("destination", "ctvae-style", "6", 93),
}
"""Where text and captions quote a table: its name, algorithm and column, and the style-consistency they quote."""

JOINT_STYLES: dict[str, dict[str, int]] = {
    "joint": {"2x3": 8, "3x3": 27, "4x3": 81, "5x3": 243, "5x4": 1024},
    "cheetah-joint": {"2x2": 4, "3x2": 8},
}
"""Table 3: how many joint styles there are, as printed."""

_HYPERPARAMETERS: dict[str, tuple] = {
    # Table 6: demonstrations
    "states": (2, 18), "actions": (2, 6), "steps": (24, 200), "hertz": (3, 40),
    "train": (520_015, 2_500), "test": (67_320, 625),
    # Table 7: training. Passes over the data, of `batches` steps each, are n_dynamics, n_label and n_policy
    "batch": (128, 16), "batches": (4_063, 157), "dynamics_passes": (10, 50), "labeler_passes": (20, 20),
    "policy_passes": (30, 60), "n_collect": (128, 16), "n_env": (0, 1), "learning_rate": (2e-4, 1e-3),
    "dynamics_l2": (1e-5, 1e-5),
    # Table 8 and Section 6: models. The GRUs of encoder and labeler, and that of a recurrent policy, have one size
    "latent": (4, 8), "hidden": (128, 200), "layers": ((128, 128), (200, 200)),
    "dynamics_layers": ((128, 128), (500, 500)), "decoder": ("recurrent", "markov"), "variance": ("state", "global"),
    # Section 6 and Appendix C: experiments. Cheetah's demonstrators are PPO policies with target speeds in m/s
    "classes": (3, 2), "rollouts": (4_000, 500), "seeds": (5, 5),
    "demonstrators": (None, 125), "demonstrations_each": (None, 25), "target_speeds": (None, (0.0, 4.0)),
}  # fmt: skip

HYPERPARAMETERS: dict[str, dict] = {
    domain: {name: values[i] for name, values in _HYPERPARAMETERS.items()}
    for i, domain in enumerate(("basketball", "cheetah"))
}
"""The paper's settings: domain -> name -> value."""
