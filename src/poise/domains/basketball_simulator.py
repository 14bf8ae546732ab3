"""Simulated half-court possessions: the movement of one offensive player, with human speeds and basketball's geography.

A player follows a chain of *intents* (stand, drift, relocate, cut, curl, ...). An intent has a target on the court, a
desired speed and a bend; the body follows with limited acceleration. The constants below were set by hand and by a
small random search against summary statistics of real tracking data (benchmarks/simulated_basketball.py); no positions
are copied.
"""

from __future__ import annotations

import numpy as np

COURT = np.array([47.0, 50.0])  # feet; the half court
RIM = np.array([5.25, 25.0])
HZ = 3  # frames per second in the result
SUBSTEPS = 5  # integration steps per frame: 15 Hz
BLOCK = 4096  # players simulated together, so that row i never depends on `count`

# Spots, in polar coordinates around the rim, used with both signs of the angle. The weights are the relative
# frequencies with which a possession starts there and with which an arriving, a roaming (relocating, curling), a
# cutting and a crashing player goes there; `hold` scales how often and how long players stand there.
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

# Intents. Desired speed: median (ft/s) and spread (standard deviation of its logarithm). Bend: spread of the angle
# between the first heading and the target (radians); the path is an arc. Seconds: the mean duration of standing and
# drifting, the longest duration of the others. Reach: the distance in feet over which the weight of a target falls by a
# factor of e; for a drift, its usual length.
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

# Transition probabilities from each intent to stand, drift, relocate, cut and curl.
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

# The body, and the time of a shot.
RESPONSE = 0.34  # seconds to reach a desired velocity
EFFORT = 0.08  # seconds to change the acceleration
ACCELERATION = 20.0  # ft/s^2, the largest
TOP_SPEED = 21.0  # ft/s
BRAKING = 1.7  # 1/s: the largest desired speed per foot that is left to the target
SWAY, SWAY_PER_SPEED, SWAY_SECONDS = 0.75, 0.14, 0.8  # random velocity: ft/s, growth with speed, correlation time
SWAY_SPREAD = 0.5  # spread of the sway between players (standard deviation of its logarithm)
LOOK_AHEAD, MARGIN_RATE = 0.4, 2.0  # seconds a player looks ahead for the lines; 1/s: largest speed per foot to a line
NEAR = 2.1  # feet at which a target counts as reached
ARRIVING = 0.5  # share of the players far from the rim that are still arriving at the start
SHOT_SHARE, SHOT_TIME, SHOT_SPREAD = 0.48, 1.6, 0.8  # share that reacts to a shot; its time before the end, in seconds
REBOUND = (5.0, 30.0)  # feet from the rim within which all, and beyond which none, crash the boards; others run back

