"""The belief of `auto` for 0/1 rewards and for amounts, as slowly and plainly as it can be said."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np
from scipy import linalg, optimize, special, stats

HAZARDS = (0.0, 1 / 5000, 1 / 800, 1 / 150)
TIGHTNESS = (1.0, 0.25, 0.0625)
BASE_PRECISION = (10.0, 0.1, 0.1)
TRUST = (0.3, 0.1, 0.1, 0.1, 0.4)
SPEEDS = (2.0**-12, 2.0**-8)
SCALES = (16384.0, 4096.0, 1024.0, 256.0)
EARLY = -(10**9)


def mean(z):
    return special.expit(z)


def slope(z):
    return special.expit(z) * special.expit(-z)


def within_range(z: np.ndarray) -> np.ndarray:
    """No a . theta is told from another one that is as good as certain too."""
    return np.clip(z, -30.0, 30.0)


@dataclass
class Segment:
    """A Gaussian that holds what came since some round."""

    start: int
    kind: int
    base: float
    theta: np.ndarray
    P: np.ndarray
    weights: np.ndarray  # (4,), in the chains
    count: int = 0


@dataclass
class Column:
    """Values and limits of one column."""

    reference: float
    since: int = 0  # sets before the reference was taken
    moved: int = 0  # values that differed from it, one of a set
    kept: list[float] = field(default_factory=list)
    size: float = 0.0
    begun: float = 0.0  # the size when the slope last began

    def differs(self, x: float) -> bool:
        return not math.isclose(x, self.reference, rel_tol=1e-12)

    def keep(self, x: float) -> bool:
        """Keep one of `every` values, the last 32 of them; whether this one was."""
        self.moved += 1
        every = max(1, self.moved // 96)
        if self.moved % every:
            return False
        place = (self.moved // every - 1) % 32
        self.kept[place : place + 1] = [x]
        return True

    def has_strange_reference(self, sets: int) -> bool:
        """True if most values differ from the reference, and half of them are near another one."""
        if self.moved < 2 or self.moved <= 0.6 * (sets - self.since):
            return False
        if self.moved > 32 and self.spread > 0.0:
            return False
        return abs(self.reference - self.median) > 300.0 * self.spread

    @property
    def median(self) -> float:
        return float(np.median(self.kept))

    @property
    def spread(self) -> float:
        """Median of the distances from the median, the upper one of two."""
        return sorted(abs(x - self.median) for x in self.kept)[len(self.kept) // 2]

    def refer_to(self, reference: float, sets: int) -> None:
        held = len(self.kept)
        self.reference, self.since = reference, sets - held
        self.kept = [x for x in self.kept if self.differs(x)]
        self.moved = len(self.kept)
        if not self.kept:
            self.begun = 0.0

    def measure(self) -> None:
        """The size is the distance that 88 % of the values do not exceed."""
        distances = sorted(abs(x - self.reference) for x in self.kept)
        self.size = distances[max(1, int(0.88 * len(distances))) - 1] if distances else 0.0

    def seen(self, x: np.ndarray) -> np.ndarray:
        """Numbers as the model is given them."""
        if self.moved == 0:
            return np.zeros_like(x)
        farthest = (5.0 + 80.0 / self.moved) * self.size
        return np.clip(x - self.reference, -farthest, farthest)


class PlainBelief:
    """Features are a few and a constant; every matrix is made anew where it is needed."""

    phi = 1.0

    def __init__(self, d: int, threshold: float, lam: float = 1.0) -> None:
        self.d, self.threshold, self.lam = d + 1, threshold, lam
        self.clock = self.sets = 0
        self.columns: list[Column] = []
        self.moments, self.offered = np.zeros((self.d, self.d)), 0.0
        self.renewal = self.kind = self.prior_kind = 0
        self.prior_P = np.zeros((self.d, self.d))
        self.segments: list[Segment] = []
        self.matern12: list[list[np.ndarray]] = []
        self.matern32: list[list[np.ndarray]] = []
        self.trust = np.array(TRUST)
        self.drift_weights = np.full(6, 1 / 6)
        self.memory: list[tuple[int, np.ndarray, float]] = []
        self.reported = self.newest = EARLY
        self.base = 0.0
        self.detections: list[tuple[int, int]] = []

    # -- columns -------------------------------------------------------------------------------

    def rows_of(self, actions: np.ndarray) -> np.ndarray:
        """Actions as the model is given them, with a constant."""
        seen = [column.seen(x) for column, x in zip(self.columns, actions.T, strict=True)]
        return np.column_stack([*seen, np.ones(len(actions))])

    @property
    def mean(self) -> np.ndarray:
        """Of the rows."""
        return self.moments[-1]

    @property
    def seen(self) -> np.ndarray:
        """The features that have moved, and the constant."""
        return np.array([*(j for j, one in enumerate(self.columns) if one.moved), self.d - 1])

    def follow(self, j: int, offered: np.ndarray) -> bool:
        """Let a column follow the numbers of a set; whether its slope begins anew."""
        column = self.columns[j]
        looked_at = offered[[self.sets % len(offered)]] if column.moved else offered
        differing = [float(x) for x in looked_at if column.differs(x)]
        is_other = False
        if not differing or not column.keep(differing[0]):
            return False
        if column.has_strange_reference(self.sets):
            self.shift(j, column.median - column.reference)
            column.refer_to(column.median, self.sets)
            is_other = True
        column.measure()
        is_anew = not column.begun / 1000 <= column.size <= column.begun * 1000
        if is_anew:
            column.begun = column.size
        if is_anew or is_other:
            self.take_moments(j)
        return is_anew

    def take_moments(self, j: int) -> None:
        """Those of a column from what is kept of it, as if it told nothing of the others."""
        column = self.columns[j]
        u = np.clip(np.array(column.kept) - column.reference, -column.size, column.size)
        share = column.moved / (self.sets - column.since)  # the others are at the reference
        mean, square = (share * u.mean(), share * (u**2).mean()) if len(u) else (0.0, 0.0)
        self.moments[j] = self.moments[:, j] = mean * self.mean
        self.moments[j, -1] = self.moments[-1, j] = mean
        self.moments[j, j] = square

    def shift(self, j: int, by: float) -> None:
        """Say everything of numbers that are counted from elsewhere: a . theta is the same."""
        T = np.eye(self.d)
        T[-1, j] = by
        wide = np.kron(np.eye(2), T)
        self.prior_P = T @ self.prior_P @ T.T
        for one in self.segments:
            one.theta, one.P = T @ one.theta, T @ one.P @ T.T
        self.matern12 = [[T @ theta, T @ P @ T.T] for theta, P in self.matern12]
        self.matern32 = [[wide @ theta, wide @ P @ wide.T] for theta, P in self.matern32]

    def begin_slope(self, j: int) -> None:
        """Let a slope be what the prior says of it by itself, about the mean."""
        T = np.eye(self.d)
        T[-1, j] = -self.mean[j]

        def begin(theta: np.ndarray, P: np.ndarray, variances: list[float]) -> None:
            slopes = [j + i * self.d for i in range(len(variances))]
            theta[slopes] = P[slopes] = P[:, slopes] = 0.0
            P[slopes, slopes] = variances
            wide = np.kron(np.eye(len(variances)), T)
            P[:] = wide @ P @ wide.T

        variance = 1 / self.precision_alone(j)
        likely = variance / TIGHTNESS[self.kind]
        begin(np.zeros(self.d), self.prior_P, [likely])
        for one in self.segments:
            begin(one.theta, one.P, [variance / TIGHTNESS[one.kind]])
        for theta, P in self.matern12:
            begin(theta, P, [likely])
        for (theta, P), scale in zip(self.matern32, SCALES, strict=False):
            begin(theta, P, [likely, 3.0 / scale**2 * likely])

    # -- the prior -----------------------------------------------------------------------------

    def precision_alone(self, j: int) -> float:
        """Precision of one slope; a rare feature counts as one of all that share its size."""
        mean = self.mean[j]
        variance = max(self.moments[j, j] - mean**2, 0.0)
        size = max(self.columns[j].size - abs(mean), 0.0)
        return self.lam * max(len(self.seen) * variance, 0.25 * size**2)

    def prior(self, kind: int, is_new: bool) -> np.ndarray:
        """Its precision: of slopes about the mean of the features, and of a base there."""
        slopes, n = self.seen[:-1], len(self.seen)
        about = (self.moments - np.outer(self.mean, self.mean))[np.ix_(slopes, slopes)]
        shrunk = min(1.0, (n / max(self.offered, 1.0)) ** 4)
        precision = self.lam * n * (1 - shrunk) * about
        alone = np.array([self.precision_alone(j) for j in slopes])
        np.fill_diagonal(precision, alone * (1 + 1e-8))
        base = max(BASE_PRECISION[kind], 4.0) if is_new else BASE_PRECISION[kind]
        apart = np.eye(n)
        apart[-1] = self.mean[self.seen]  # the base is what theta says of the mean
        return apart.T @ linalg.block_diag(TIGHTNESS[kind] * precision, [[base]]) @ apart

    def widened(self, P: np.ndarray) -> np.ndarray:
        """A covariance of seen features, where all else is 0 for certain."""
        wide = np.zeros((self.d, self.d))
        wide[np.ix_(self.seen, self.seen)] = P
        return wide

    def covariance(self, kind: int, is_new: bool) -> np.ndarray:
        return self.widened(np.linalg.inv(self.prior(kind, is_new)))

    def offer(self, actions: np.ndarray) -> np.ndarray:
        """Let columns and prior follow a set; the rows that the model is given."""
        self.sets += 1
        if not self.columns:
            self.columns = [Column(float(x)) for x in actions[0]]
        begun = [j for j, offered in enumerate(actions.T) if self.follow(j, offered)]
        rows = self.rows_of(actions)
        n = 1 if (actions == actions[0]).all() else len(rows)
        rate = 3.0 / (self.sets + 2.0)
        self.offered = min(self.offered + n, n * (self.sets / 3.0 + 1.0))
        self.moments = self.moments + rate * (rows.T @ rows / len(rows) - self.moments)
        for j in begun:
            self.begin_slope(j)
        if self.sets >= self.renewal or self.kind != self.prior_kind:
            self.renewal = max(self.sets + 1, int(1.2 * self.sets))
            self.prior_kind = self.kind
            self.prior_P = self.covariance(self.kind, True)
        if not self.segments:
            for kind in range(3):
                P, even = self.covariance(kind, False), np.full(4, 1 / 3)
                self.segments.append(Segment(EARLY, kind, 0.0, np.zeros(self.d), P, even))
            self.begin_drifts(self.segments[0])
        return rows

    # -- drifts: place and velocity in natural units -------------------------------------------

    def begin_drifts(self, segment: Segment) -> None:
        self.matern12 = [[segment.theta.copy(), segment.P.copy()] for _ in SPEEDS]
        self.matern32 = []
        for scale in SCALES:
            speed = 3.0 / scale**2 * self.prior_P
            state = np.concatenate([segment.theta, np.zeros(self.d)])
            self.matern32.append([state, linalg.block_diag(segment.P, speed)])

    def tick(self, rounds: int = 1) -> None:
        self.clock += rounds
        home = np.zeros(self.d)
        home[-1] = self.base
        for filter, speed in zip(self.matern12, SPEEDS, strict=True):
            kept = (1 - speed) ** rounds
            filter[0] = home + math.sqrt(kept) * (filter[0] - home)
            filter[1] = kept * filter[1] + (1 - kept) * self.prior_P
        for filter, scale in zip(self.matern32, SCALES, strict=True):
            rate = math.sqrt(3.0) / scale
            step = linalg.expm(rounds * np.array([[0.0, 1.0], [-(rate**2), -2 * rate]]))
            still = np.diag([1.0, rate**2])
            wide, away = np.kron(step, np.eye(self.d)), np.concatenate([home, np.zeros(self.d)])
            filter[0] = away + wide @ (filter[0] - away)
            fresh = np.kron(still - step @ still @ step.T, self.prior_P)
            filter[1] = wide @ filter[1] @ wide.T + fresh

    # -- the mixture ---------------------------------------------------------------------------

    def held(self, segment: Segment) -> float:
        return float(self.trust[:4] @ segment.weights)

    def gaussians(self) -> list[tuple[float, np.ndarray, np.ndarray]]:
        d, drift = self.d, self.trust[4] * self.drift_weights
        found = [(self.held(s), s.theta, s.P) for s in self.segments]
        found += [(w, *f) for w, f in zip(drift[:2], self.matern12, strict=True)]
        places = [(f[0][:d], f[1][:d, :d]) for f in self.matern32]
        return found + [(w, *f) for w, f in zip(drift[2:], places, strict=True)]

    def theta(self) -> np.ndarray:
        return sum(w * theta for w, theta, _ in self.gaussians())

    def told(self) -> np.ndarray:
        """The same for actions as they are offered."""
        theta = self.theta()
        theta[-1] -= sum(one.reference * theta[j] for j, one in enumerate(self.columns))
        return theta

    def scores(self, actions: np.ndarray) -> np.ndarray:
        rows = self.offer(actions)
        centre = self.theta()
        covariance = np.zeros((self.d, self.d))
        for w, theta, P in self.gaussians():
            if w > 1e-4:
                covariance += w * (self.phi * P + np.outer(theta - centre, theta - centre))
        z = rows @ centre
        square = np.einsum("ki,ij,kj->k", rows, covariance, rows)
        prior = np.einsum("ki,ij,kj->k", rows, self.prior_P, rows)
        best = int(np.argmax(self.mean_of(z, square)))
        even = 4.0 * square[best] / prior[best]
        drift_variance = self.phi * np.einsum("ki,ij,kj->k", rows, self.matern12[0][1], rows)
        unknown = drift_variance - 4.0 * drift_variance[best] / prior[best] * prior
        uneven = square / (even * prior) if even > 0.0 else np.ones(len(rows))
        c = 0.5**2 + 2 * np.log(np.maximum(uneven, 1.0))
        others = max(len(rows) - 1, 1)
        revisited = rows @ self.matern12[0][0]
        revisited += 2.5 * others**-0.25 * np.sqrt(np.maximum(unknown, 0.0))
        high = z + np.sqrt(c * square / math.sqrt(others))
        return self.mean_of(np.where(unknown > 0.0, np.maximum(high, revisited), high), square)

    # -- learning ------------------------------------------------------------------------------

    def update(self, a: np.ndarray, reward: float, s: int) -> None:
        x = float(self.outcomes(np.array([reward]))[0])
        row = self.rows_of(a[None])[0]
        d, age = self.d, self.clock - s
        evidence = np.full(len(self.segments) + 6, np.nan)
        reach = [i for i, segment in enumerate(self.segments) if segment.start <= s]
        for i in reach:
            segment = self.segments[i]
            evidence[i] = self.learned([segment.theta, segment.P], row, x, 1.0)
            segment.count += 1
        prior = row @ self.prior_P @ row
        for i, filter in enumerate([*self.matern12, *self.matern32]):
            if i < 2:
                moved_by = 2 * (1 - (1 - SPEEDS[i]) ** (age / 2))
                wide = row
            else:
                way = math.sqrt(3.0) * age / SCALES[i - 2]
                moved_by = 2 * (1 - (1 + way) * math.exp(-way))
                wide = np.concatenate([row, np.zeros(d)])
            z = wide @ filter[0]
            weight = 1 / (1 + self.slope_of(z) * prior * moved_by)
            evidence[i - 6] = self.learned(filter, wide, x, weight)
        self.weigh(evidence, reach)
        self.memory.append((s, a, reward))
        self.memory.sort(key=lambda one: one[0])
        self.fit(s)
        self.look_for_change()
        if s > self.newest:
            self.newest = s
            self.base = float(self.mean @ self.theta())
            if len(self.memory) >= 8:
                self.begin_segment(s + 1)

    def weigh(self, evidence: np.ndarray, reach: list[int]) -> None:
        n = len(self.segments)
        held = np.array([self.held(segment) for segment in self.segments])
        together = np.log(held[reach] @ np.exp(evidence[reach]) / held[reach].sum())
        evidence[:n][np.isnan(evidence[:n])] = together
        for h in range(4):
            chain = np.array([s.weights[h] for s in self.segments]) * np.exp(evidence[:n])
            self.trust[h] *= chain.sum()
            for segment, weight in zip(self.segments, chain / chain.sum(), strict=True):
                segment.weights[h] = weight
        drift = self.drift_weights * np.exp(evidence[n:])
        self.trust[4] *= drift.sum()
        self.drift_weights = (1 - 5e-5) * drift / drift.sum() + 5e-5 / 6
        self.trust = (1 - 1e-5) * self.trust / self.trust.sum() + 1e-5 * np.array(TRUST)

    def fit(self, s: int) -> None:
        total = [sum(self.held(x) for x in self.segments if x.kind == k) for k in range(3)]
        likely = int(np.argmax(total))
        for segment in self.segments:
            everything = segment.start == EARLY
            wanted = segment.count in ([2**i for i in range(12)] if everything else [16, 64, 256])
            if segment.start > s or not wanted:
                continue
            prior = self.prior(segment.kind, not everything)
            held = [(a, x) for when, a, x in self.memory if when >= segment.start]
            rows = self.rows_of(np.array([a for a, _ in held]))[:, self.seen]
            xs = self.outcomes(np.array([reward for _, reward in held]))
            segment.theta = np.zeros(self.d)
            segment.theta[self.seen], P = self.fitted(rows, xs, prior, segment.base)
            segment.P = self.widened(P)
            if everything and segment.kind == likely and segment.count <= 64:
                self.begin_drifts(segment)
        self.kind = likely

    def look_for_change(self) -> None:
        held = np.array([self.held(segment) for segment in self.segments])
        since = np.array([segment.start > self.reported for segment in self.segments])
        if held[since].sum() > self.threshold * held.sum():
            likely = int(np.argmax(np.where(since, held, -1.0)))
            self.reported = self.segments[likely].start
            self.detections.append((self.clock, self.reported))
            for i, segment in enumerate(self.segments):
                segment.weights[0] = float(i == likely)
            chains = self.trust[:4].sum()
            self.trust[1:4] *= 0.5 * chains / self.trust[1:4].sum()
            self.trust[0] = 0.5 * chains

    def begin_segment(self, start: int) -> None:
        last = self.segments[-1].start
        rounds = 1 if last == EARLY else start - last
        stays = (1 - np.array(HAZARDS)) ** rounds
        for segment in self.segments:
            segment.weights *= stays
        theta = np.zeros(self.d)
        theta[-1] = self.base
        segment = Segment(start, self.kind, self.base, theta, self.prior_P.copy(), 1 - stays)
        self.segments.append(segment)
        if len(self.segments) > 8:
            self.merge(start)

    def merge(self, now: int) -> None:
        losses = []
        for i, segment in enumerate(self.segments[:-1]):
            gap = 1.0
            if i > 0 and self.segments[i - 1].start > EARLY:
                before = self.segments[i - 1].start
                gap = (self.segments[i + 1].start - before) / (now - before)
            losses.append(gap * (self.held(segment) + 1e-12))
        i = int(np.argmin(losses))
        starts = [segment.start for segment in self.segments]
        nearer = i > 0 and starts[i] - starts[i - 1] <= starts[i + 1] - starts[i]
        self.segments[i - 1 if nearer else i + 1].weights += self.segments[i].weights
        del self.segments[i]

    # -- what the rewards are ------------------------------------------------------------------

    def outcomes(self, rewards: np.ndarray) -> np.ndarray:
        """Rewards as the model is given them."""
        return rewards

    def mean_of(self, z: np.ndarray, square: np.ndarray) -> np.ndarray:
        """Averaged over the belief: MacKay's factor (1992)."""
        return mean(within_range(z) / np.sqrt(1 + np.pi / 8 * square))

    def slope_of(self, z: np.ndarray) -> np.ndarray:
        return slope(z)

    def moved(self, x: float, z: float, q: float, weight: float) -> float:
        """Root of t = weight (x - mean(z + q t))."""
        surprise = weight * (x - mean(z))
        if surprise == 0.0:
            return 0.0
        low, high = sorted((0.0, surprise))
        root = optimize.brentq(
            lambda t: t - weight * (x - mean(z + q * t)), low, high, xtol=1e-15, rtol=1e-14
        )
        return float(root)

    def evidence(self, x: float, z: float, q: float) -> float:
        """Laplace's approximation of the log-probability of a 0/1 reward."""
        t = self.moved(x, z, q, 1.0)
        mode = z + q * t
        gain = x * mode - np.logaddexp(0.0, mode)
        return float(gain - q * t * t / 2 - math.log1p(q * slope(mode)) / 2)

    def learned(
        self, gaussian: list[np.ndarray], row: np.ndarray, x: float, weight: float
    ) -> float:
        """Move a Gaussian to the mode of prior times likelihood; the evidence beforehand."""
        theta, P = gaussian
        along, z = P @ row, float(row @ theta)
        q = float(row @ along)
        evidence = self.evidence(x, z, q)
        t = self.moved(x, z, q, weight)
        theta += t * along
        information = weight * self.slope_of(z + q * t)
        P -= np.outer(along, along) * information / (1 + q * information)
        return evidence

    def fitted(
        self, rows: np.ndarray, xs: np.ndarray, prior: np.ndarray, base: float
    ) -> tuple[np.ndarray, np.ndarray]:
        """By SciPy: the root of the penalised score, and the inverse of its slope there.

        It is looked for in units in which the prior is the identity.
        """
        home = np.zeros(len(prior))
        home[-1] = base
        units = np.linalg.inv(np.linalg.cholesky(prior)).T
        a, z_home = rows @ units, rows @ home

        def score(w):
            return w + a.T @ (mean(z_home + a @ w) - xs)

        def curvature(w):
            return np.eye(len(w)) + a.T @ (slope(within_range(z_home + a @ w))[:, None] * a)

        def loss(w):
            z = z_home + a @ w
            return w @ w / 2 + np.logaddexp(0.0, z).sum() - xs @ z

        near = optimize.minimize(
            loss, 0.0 * home, jac=score, hess=curvature, method="trust-exact", tol=1e-9
        ).x
        found = optimize.root(score, near, jac=curvature, tol=1e-14).x
        return home + units @ found, units @ np.linalg.inv(curvature(found)) @ units.T


