"""The belief of `auto` for 0/1 rewards and for amounts, as slowly and plainly as it can be said."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from scipy import linalg, optimize, stats

from test_pool import evidence_of, mean, moved, slope

HAZARDS = (0.0, 1 / 5000, 1 / 800, 1 / 150)
TIGHTNESS = (1.0, 0.25, 0.0625)
BASE_PRECISION = (10.0, 0.1, 0.1)
TRUST = (0.3, 0.1, 0.1, 0.1, 0.4)
SPEEDS = (2.0**-12, 2.0**-8)
SCALES = (16384.0, 4096.0, 1024.0, 256.0)
EARLY = -(10**9)


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


class PlainBelief:
    """Features are two and a constant; every matrix is made anew where it is needed."""

    phi = 1.0

    def __init__(self, d: int, threshold: float, lam: float = 1.0) -> None:
        self.d, self.threshold, self.lam = d + 1, threshold, lam
        self.clock = self.sets = 0
        self.mean, self.moments = np.zeros(self.d), np.zeros((self.d, self.d))
        self.peaks, self.offered = np.zeros(self.d), 0.0
        self.renewal, self.kind = 0, 0
        self.segments: list[Segment] = []
        self.trust = np.array(TRUST)
        self.drifting = np.full(6, 1 / 6)
        self.rows: list[tuple[int, np.ndarray, float]] = []
        self.reported = self.newest = EARLY
        self.base = 0.0
        self.detections: list[tuple[int, int]] = []

    # -- the prior -----------------------------------------------------------------------------

    def prior(self, kind: int, is_new: bool) -> np.ndarray:
        """Its precision: of slopes about the mean of the features, and of a base there."""
        n, p = self.d, self.d - 1
        lam = self.lam * TIGHTNESS[kind]
        about = self.moments[:p, :p] - np.outer(self.mean[:p], self.mean[:p])
        doubted = min(1.0, (n / max(self.offered, 1.0)) ** 4)
        slopes = lam * n * (1 - doubted) * about
        least = max(1e-8, max(self.offered, 1.0) ** -16)
        variance = np.maximum(np.diag(about), least * np.diag(self.moments)[:p])
        alone = lam * np.maximum(n * variance, 0.25 * self.peaks[:p])
        np.fill_diagonal(slopes, alone * (1 + 1e-8))
        base = max(BASE_PRECISION[kind], 4.0) if is_new else BASE_PRECISION[kind]
        apart = np.eye(n)
        apart[p] = self.mean  # the base is what theta says of the mean
        return apart.T @ linalg.block_diag(slopes, [[base]]) @ apart

    def offer(self, actions: np.ndarray) -> None:
        rows = np.hstack([actions, np.ones((len(actions), 1))])
        self.sets += 1
        rate = 3.0 / (self.sets + 2.0)
        self.offered = min(self.offered + len(rows), len(rows) * (self.sets / 3.0 + 1.0))
        self.mean = self.mean + rate * (rows.mean(axis=0) - self.mean)
        self.moments = self.moments + rate * (rows.T @ rows / len(rows) - self.moments)
        away = ((rows - self.mean) ** 2).max(axis=0)
        self.peaks = np.maximum((1 - rate) * self.peaks, away)
        if self.sets >= self.renewal:
            self.renewal = max(self.sets + 1, int(1.2 * self.sets))
            self.newborn = np.linalg.inv(self.prior(self.kind, True))
        if not self.segments:
            for kind in range(3):
                P = np.linalg.inv(self.prior(kind, False))
                self.segments.append(
                    Segment(EARLY, kind, 0.0, np.zeros(self.d), P, np.full(4, 1 / 3))
                )
            self.begin_drifts(self.segments[0])

    # -- drifts: place and velocity in natural units -------------------------------------------

    def begin_drifts(self, segment: Segment) -> None:
        self.rough = [[segment.theta.copy(), segment.P.copy()] for _ in SPEEDS]
        self.smooth = []
        for scale in SCALES:
            speed = 3.0 / scale**2 * self.newborn
            state = np.concatenate([segment.theta, np.zeros(self.d)])
            self.smooth.append([state, linalg.block_diag(segment.P, speed)])

    def tick(self, rounds: int = 1) -> None:
        self.clock += rounds
        home = np.zeros(self.d)
        home[-1] = self.base
        for filter, speed in zip(self.rough, SPEEDS, strict=True):
            kept = (1 - speed) ** rounds
            filter[0] = home + math.sqrt(kept) * (filter[0] - home)
            filter[1] = kept * filter[1] + (1 - kept) * self.newborn
        for filter, scale in zip(self.smooth, SCALES, strict=True):
            rate = math.sqrt(3.0) / scale
            step = linalg.expm(rounds * np.array([[0.0, 1.0], [-(rate**2), -2 * rate]]))
            still = np.diag([1.0, rate**2])
            wide, away = np.kron(step, np.eye(self.d)), np.concatenate([home, np.zeros(self.d)])
            filter[0] = away + wide @ (filter[0] - away)
            fresh = np.kron(still - step @ still @ step.T, self.newborn)
            filter[1] = wide @ filter[1] @ wide.T + fresh

    # -- the mixture ---------------------------------------------------------------------------

    def held(self, segment: Segment) -> float:
        return float(self.trust[:4] @ segment.weights)

    def gaussians(self) -> list[tuple[float, np.ndarray, np.ndarray]]:
        d, drift = self.d, self.trust[4] * self.drifting
        found = [(self.held(s), s.theta, s.P) for s in self.segments]
        found += [(w, *f) for w, f in zip(drift[:2], self.rough, strict=True)]
        places = [(f[0][:d], f[1][:d, :d]) for f in self.smooth]
        return found + [(w, *f) for w, f in zip(drift[2:], places, strict=True)]

    def theta(self) -> np.ndarray:
        return sum(w * theta for w, theta, _ in self.gaussians())

    def scores(self, actions: np.ndarray) -> np.ndarray:
        self.offer(actions)
        rows = np.hstack([actions, np.ones((len(actions), 1))])
        centre = self.theta()
        covariance = np.zeros((self.d, self.d))
        for w, theta, P in self.gaussians():
            if w > 1e-4:
                covariance += w * (self.phi * P + np.outer(theta - centre, theta - centre))
        z = rows @ centre
        square = np.einsum("ki,ij,kj->k", rows, covariance, rows)
        prior = np.einsum("ki,ij,kj->k", rows, self.newborn, rows)
        best = int(np.argmax(z))
        even = 4.0 * square[best] / prior[best]
        wandering = self.phi * np.einsum("ki,ij,kj->k", rows, self.rough[0][1], rows)
        doubt = wandering - 4.0 * wandering[best] / prior[best] * prior
        uneven = square / (even * prior) if even > 0.0 else np.ones(len(rows))
        c = 0.5**2 + 2 * np.log(np.maximum(uneven, 1.0))
        looks = 2.5 * max(len(rows) - 1, 1) ** -0.25
        wandered = rows @ self.rough[0][0] + looks * np.sqrt(np.maximum(doubt, 0.0))
        high = z + np.sqrt(c * square)
        return self.mean_of(np.where(doubt > 0.0, np.maximum(high, wandered), high))

    # -- learning ------------------------------------------------------------------------------

    def update(self, a: np.ndarray, x: float, s: int) -> None:
        row = np.append(a, 1.0)
        d, age = self.d, self.clock - s
        evidence = np.full(len(self.segments) + 6, np.nan)
        reach = [i for i, segment in enumerate(self.segments) if segment.start <= s]
        for i in reach:
            segment = self.segments[i]
            evidence[i] = self.learned([segment.theta, segment.P], row, x, 1.0)
            segment.count += 1
        doubt = row @ self.newborn @ row
        for i, filter in enumerate([*self.rough, *self.smooth]):
            if i < 2:
                moved_by = 2 * (1 - (1 - SPEEDS[i]) ** (age / 2))
                wide = row
            else:
                way = math.sqrt(3.0) * age / SCALES[i - 2]
                moved_by = 2 * (1 - (1 + way) * math.exp(-way))
                wide = np.concatenate([row, np.zeros(d)])
            z = wide @ filter[0]
            weight = 1 / (1 + self.slope_of(z) * doubt * moved_by)
            evidence[i - 6] = self.learned(filter, wide, x, weight)
        self.weigh(evidence, reach)
        self.rows.append((s, row, x))
        self.rows.sort(key=lambda one: one[0])
        self.fit(s)
        self.look_for_change()
        if s > self.newest:
            self.newest = s
            self.base = float(self.mean @ self.theta())
            if len(self.rows) >= 8:
                self.give_birth(s + 1)

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
        drift = self.drifting * np.exp(evidence[n:])
        self.trust[4] *= drift.sum()
        self.drifting = (1 - 5e-5) * drift / drift.sum() + 5e-5 / 6
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
            rows = np.array([row for when, row, _ in self.rows if when >= segment.start])
            xs = np.array([x for when, _, x in self.rows if when >= segment.start])
            segment.theta, segment.P = self.fitted(rows, xs, prior, segment.base)
            if everything and segment.kind == likely and segment.count <= 64:
                self.begin_drifts(segment)
        if likely != self.kind:
            self.kind = likely
            self.newborn = np.linalg.inv(self.prior(likely, True))

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

    def give_birth(self, start: int) -> None:
        last = self.segments[-1].start
        rounds = 1 if last == EARLY else start - last
        stays = (1 - np.array(HAZARDS)) ** rounds
        for segment in self.segments:
            segment.weights *= stays
        theta = np.zeros(self.d)
        theta[-1] = self.base
        newborn = Segment(start, self.kind, self.base, theta, self.newborn.copy(), 1 - stays)
        self.segments.append(newborn)
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

    def mean_of(self, z: np.ndarray) -> np.ndarray:
        return mean(z)

    def slope_of(self, z: np.ndarray) -> np.ndarray:
        return slope(z)

    def moved(self, x: float, z: float, q: float, weight: float) -> float:
        return moved(x, z, q, weight)

    def evidence(self, x: float, z: float, q: float) -> float:
        return evidence_of(x, z, q)

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
        """By SciPy: the root of the penalised score, and the inverse of its slope there."""
        home = np.zeros(len(prior))
        home[-1] = base

        def score(theta):
            return prior @ (theta - home) + rows.T @ (mean(rows @ theta) - xs)

        def curvature(theta):
            return prior + rows.T @ (slope(rows @ theta)[:, None] * rows)

        def loss(theta):
            z, away = rows @ theta, theta - home
            return away @ prior @ away / 2 + np.logaddexp(0.0, z).sum() - xs @ z

        near = optimize.minimize(loss, home, jac=score, hess=curvature, method="trust-exact").x
        found = optimize.root(score, near, jac=curvature, tol=1e-14).x
        return found, np.linalg.inv(curvature(found))


class PlainAmounts(PlainBelief):
    """The same for rewards that are numbers, of whose noise nothing is known before."""

    phi = freedom = 0.0

    def __init__(self, d: int, threshold: float) -> None:
        super().__init__(d, threshold)
        self.amounts: list[float] = []  # beyond the first
        self.errors: list[float] = []  # of the forecasts
        self.largest = 0.0

    def scores(self, actions: np.ndarray) -> np.ndarray:
        self.phi = self.dispersion()
        return super().scores(actions) + (self.offset if self.amounts else 0.0)

    def update(self, a: np.ndarray, x: float, s: int) -> None:
        if not self.amounts:
            self.offset = x
        self.phi = self.dispersion()
        self.freedom = min(max(sum(self.weights()) - 1.0, 1.0), 8.0)
        self.amounts.append(x - self.offset)
        self.errors.append(x - self.offset - float(np.append(a, 1.0) @ self.theta()))
        super().update(a, x - self.offset, s)

    def weights(self) -> np.ndarray:
        """Of the rewards so far: a thousand are remembered."""
        return 0.999 ** np.arange(len(self.amounts))[::-1]

    def dispersion(self) -> float:
        if not self.amounts:
            return 0.0
        w, xs = self.weights(), np.array(self.amounts)
        variance = float(np.cov(xs, aweights=w, ddof=0))
        self.largest = max(self.largest, variance)
        seen = float(w @ np.square(self.errors))
        of_all = (20 * variance + seen) / (20 + w.sum())
        return max((5 * of_all + seen) / (5 + w.sum()), 1e-8 * self.largest)

    def mean_of(self, z: np.ndarray) -> np.ndarray:
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