STAND, DRIFT, RELOCATE, CUT, CURL, ARRIVE, CRASH, RETREAT, START = range(len(NEXT))
TARGET_COLUMN = {ARRIVE: 5, RELOCATE: 6, CURL: 6, CUT: 7, CRASH: 8}  # the weights in SPOTS from which targets are drawn


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
    """A block of players: their positions, their velocities and their intents."""

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
        self.speed, self.bend, self.until, self.first_distance = np.ones((4, BLOCK))
        self.sway_scale = np.exp(SWAY_SPREAD * rng.normal(size=BLOCK))
        self.sway = (SWAY * self.sway_scale)[:, None] * rng.normal(size=(BLOCK, 2))
        self.velocity, self.acceleration = np.zeros((2, BLOCK, 2))
        shot = seconds - rng.normal(SHOT_TIME, SHOT_SPREAD, BLOCK)
        self.shot = np.where(rng.random(BLOCK) < SHOT_SHARE, shot, np.inf)
        self._start()

    def _start(self):
        """Draw first intents, and give the bodies velocities that fit them."""
        everyone = np.arange(BLOCK)
        far = self.position[:, 0] > self.rng.uniform(12, 32, BLOCK)
        arriving = far & (self.rng.random(BLOCK) < ARRIVING)
        self._begin(everyone, np.where(arriving, ARRIVE, self._draw_next(everyone, np.full(BLOCK, START))), 0.0)
        self.velocity = self._desired_velocity() * self.rng.uniform(0.5, 1.2, (BLOCK, 1))

    def _draw_next(self, who, intents):
        """The intents that follow `intents`; standing is more likely where `hold` is high."""
        weight = self.next[intents]
        weight[:, STAND] *= self.hold[who]
        return self._draw(weight)

    def _draw(self, weights):
        """One column per row, drawn with probabilities proportional to `weights`."""
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
        """Give a new intent to players whose intent has ended; after a shot, players crash the boards or run back."""
        shot = time > self.shot
        self.shot[shot] = np.inf
        reached = (self.intent > DRIFT) & (self._to_target()[1] < NEAR)
        over = np.flatnonzero(shot | reached | (time > self.until))
        far = np.linalg.norm(self.position[over] - RIM, axis=1) > self.rng.uniform(*REBOUND, len(over))
        reaction = np.where(far, RETREAT, CRASH)
        self._begin(over, np.where(shot[over], reaction, self._draw_next(over, self.intent[over])), time)

    def _begin(self, who, intents, time):
        """Give players `who` new intents: target, speed, bend and duration."""
        speed, spread, bend, seconds, _ = self.intents[intents].T
        for intent in np.unique(intents):
            if intent != STAND:
                self._aim(who[intents == intent], intent)
        self.intent[who] = intents
        self.speed[who] = speed * np.exp(spread * self.rng.normal(size=len(who)))
        self.bend[who] = bend * self.rng.normal(size=len(who))
        durations = self.rng.exponential(size=len(who)) * self.hold[who]
        self.until[who] = time + seconds * np.where(intents <= DRIFT, durations, 1.0)
        self.first_distance[who] = self._to_target(who)[1]

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
        """Choose spots that suit the intent, at least five feet away, nearer ones more often."""
        points = self._near(np.tile(np.arange(len(self.spots)), len(who))).reshape(len(who), -1, 2)
        distance = np.linalg.norm(points - self.position[who, None], axis=-1)
        nearness = np.exp(-distance / self.intents[intent, 4]) * (distance > 5.0)
        spot = self._draw(self.spots[:, TARGET_COLUMN[intent]] * nearness + 1e-9)
        self.target[who], self.hold[who] = points[np.arange(len(who)), spot], self.spots[spot, 9]

    def _to_target(self, who=slice(None)):
        """The vectors to the targets, and their lengths in feet."""
        vectors = self.target[who] - self.position[who]
        return vectors, np.hypot(vectors[:, 0], vectors[:, 1]) + 1e-6

    def _desired_velocity(self):
        """The desired velocity: towards the target along an arc, slower near it and near the lines, plus sway."""
        vectors, distance = self._to_target()
        speed = np.minimum(self.speed, BRAKING * distance) / distance
        angle = self.bend * np.minimum(distance / self.first_distance, 1.0)  # the tangent-chord angle of a circle
        cos, sin = speed * np.cos(angle), speed * np.sin(angle)
        x, y = vectors.T
        desired = np.stack([cos * x - sin * y, sin * x + cos * y], axis=1) + self.sway
        ahead = self.position + LOOK_AHEAD * self.velocity
        return np.clip(desired, -MARGIN_RATE * ahead, MARGIN_RATE * (COURT - ahead))

    def move(self, dt: float):
        """Advance the bodies by `dt` seconds, with limited acceleration and speed, inside the court."""
        decay = dt / SWAY_SECONDS
        scale = self.sway_scale * SWAY + SWAY_PER_SPEED * np.hypot(*self.velocity.T)
        self.sway += -decay * self.sway + (scale * np.sqrt(2 * decay))[:, None] * self.rng.normal(size=(BLOCK, 2))
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
