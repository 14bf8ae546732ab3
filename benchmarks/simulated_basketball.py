"""How close simulated players come to real tracking data, and how fast they are made.

    python benchmarks/simulated_basketball.py --real players_test.npz

Writes results/basketball/simulated.json and docs/images/simulated_basketball.png. Real positions are only read.
The simulator was tuned on players_train, so the comparison that counts is with players_test.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np

from poise import DOMAINS, Trajectories
from poise.domains.basketball_simulator import HZ, RIM, simulate_possessions
from poise.system import provenance, storage

ROOT = Path(__file__).resolve().parents[1]
QUANTILES = (5, 25, 50, 75, 95)
STYLES = ("speed", "displacement", "destination", "curvature", "direction")
UNITS = {
    "speed": "mean speed (ft/s)", "displacement": "displacement (ft)", "destination": "final distance to the rim (ft)",
    "curvature": "curvature: mean turn per step (rad)", "direction": "direction of the displacement (rad)",
    "step_speed": "speed of a step (ft/s)", "step_acceleration": "acceleration of a step (ft/s²)",
    "start": "first distance to the rim (ft)",
}  # fmt: skip


def score(states: np.ndarray) -> dict[str, np.ndarray]:
    """Every score per trajectory (scores named `step_`: per step)."""
    steps = np.diff(states.astype(np.float64), axis=1)
    demonstrations = Trajectories(states)
    return {
        **{name: DOMAINS["basketball"].styles[name].scores(demonstrations) for name in STYLES},
        "step_speed": np.linalg.norm(steps, axis=-1).ravel() * HZ,
        "step_acceleration": np.linalg.norm(np.diff(steps, axis=1), axis=-1).ravel() * HZ**2,
        "start": np.linalg.norm(states[:, 0] - RIM, axis=-1),
    }


def kolmogorov_smirnov(a: np.ndarray, b: np.ndarray) -> float:
    """The largest difference between the two distribution functions."""
    a, b = np.sort(a), np.sort(b)
    both = np.concatenate([a, b])
    below = [np.searchsorted(values, both, side="right") / len(values) for values in (a, b)]
    return float(np.abs(below[0] - below[1]).max())


def wasserstein(simulated: np.ndarray, real: np.ndarray) -> float:
    """The mean distance between equal quantiles, in standard deviations of the real values."""
    levels = (np.arange(2000) + 0.5) / 2000
    return float(np.abs(np.quantile(simulated, levels) - np.quantile(real, levels)).mean() / real.std())


def describe(states: np.ndarray, scores: dict[str, np.ndarray]) -> dict:
    """The correlations of the five styles, and the shares of steps below 0.1 and 0.3 feet."""
    still = {f"below_{feet}_ft": round(float((scores["step_speed"] < feet * HZ).mean()), 4) for feet in (0.1, 0.3)}
    return {"correlations": np.corrcoef([scores[s] for s in STYLES]).round(3).tolist(), "still_steps": still}


def density(states: np.ndarray, frame: int) -> np.ndarray:
    """The share of players in each 4 x 4 foot cell at one frame."""
    cells = (np.arange(0, 49, 4), np.arange(-1, 52, 4))
    return np.histogram2d(*states[:, frame].T, bins=cells)[0] / len(states)


def compare(simulated: np.ndarray, real: np.ndarray | None) -> dict:
    """Quantiles of all scores, with distances to the real data where given."""

    def quantiles(values):
        return dict(zip(map(str, QUANTILES), np.percentile(values, QUANTILES).round(3).tolist(), strict=True))

    ours = score(simulated)
    result = {
        "scores": {k: {"simulated": quantiles(v)} for k, v in ours.items()},
        "simulated": describe(simulated, ours),
    }
    if real is None:
        return result
    theirs = score(real)
    for name, row in result["scores"].items():
        row["real"] = quantiles(theirs[name])
        row["ks"] = round(kolmogorov_smirnov(ours[name], theirs[name]), 4)
        row["w1"] = round(wasserstein(ours[name], theirs[name]), 4)
    result["real"] = describe(real, theirs)
    result["map_total_variation"] = {  # 0: the same map; 1: maps that share no cell
        name: round(float(np.abs(density(simulated, t) - density(real, t)).sum() / 2), 3)
        for name, t in {"start": 0, "middle": simulated.shape[1] // 2, "end": -1}.items()
    }
    return result


def draw_court(axes) -> None:
    """The lines of the half court; the rim is on the left."""
    for line in DOMAINS["basketball"].scene.outlines:
        axes.plot(*np.asarray(line).T, color="0.6", lw=0.8)
    axes.set(xlim=(-2, 48), ylim=(-2, 52), aspect="equal", xticks=[], yticks=[])
    axes.set_frame_on(False)


def draw_paths(axes, states: np.ndarray, count: int = 12) -> None:
    """A sample of trajectories, from diamond to dot."""
    draw_court(axes)
    picks = np.random.default_rng(3).choice(len(states), count, replace=False)
    for path, color in zip(states[picks], plt.get_cmap("tab20")(np.linspace(0, 1, count)), strict=True):
        axes.plot(*path.T, ".-", color=color, lw=1.2, ms=2.5)
        axes.plot(*path[0], "D", color=color, ms=5)
        axes.plot(*path[-1], "o", color=color, ms=6, mec="black", mew=0.6)


def draw(simulated: np.ndarray, real: np.ndarray | None, path: Path) -> None:
    """Write the picture: simulated paths, maps of where players end, and a histogram of each score.

    No real path is drawn: real positions stay out of the repository, and a map or a histogram shows none of them.
    """
    sides = {"simulated": simulated} if real is None else {"simulated": simulated, "real": real}
    figure, grid = plt.subplots(3, 4, figsize=(15, 12), height_ratios=(1.3, 1, 1), layout="constrained")
    for column, count in enumerate((12, 24)):
        draw_paths(grid[0, column], simulated, count)
        grid[0, column].set_title(f"simulated: {count} players, 8 s (diamond to dot)")
    for column, (name, states) in enumerate(sides.items()):
        grid[0, column + 2].hist2d(*states[:, -1].T, bins=(47, 50), range=((0, 47), (0, 50)), density=True, vmax=0.003)
        grid[0, column + 2].set(title=f"{name}: where they end", aspect="equal", xticks=[], yticks=[])
    scores = {name: score(states) for name, states in sides.items()}
    for axes, (key, unit) in zip(grid[1:].flat, UNITS.items(), strict=True):
        low, high = np.percentile(scores["simulated" if real is None else "real"][key], (0.2, 99.8))
        for (name, values), style in zip(scores.items(), ("stepfilled", "step"), strict=False):
            bins = np.linspace(low, high, 50)
            axes.hist(
                values[key], bins=bins, density=True, histtype=style, label=name, alpha=0.6 if style != "step" else 1
            )
        axes.set(xlabel=unit, yticks=[])
    for empty in grid[0, [i for i in range(4) if not grid[0, i].has_data()]]:
        empty.set_axis_off()
    grid[1, 0].legend(frameon=False)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=80)


def main() -> None:
    """Generate, compare, write."""
    parser = argparse.ArgumentParser(description=str(__doc__).splitlines()[0])
    parser.add_argument("--real", type=Path, help="npz of real trajectories: `states` [N, T + 1, 2], `scale` to feet")
    parser.add_argument("--count", type=int, default=50_000, help="trajectories to simulate (default: %(default)s)")
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()

    started = time.perf_counter()
    simulated = simulate_possessions(args.count, seed=args.seed)
    seconds = time.perf_counter() - started
    real = None
    if args.real:
        with np.load(args.real) as data:
            real = data["states"] * data["scale"]
    result = compare(simulated, real) | {"count": args.count, "seed": args.seed} | provenance.provenance(seconds)
    (ROOT / "results/basketball").mkdir(parents=True, exist_ok=True)
    storage.write_json(ROOT / "results/basketball/simulated.json", result)
    draw(simulated, real, ROOT / "docs/images/simulated_basketball.png")
    for name, row in result["scores"].items():
        print(f"{name:18}", *row["simulated"].values(), *([] if real is None else ["|", *row["real"].values()]),
              *(f"{key} {row[key]:.3f}" for key in ("ks", "w1") if key in row))  # fmt: skip
    print(f"{args.count} trajectories in {seconds:.1f} s")


if __name__ == "__main__":
    main()
