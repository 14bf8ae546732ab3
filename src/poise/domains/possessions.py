"""Simulated half-court possessions: one offensive player's movement, with human speeds and basketball's geography.

A player follows a chain of *intents* (stand, drift, relocate, cut, curl, ...). An intent has a target on the court, a
desired speed and a bend; the body follows with limited acceleration. The numbers below were set by hand and by a small
random search against summary statistics of real tracking (benchmarks/simulated_basketball.py); no positions are copied.
"""

from __future__ import annotations

import numpy as np

COURT = np.array([47.0, 50.0])  # feet; the half court
RIM = np.array([5.25, 25.0])
HZ = 3  # frames a second in the result
SUBSTEPS = 5  # integration steps a frame: 15 Hz
BLOCK = 4096  # players simulated together; row i never depends on `count`

# Spots, in polar coordinates around the rim, used with both signs of the angle. The weights say how often a possession
# starts there and how often an arriving, a roaming (relocating, curling), a cutting and a crashing player goes there;
# `hold` scales how likely and how long players stand there.
#             feet  degrees  spread: feet, degrees   start  arrive  roam  cut   crash  hold
SPOTS = {
    "corner":   (23.2, 86.0,   0.7,  4.2,             1.2,   2.0,    2.2,  0.0,  0.0,   2.0),
    "low wing": (24.3, 67.0,   1.0,  9.0,             0.8,   1.0,    1.2,  0.0,  0.0,   1.1),
    "wing":     (26.0, 41.0,   1.4, 14.0,             1.3,   2.9,    2.2,  0.0,  0.0,   1.9),
    "top":      (28.0, 12.5,   2.2, 10.0,             0.9,   1.3,    1.5,  0.0,  0.0,   1.2),
    "elbow":    (17.0, 36.0,   3.8, 19.0,             2.2,   0.5,    1.0,  0.8,  0.0,   0.6),
    "post":     (11.5, 74.0,   3.0, 20.0,             0.9,   0.8,    0.8,  1.2,  0.4,   0.9),
    "baseline": (17.0, 89.0,   2.5, 10.0,             0.6,   0.5,    0.5,  0.2,  0.0,   0.8),
    "rim":      ( 5.0, 43.0,   2.5, 50.0,             0.4,   0.3,    0.3,  1.5,  2.2,   0.3),
    "deep":     (34.0, 14.0,   4.5, 16.0,             2.2,   0.0,    0.2,  0.0,  0.0,   0.4),
}  # fmt: skip

# Intents. Desired speed: median (ft/s) and spread (of its logarithm). Bend: spread of the angle between the first
# heading and the target (radians): the path is an arc. Seconds: mean length of standing and drifting; otherwise the
# longest. Reach: nearer targets are preferred, by a factor of e every so many feet (a drift: its usual length).
#               speed  spread  bend  seconds  reach
INTENTS = {
    "stand":    (3.2,  0.5,    0.0,  2.0,      0.0),
    "drift":    (3.9,  0.5,    0.65, 1.5,      4.5),
    "relocate": (6.6,  0.4,    0.55, 4.8,     10.0),
    "cut":      (12.8, 0.22,   0.35, 3.0,     15.0),
    "curl":     (9.1,  0.35,   1.1,  2.4,     13.0),
    "arrive":   (8.0,  0.5,    0.27, 5.0,     13.0),
    "crash":    (6.5,  0.4,    0.4,  2.0,     20.0),
    "retreat":  (10.0, 0.3,    0.3,  4.0,      0.0),
}  # fmt: skip

# What follows what: the chances to stand, drift, relocate, cut and curl next.
NEXT = {
    "stand":    (0.00, 0.45, 0.25, 0.12, 0.18),
    "drift":    (0.40, 0.24, 0.18, 0.08, 0.10),
    "relocate": (0.48, 0.25, 0.12, 0.05, 0.10),
    "cut":      (0.20, 0.20, 0.35, 0.00, 0.25),
    "curl":     (0.33, 0.25, 0.16, 0.16, 0.10),
    "arrive":   (0.40, 0.30, 0.15, 0.05, 0.10),
    "crash":    (0.50, 0.50, 0.00, 0.00, 0.00),
    "retreat":  (0.00, 0.00, 1.00, 0.00, 0.00),
    "start":    (0.32, 0.23, 0.22, 0.09, 0.14),
}  # fmt: skip

# The body and the clock.
RESPONSE = 0.34  # seconds to take up a desired velocity
EFFORT = 0.08  # seconds to change the acceleration
ACCELERATION = 20.0  # ft/s^2, the most a player manages
TOP_SPEED = 21.0  # ft/s
BRAKING = 1.7  # 1/s: the desired speed falls with the feet to go
SWAY, SWAY_PER_SPEED, SWAY_SECONDS = 0.75, 0.14, 0.8  # unrest of the body: ft/s, more of it at speed, and its memory
UNREST_SPREAD = 0.5  # some players sway more than others (of the logarithm)
LOOK_AHEAD, SHY = 0.4, 2.0  # seconds a player looks ahead for the lines; 1/s: speed allowed by the feet still to a line
NEAR = 2.1  # feet at which a target counts as reached
ARRIVING = 0.5  # share of players far from the rim that are still arriving at the start
SHOT_SHARE, SHOT_TIME, SHOT_SPREAD = 0.48, 1.6, 0.8  # share that react to a shot; its seconds before the end
REBOUND = (5.0, 30.0)  # feet from the rim within which all, and none, of them crash the boards; the others run back

