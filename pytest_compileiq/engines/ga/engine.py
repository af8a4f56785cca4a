"""Ask and tell of the embedded engine: an initial pool, then batches of four slots.

Two slots go to expected improvement of a Gaussian process, one to a Parzen density ratio, all from one evolutionary
pool; one to the marginals of the best, screened by the process's lower bound. The mix won a race on real objectives.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

import numpy as np

from pytest_compileiq.engines.base import Brief, Told
from pytest_compileiq.engines.ga.encoding import Encoding, Floats, Points, distances
from pytest_compileiq.engines.ga.feasibility import success_probability
from pytest_compileiq.engines.ga.marginals import sample_marginals
from pytest_compileiq.engines.ga.parzen import Parzen
from pytest_compileiq.engines.ga.process import GaussianProcess, Hyper, expected_improvement
from pytest_compileiq.engines.ga.ranking import best_first
from pytest_compileiq.engines.ga.variation import crossover, mutate, neighbours
from pytest_compileiq.errors import MarkerError
from pytest_compileiq.model import Candidate
from pytest_compileiq.space import OFF, Point

_OPTIONS = {"pool_size": 16}
_MAX_FITTED = 400
_ELITE = 20
_LOCAL_STARTS, _LOCAL_ROUNDS, _LOCAL_SIZE = 4, 3, 12
_RECENT = 20
_DUPLICATE_SHARE = 0.25
_DRAWS = 200


class Ga:
    """Model-assisted evolutionary search. Never asks a point twice; ends when the space is exhausted."""

    def __init__(self, brief: Brief) -> None:
        self._space = brief.space
        self._encoding = Encoding.of(brief.space)
        self._rng = np.random.default_rng(brief.seed)
        self._objectives = brief.n_objectives
        # Options of each gene with off among them, whether it may be off or not: what may not be is repaired.
        self._counts = np.array([len(gene.values) + 1 for gene in brief.space.genes], dtype=np.int64)
        self._asked: set[Point] = set()
        self._points: list[Point] = []
        self._scores: list[tuple[float, ...]] = []
        self._failed: list[bool] = []
        self._recent: deque[bool] = deque(maxlen=_RECENT)
        self._hyper = Hyper.prior(len(brief.space.genes))
        self._tabu = 0
        self._queue: list[tuple[Point, str]] = []
        self._enqueue_initial(brief)

    def ask(self, n: int) -> list[Candidate]:
        """Up to ``n`` candidates; fewer at the end of a batch, none when every point has been asked."""
        if not self._queue:
            self._enqueue_batch()
        taken, self._queue = self._queue[:n], self._queue[n:]
        return [Candidate(self._space.knobs(point), origin=origin) for point, origin in taken]

    def tell(self, results: Sequence[Told]) -> None:
        """Take in results; a failure is remembered as one and never given a score."""
        for told in results:
            self._points.append(self._space.point(told.candidate.knobs))
            self._scores.append(told.scores)
            self._failed.append(told.failure is not None)
            self._recent.append(told.duplicate)
        crowded = len(self._recent) == _RECENT and sum(self._recent) > _DUPLICATE_SHARE * _RECENT
        self._tabu = min(self._tabu + 1, 4) if crowded else max(self._tabu - 1, 0)

    # ── the initial pool ─────────────────────────────────────────────────────────────────────────────────────────

    def _enqueue_initial(self, brief: Brief) -> None:
        options = dict(brief.options or {})
        if unknown := sorted(set(options) - set(_OPTIONS)):
            raise MarkerError(f"engine 'ga' has no option {unknown[0]!r}: expected {', '.join(_OPTIONS)}")
        size = options.get("pool_size", _OPTIONS["pool_size"])
        if isinstance(size, bool) or not isinstance(size, int) or not 1 <= size <= 10_000:
            raise MarkerError(f"engine 'ga': pool_size = {size!r}: expected an integer from 1 to 10000")
        self._enqueue(self._baseline(), "baseline")
        for point in brief.seed_points():
            self._enqueue(point, "seed")
        for number in range(size):
            self._enqueue_random(sparse=number % 2 == 1)

    def _baseline(self) -> Point:
        """Everything off that may be off; the first value of everything else."""
        return self._space.canonical([OFF if gene.knockout_prob > 0 else 0 for gene in self._space.genes])

    def _enqueue_random(self, *, sparse: bool) -> None:
        """A draw by the space's own probabilities, or a sparse one of log-uniform density."""
        for _ in range(_DRAWS):
            genes = max(len(self._space.genes), 4)
            density = float(np.exp(self._rng.uniform(np.log(2 / genes), np.log(0.5)))) if sparse else None
            if self._enqueue(self._space.sample(self._rng, density), "random"):
                return

    def _enqueue(self, point: Point, origin: str) -> bool:
        if point in self._asked:
            return False
        self._asked.add(point)
        self._queue.append((point, origin))
        return True

    # ── a batch ──────────────────────────────────────────────────────────────────────────────────────────────────

    def _enqueue_batch(self) -> None:
        if len(self._asked) >= self._space.size:
            return
        scored = [index for index, scores in enumerate(self._scores) if scores]
        if len(scored) < 4:
            for _ in range(4):
                self._enqueue_random(sparse=True)
        else:
            self._enqueue_modelled(scored)
        if not self._queue:
            self._enqueue_rest()

    def _enqueue_modelled(self, scored: Sequence[int]) -> None:
        points = np.array([self._points[index] for index in scored], dtype=np.int64)
        scores = np.array([self._scores[index] for index in scored])
        order = best_first(scores)
        points, scalars = points[order], self._scalars(scores)[order]
        fitted = _best_and_newest(order, _MAX_FITTED)
        process, best = self._fit(points[fitted], scalars[fitted])
        parzen = Parzen(points, self._counts)
        pool = self._pool(points, parzen, process, best)
        for slot in ("improvement", "parzen", "improvement", "marginals"):
            among = (
                self._canonical(sample_marginals(points, self._counts, self._rng, 60)) if slot == "marginals" else pool
            )
            features = self._encoding.features(among)
            chosen = self._choose(among, features, self._worth(slot, among, features, process, parzen, best))
            if chosen is not None:
                self._enqueue(tuple(int(index) for index in among[chosen]), slot)
                process = process.believing(features[chosen : chosen + 1])

    def _worth(
        self, slot: str, points: Points, features: Floats, process: GaussianProcess, parzen: Parzen, best: float
    ) -> Floats:
        """What a slot thinks of ``points`` (m, genes), higher is better: (m,)."""
        success = self._success(features)
        if slot == "parzen":
            return parzen.log_ratio(points) + np.log(success)
        mean, deviation = process.predict(features)
        if slot == "improvement":
            return expected_improvement(mean, deviation, best) * success
        return deviation - mean + np.log(success)

    def _scalars(self, scores: Floats) -> Floats:
        """One number a point: the score, or a random weighting of several normalised ones."""
        if self._objectives == 1:
            return scores[:, 0]
        low, high = scores.min(axis=0), scores.max(axis=0)
        weights = self._rng.dirichlet(np.ones(scores.shape[1]))
        normalised: Floats = (scores - low) / np.maximum(high - low, 1e-12)
        return np.asarray(normalised @ weights)

    def _fit(self, points: Points, scalars: Floats) -> tuple[GaussianProcess, float]:
        """The process on squashed and standardised scores, and the best of these."""
        middle = np.median(scalars)
        scale = max(float(middle - scalars.min()), 1e-9)
        squashed = np.where(
            scalars > middle, middle + scale * np.log1p(np.maximum(scalars - middle, 0) / scale), scalars
        )
        standard = (squashed - squashed.mean()) / max(float(squashed.std()), 1e-9)
        process = GaussianProcess(self._encoding, self._encoding.features(points), standard, self._hyper).improved()
        self._hyper = process.hyper
        return process, float(standard.min())

    def _success(self, features: Floats) -> Floats:
        newest = slice(-_MAX_FITTED, None)
        told = self._encoding.features(np.array(self._points[newest], dtype=np.int64))
        return success_probability(told, np.array(self._failed[newest], dtype=np.float64), features)

    def _choose(self, pool: Points, features: Floats, value: Floats) -> int | None:
        """The best of the pool that has not been asked and lies outside the tabu distance of what has."""
        ranked = np.argsort(-value, kind="stable")
        fresh = [int(index) for index in ranked if tuple(int(one) for one in pool[index]) not in self._asked]
        if not fresh or not self._tabu:
            return fresh[0] if fresh else None
        told = self._encoding.features(np.array(self._points[-_MAX_FITTED:], dtype=np.int64))
        near = distances(features[fresh], told, self._encoding.share).min(axis=1)
        return next((index for index, gap in zip(fresh, near, strict=True) if gap > self._tabu), fresh[0])

    # ── the evolutionary pool ────────────────────────────────────────────────────────────────────────────────────

    def _pool(self, points: Points, parzen: Parzen, process: GaussianProcess, best: float) -> Points:
        """About 360 canonical points, and what local search finds from the best four; shape (m, genes)."""
        elite = points[:_ELITE]
        relevance = np.exp(self._hyper.log_weights)
        pool = self._canonical(
            np.vstack([
                sample_marginals(points, self._counts, self._rng, 110),
                parzen.sample(self._rng, 60),
                mutate(crossover(elite, self._rng, 90), self._counts, self._rng),
                mutate(elite[self._rng.integers(len(elite), size=80)], self._counts, self._rng, relevance),
                np.array([self._space.sample(self._rng) for _ in range(20)], dtype=np.int64),
            ])
        )  # fmt: skip
        for _ in range(_LOCAL_ROUNDS):
            mean, deviation = process.predict(self._encoding.features(pool))
            starts = np.argsort(-expected_improvement(mean, deviation, best), kind="stable")[:_LOCAL_STARTS]
            around = [neighbours(pool[start], self._counts, self._rng, _LOCAL_SIZE) for start in starts]
            pool = np.unique(np.vstack([pool, self._canonical(np.vstack(around))]), axis=0)
        return pool

    def _canonical(self, points: Points) -> Points:
        """Repaired and canonical: what may not be off is at a random value, what is inactive is off."""
        result = []
        for point in points:
            repaired = [
                int(self._rng.integers(len(gene.values))) if index == OFF and gene.knockout_prob == 0 else int(index)
                for gene, index in zip(self._space.genes, point, strict=True)
            ]
            result.append(self._space.canonical(repaired))
        return np.unique(np.array(result, dtype=np.int64), axis=0)

    def _enqueue_rest(self) -> None:
        """What random draws or, in a small space, enumeration still find."""
        self._enqueue_random(sparse=False)
        if self._queue:
            return
        if self._space.size <= 1_000_000:
            for point in self._space.points():
                if self._enqueue(point, "rest"):
                    return


def _best_and_newest(order: Points, limit: int) -> Points:
    """Positions in a best-first ``order`` of the best half and the newest half of at most ``limit``."""
    if len(order) <= limit:
        return np.arange(len(order))
    newest = np.argsort(-order, kind="stable")
    chosen = dict.fromkeys([*range(limit // 2), *newest.tolist()])
    return np.array(sorted(list(chosen)[:limit]), dtype=np.int64)
