"""Shares of rollouts with their intervals, and numbers as files hold them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Int


@dataclass(frozen=True)
class Share:
    """A share of successes with its 95 % interval (Wilson's)."""

    value: float
    low: float
    high: float
    count: int

    @property
    def interval(self) -> list[float]:
        """The interval's ends, rounded for a file."""
        return [round(self.low, 4), round(self.high, 4)]

    @staticmethod
    def of(successes: Bool[np.ndarray, " count"], starts: Int[np.ndarray, " count"] | None = None) -> Share:
        """The share of true values. Rollouts from one start are not independent: the interval counts starts."""
        if not len(successes):
            return Share(float("nan"), 0.0, 1.0, 0)
        count = len(successes) if starts is None else len(np.unique(starts))
        z, p = 1.959964, float(np.mean(successes))
        centre, spread = p + z**2 / (2 * count), z * np.sqrt(p * (1 - p) / count + z**2 / (4 * count**2))
        low, high = ((centre + sign * spread) / (1 + z**2 / count) for sign in (-1, 1))
        return Share(p, max(0.0, min(p, float(low))), min(1.0, max(p, float(high))), len(successes))


def rounded(value: float | None) -> float | None:
    """Four significant digits; None for what is missing, NaN or infinite."""
    return float(f"{value:.4g}") if value is not None and np.isfinite(value) else None