STAND, DRIFT, RELOCATE, CUT, CURL, ARRIVE, CRASH, RETREAT, START = range(len(NEXT))
GOES_TO = {ARRIVE: 5, RELOCATE: 6, CURL: 6, CUT: 7, CRASH: 8}  # the column of SPOTS that an intent's targets come from


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
        self.unrest = np.exp(UNREST_SPREAD * rng.normal(size=BLOCK))
        self.sway = (SWAY * self.unrest)[:, None] * rng.normal(size=(BLOCK, 2))
        self.velocity, self.acceleration = np.zeros((2, BLOCK, 2))
        shot = seconds - rng.normal(SHOT_TIME, SHOT_SPREAD, BLOCK)
        self.shot = np.where(rng.random(BLOCK) < SHOT_SHARE, shot, np.inf)
        self._start()

    def _start(self):
        """First intents, with the body already on its way."""
        everyone = np.arange(BLOCK)
        far = self.position[:, 0] > self.rng.uniform(12, 32, BLOCK)
        arriving = far & (self.rng.random(BLOCK) < ARRIVING)
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
        shot = time > self.shot
        self.shot[shot] = np.inf
        reached = (self.intent > DRIFT) & (self._to_go()[1] < NEAR)
        over = np.flatnonzero(shot | reached | (time > self.until))
        far = np.linalg.norm(self.position[over] - RIM, axis=1) > self.rng.uniform(*REBOUND, len(over))
        reaction = np.where(far, RETREAT, CRASH)
        self._begin(over, np.where(shot[over], reaction, self._draw_next(over, self.intent[over])), time)

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
        """Choose targets of one intent for players `who`."""
        if intent == DRIFT:
            point = self.position[who] + self.intents[DRIFT, 4] * self.rng.normal(size=(len(who), 2))
            self.target[who] = np.clip(point, 1.0, COURT - 1.0)
        elif intent == RETREAT:  # to and beyond the half-court line
            self.target[who] = self.rng.uniform((36.0, 13.0), (52.0, 37.0), (len(who), 2))
        else:
            self._aim_at_spot(who, intent)

    def _aim_at_spot(self, who, intent):
        """Choose a spot that suits the intent, at least five feet away, nearer ones more often."""
        points = self._near(np.tile(np.arange(len(self.spots)), len(who))).reshape(len(who), -1, 2)
        distance = np.linalg.norm(points - self.position[who, None], axis=-1)
        nearness = np.exp(-distance / self.intents[intent, 4]) * (distance > 5.0)
        spot = self._draw(self.spots[:, GOES_TO[intent]] * nearness + 1e-9)
        self.target[who], self.hold[who] = points[np.arange(len(who)), spot], self.spots[spot, 9]

    def _to_go(self, who=slice(None)):
        """The way to the target, as vectors and feet."""
        way = self.target[who] - self.position[who]
        return way, np.hypot(way[:, 0], way[:, 1]) + 1e-6

    def _desired_velocity(self):
        """Towards the target along an arc, slowing down before it, plus sway."""
        way, distance = self._to_go()
        speed = np.minimum(self.speed, BRAKING * distance) / distance
        angle = self.bend * np.minimum(distance / self.way, 1.0)  # the tangent-chord angle of a circle
        cos, sin = speed * np.cos(angle), speed * np.sin(angle)
        x, y = way.T
        desired = np.stack([cos * x - sin * y, sin * x + cos * y], axis=1) + self.sway
        ahead = self.position + LOOK_AHEAD * self.velocity
        return np.clip(desired, -SHY * ahead, SHY * (COURT - ahead))

    def move(self, dt: float):
        """Advance the bodies by `dt` seconds: limited acceleration, limited speed, inside the court."""
        fade = dt / SWAY_SECONDS
        unrest = self.unrest * SWAY + SWAY_PER_SPEED * np.hypot(*self.velocity.T)
        self.sway += -fade * self.sway + (unrest * np.sqrt(2 * fade))[:, None] * self.rng.normal(size=(BLOCK, 2))
        wanted = _limit((self._desired_velocity() - self.velocity) / RESPONSE, ACCELERATION)
        self.acceleration += dt / (dt + EFFORT) * (wanted - self.acceleration)
        self.velocity += dt * self.acceleration
        self.velocity /= np.maximum(np.linalg.norm(self.velocity, axis=1, keepdims=True) / TOP_SPEED, 1.0)
        moved = self.position + dt * self.velocity
        self.position = np.clip(moved, 0.0, COURT)
        self.velocity[moved != self.position] = 0.0


def _limit(vectors, longest):
    """The vectors, smoothly shortened so that none is longer than `longest`."""
    return vectors / np.sqrt(1 + (vectors**2).sum(axis=1, keepdims=True) / longest**2)