class PlainAmounts(PlainBelief):
    """Belief about amounts, whose noise is not known beforehand."""

    phi = freedom = 0.0

    def __init__(self, d: int, threshold: float) -> None:
        super().__init__(d, threshold)
        self.range = Column(0.0)  # of the rewards
        self.amounts: list[float] = []  # beyond the first
        self.errors: list[float] = []  # of the forecasts
        self.largest = self.offset = 0.0
        self.low, self.high = -math.inf, math.inf

    def scores(self, actions: np.ndarray) -> np.ndarray:
        self.phi = self.dispersion()
        return super().scores(actions) + self.offset

    def update(self, a: np.ndarray, reward: float, s: int) -> None:
        self.follow_rewards(reward)
        if not self.amounts:
            self.offset = reward
        self.phi = self.dispersion()
        self.freedom = min(max(sum(self.weights()) - 1.0, 1.0), 8.0)
        x = float(self.outcomes(np.array([reward]))[0])
        self.amounts.append(x)
        self.errors.append(x - float(self.rows_of(a[None])[0] @ self.theta()))
        super().update(a, reward, s)

    def follow_rewards(self, reward: float) -> None:
        """Limit rewards to several sizes about their median, unless all are the same."""
        if not self.range.keep(reward):
            return
        kept = sorted(self.range.kept)
        median = kept[(len(kept) - 1) // 2]
        distances = sorted(abs(x - median) for x in kept if x != median)
        self.low, self.high = -math.inf, math.inf
        if distances:
            size = distances[max(1, int(0.88 * len(distances))) - 1]
            farthest = (5.0 + 80.0 / self.range.moved) * size
            self.low, self.high = median - farthest, median + farthest

    def outcomes(self, rewards: np.ndarray) -> np.ndarray:
        return np.clip(rewards, self.low, self.high) - self.offset

    def weights(self) -> np.ndarray:
        """Of the rewards so far: a thousand are remembered."""
        return 0.999 ** np.arange(len(self.amounts))[::-1]

    def dispersion(self) -> float:
        if not self.amounts:
            return 0.0
        w, xs = self.weights(), np.array(self.amounts)
        variance = float(np.cov(xs, aweights=w, ddof=0))
        self.largest = max(self.largest, variance)
        most = ((self.high - self.low) / 2) ** 2
        seen = min(float(w @ np.square(self.errors)), most * w.sum())
        found = (20 * min(variance, most) + seen) / (20 + w.sum())
        return max(found, 1e-8 * self.largest)

    def mean_of(self, z: np.ndarray, square: np.ndarray) -> np.ndarray:
        return z

    def slope_of(self, z: np.ndarray) -> np.ndarray:
        return np.ones_like(z)

    def moved(self, x: float, z: float, q: float, weight: float) -> float:
        return weight * (x - z) / (1 + weight * q)

    def evidence(self, x: float, z: float, q: float) -> float:
        if self.phi == 0.0:
            return 0.0
        return float(stats.t.logpdf(x, self.freedom, z, math.sqrt(self.phi * (1 + q))))

    def fitted(
        self, rows: np.ndarray, xs: np.ndarray, prior: np.ndarray, base: float
    ) -> tuple[np.ndarray, np.ndarray]:
        P = np.linalg.inv(prior + rows.T @ rows)
        return P @ (rows.T @ xs + prior[:, -1] * base), P
