"""Simulated half-court possessions: one offensive player's movement, with human speeds and basketball's geography.

A player follows a chain of *intents* (stand, drift, relocate, cut, curl, ...). An intent has a target on the court, a
desired speed and a bend; the body follows with limited acceleration. All numbers below are hand-set summaries.
"""

from __future__ import annotations

import numpy as np

COURT = np.array([47.0, 50.0])  # feet; the half court
RIM = np.array([5.25, 25.0])
HZ = 3  # frames a second in the result
SUBSTEPS = 5  # integration steps a frame: 15 Hz
BLOCK = 4096  # players simulated together; row i never depends on `count`

# Spots, in polar coordinates around the rim, used with both signs of the angle. Weights: how often a spot is where a
# possession starts, and where an arriving, a relocating or curling, and a cutting player goes; `hold` scales standing.
#             feet  degrees  spread: feet, degrees   start  arrive  roam  cut   crash  hold
SPOTS = {
    "corner":   (23.2, 86.0,   0.7,  4.0,             1.2,   2.0,    2.2,  0.0,  0.0,   2.2),
    "low wing": (24.5, 67.0,   1.3,  8.0,             0.8,   1.0,    1.2,  0.0,  0.0,   1.2),
    "wing":     (26.0, 43.0,   1.9, 12.0,             1.3,   1.8,    2.2,  0.0,  0.0,   1.3),
    "top":      (28.0, 13.0,   2.5, 10.0,             0.9,   1.2,    1.8,  0.0,  0.0,   0.8),
    "elbow":    (17.0, 38.0,   3.2, 16.0,             2.1,   0.6,    1.0,  0.8,  0.2,   0.6),
    "post":     (11.0, 74.0,   3.0, 18.0,             0.9,   0.8,    0.8,  1.2,  0.5,   0.9),
    "short":    (17.0, 82.0,   2.5, 10.0,             0.6,   0.5,    0.5,  0.2,  0.1,   0.6),
    "rim":      ( 5.0, 45.0,   2.0, 50.0,             0.4,   0.3,    0.3,  1.5,  2.0,   0.3),
    "deep":     (34.0, 14.0,   4.5, 16.0,             2.4,   0.0,    0.2,  0.0,  0.0,   0.6),
}  # fmt: skip

# Intents. Desired speed: median (ft/s) and spread (log). Bend: spread of the angle between the first heading and the
# target (radians; an arc). Seconds: mean length. Reach: targets are preferred within this many feet.
#               speed  spread  bend  seconds  reach
INTENTS = {
    "stand":    (1.6,  0.50,  0.0,   1.6,     0.0),
    "drift":    (3.7,  0.40,  0.5,   1.5,     4.0),
    "relocate": (7.5,  0.40,  0.5,   3.0,    10.0),
    "cut":      (12.0, 0.25,  0.4,   2.5,    20.0),
    "curl":     (9.5,  0.30,  1.3,   3.0,    12.0),
    "arrive":   (8.0,  0.40,  0.3,   3.5,    15.0),
    "crash":    (7.5,  0.40,  0.4,   2.0,    20.0),
    "retreat":  (12.0, 0.35,  0.3,   3.0,    30.0),
}  # fmt: skip

# What follows what: the chance of standing, drifting, relocating, cutting, curling next.
NEXT = {
    "stand":    (0.00, 0.45, 0.25, 0.12, 0.18),
    "drift":    (0.45, 0.15, 0.20, 0.08, 0.12),
    "relocate": (0.50, 0.25, 0.10, 0.05, 0.10),
    "cut":      (0.20, 0.20, 0.35, 0.00, 0.25),
    "curl":     (0.35, 0.25, 0.15, 0.15, 0.10),
    "arrive":   (0.40, 0.30, 0.15, 0.05, 0.10),
    "crash":    (0.40, 0.60, 0.00, 0.00, 0.00),
    "retreat":  (0.00, 0.00, 1.00, 0.00, 0.00),
    "start":    (0.30, 0.25, 0.20, 0.10, 0.15),
}  # fmt: skip

BODY = dict(
    response=0.30,  # seconds to take up a new velocity
    effort=0.12,  # seconds to change the acceleration
    acceleration=17.0,  # ft/s^2, the most a player manages
    top_speed=21.0,  # ft/s
    braking=1.6,  # 1/s: desired speed per foot still to go
    sway=0.9,  # ft/s: unrest of the body, standing or not
    sway_seconds=0.5,  # how long it lasts
    sway_speed=0.06,  # additional unrest per ft/s of speed
    wall=(0.4, 2.0),  # seconds that a player looks ahead for the lines; 1/s: speed towards a line per foot still to it
    near=2.0,  # feet: the target counts as reached
    arriving=0.75,  # share of players far from the rim that still arrive at the start
    crash=(0.30, 5.8, 1.0),  # share that go for the rebound at the end; when (mean and spread, seconds)
    retreat=(0.28, 6.9, 0.7),  # share that run back on defence
)  # fmt: skip

STAND, DRIFT, RELOCATE, CUT, CURL, ARRIVE, CRASH, RETREAT, START = range(len(NEXT))
MAP = {ARRIVE: 5, RELOCATE: 6, CURL: 6, CUT: 7, CRASH: 8}  # the column of SPOTS that an intent's targets come from


def simulate_possessions(count: int, seed: int = 0, steps: int = 24) -> np.ndarray:
    """Positions in feet, float32 [count, steps + 1, 2], of `count` offensive players over `steps` / 3 seconds."""
    blocks = [_simulate_block(np.random.default_rng([seed, block]), steps) for block in range(-(-count // BLOCK))]
    return np.concatenate([np.empty((0, steps + 1, 2), np.float32), *blocks])[:count]


def _simulate_block(rng: np.random.Generator, steps: int) -> np.ndarray:
    """Positions [BLOCK, steps + 1, 2] of one block of players."""
    dt = 1 / (HZ * SUBSTEPS)
    players = _Players(rng, steps / HZ)
    frames = [players.position.copy()]
    for substep in range(1, steps * SUBSTEPS + 1):
        players.decide(substep * dt)
        players.move(dt)
        if substep % SUBSTEPS == 0:
            frames.append(players.position.copy())
    return np.stack(frames, axis=1).astype(np.float32)


class _Players:
    """A block of players: where they are, how they move, and what they are about."""

    def __init__(self, rng: np.random.Generator, seconds: float):
        self.rng = rng
        spots = np.array(list(SPOTS.values()))
        self.spots = np.concatenate([spots, spots * [1, -1, 1, 1, 1, 1, 1, 1, 1, 1]])
        self.intents = np.array(list(INTENTS.values()))
        self.next = np.array(list(NEXT.values()))
        spot = rng.choice(len(self.spots), BLOCK, p=self.spots[:, 4] / self.spots[:, 4].sum())
        self.position, self.hold = self._near(spot), self.spots[spot, 9]
        self.target = self.position.copy()
        self.intent = np.zeros(BLOCK, int)
        self.speed, self.bend, self.until, self.way = np.ones((4, BLOCK))
        self.sway = BODY["sway"] * rng.normal(size=(BLOCK, 2))
        self.velocity, self.acceleration = np.zeros((2, BLOCK, 2))
        self.closing, self.closing_time = self._plan_the_end(seconds)
        self._start()

    def _plan_the_end(self, seconds):
        """Whether and when each player crashes the boards or runs back: intents (or -1) and times."""
        (crash, crash_time, crash_spread), (back, back_time, back_spread) = BODY["crash"], BODY["retreat"]
        chance, jitter = self.rng.random(BLOCK), self.rng.normal(size=BLOCK)
        crashing, retreating = chance < crash, chance > 1 - back
        early = np.where(crashing, crash_time + crash_spread * jitter, back_time + back_spread * jitter)
        return np.where(crashing, CRASH, np.where(retreating, RETREAT, -1)), early + seconds - 8

    def _start(self):
        """First intents, with the body already on its way."""
        everyone = np.arange(BLOCK)
        far = self.position[:, 0] > self.rng.uniform(12, 32, BLOCK)
        arriving = far & (self.rng.random(BLOCK) < BODY["arriving"])
        self._begin(everyone, np.where(arriving, ARRIVE, self._draw_next(everyone, np.full(BLOCK, START))), 0.0)
        self.velocity = self._desired_velocity() * self.rng.uniform(0.5, 1.2, (BLOCK, 1))

    def _draw_next(self, who, intents):
        """The intents that follow `intents`; at a spot to hold, standing is more likely."""
        weight = self.next[intents]
        weight[:, STAND] *= self.hold[who]
        return self._draw(weight)

    def _draw(self, weights):
        """One column a row, drawn with chances proportional to `weights`."""
        share = np.cumsum(weights, axis=1)
        return (self.rng.random((len(share), 1)) * share[:, -1:] > share).sum(axis=1)

    def _near(self, spot):
        """A point of the court near each given spot."""
        feet, degrees, feet_spread, degrees_spread = self.spots[spot, :4].T
        distance = feet + feet_spread * self.rng.normal(size=len(spot))
        angle = np.deg2rad(degrees + degrees_spread * self.rng.normal(size=len(spot)))
        point = RIM + distance[:, None] * np.stack([np.cos(angle), np.sin(angle)], axis=1)
        return np.clip(point, 1.0 + self.rng.random(point.shape), COURT - 1.0 - self.rng.random(point.shape))

    def decide(self, time: float):
        """Players whose intent is over take up the next; at the possession's end some crash or run back."""
        closing = (self.closing >= 0) & (time > self.closing_time)
        over = np.flatnonzero(closing | (time > self.until) | (self._to_go()[1] < BODY["near"]) & (self.intent > DRIFT))
        intents = np.where(closing[over], self.closing[over], self._draw_next(over, self.intent[over]))
        self.closing[closing] = -1
        self._begin(over, intents, time)

    def _begin(self, who, intents, time):
        """Give players `who` their new intents: target, speed, bend and length."""
        speed, spread, bend, seconds, _ = self.intents[intents].T
        for intent in np.unique(intents):
            if intent != STAND:
                self._aim(who[intents == intent], intent)
        self.intent[who] = intents
        self.speed[who] = speed * np.exp(spread * self.rng.normal(size=len(who)))
        self.bend[who] = bend * self.rng.normal(size=len(who))
        lasts = self.rng.exponential(size=len(who)) * self.hold[who]
        self.until[who] = time + seconds * np.where(intents <= DRIFT, lasts, 1.0)
        self.way[who] = self._to_go(who)[1]

    def _aim(self, who, intent):
        """Choose targets of one intent for players `who`, nearer ones more often."""
        reach = self.intents[intent, 4]
        if intent == DRIFT:
            self.target[who] = self.position[who] + reach * self.rng.normal(size=(len(who), 2))
        elif intent == RETREAT:
            self.target[who] = np.stack([self.rng.uniform(38, 60, len(who)), self.rng.normal(25, 7, len(who))], 1)
            return
        else:
            points = self._near(np.tile(np.arange(len(self.spots)), len(who))).reshape(len(who), -1, 2)
            distance = np.linalg.norm(points - self.position[who, None], axis=-1)
            weight = self.spots[:, MAP[intent]] * np.exp(-distance / reach) * (distance > 5) + 1e-9
            spot = self._draw(weight)
            self.target[who], self.hold[who] = points[np.arange(len(who)), spot], self.spots[spot, 9]
        self.target[who] = np.clip(self.target[who], 1.0, COURT - 1.0)

    def _to_go(self, who=slice(None)):
        """The way to the target, as vectors and feet."""
        way = self.target[who] - self.position[who]
        return way, np.hypot(way[:, 0], way[:, 1]) + 1e-6

    def _desired_velocity(self):
        """Towards the target along an arc, slowing down before it, plus sway."""
        way, distance = self._to_go()
        speed = np.minimum(self.speed, BODY["braking"] * distance) / distance
        angle = self.bend * np.minimum(distance / self.way, 1.0)  # the tangent-chord angle of a circle
        cos, sin = speed * np.cos(angle), speed * np.sin(angle)
        x, y = way.T
        desired = np.stack([cos * x - sin * y, sin * x + cos * y], axis=1) + self.sway
        ahead = self.position + BODY["wall"][0] * self.velocity
        return np.clip(desired, -BODY["wall"][1] * ahead, BODY["wall"][1] * (COURT - ahead))

    def move(self, dt: float):
        """Advance the bodies by `dt` seconds: limited acceleration, limited speed, inside the court."""
        fade = dt / BODY["sway_seconds"]
        unrest = BODY["sway"] + BODY["sway_speed"] * np.hypot(*self.velocity.T)
        self.sway += -fade * self.sway + (unrest * np.sqrt(2 * fade))[:, None] * self.rng.normal(size=(BLOCK, 2))
        wanted = _shorten((self._desired_velocity() - self.velocity) / BODY["response"], BODY["acceleration"])
        self.acceleration += dt / (dt + BODY["effort"]) * (wanted - self.acceleration)
        self.velocity = _shorten(self.velocity + dt * self.acceleration, BODY["top_speed"])
        moved = self.position + dt * self.velocity
        self.position = np.clip(moved, 0.0, COURT)
        self.velocity[moved != self.position] = 0.0


def _shorten(vectors, longest):
    """The vectors, scaled down to at most `longest`."""
    length = np.hypot(vectors[:, 0], vectors[:, 1])[:, None]
    return vectors * (longest / np.maximum(length, longest))
