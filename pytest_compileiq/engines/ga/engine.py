"""Ask and tell of the embedded engine: an initial pool, then four slots in turn.

Two slots go to expected improvement of a Gaussian process over an evolutionary pool, and two to fresh draws by the
marginals of the best, judged by their ratio to those of the rest: the former refine, the latter keep exploring. The
pool is made anew every four candidates. Each slot is filled when it is asked for, from all that has been told until
then; what has been asked and not yet told is believed to be as predicted.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice

import numpy as np

from pytest_compileiq.engines.base import Brief, Outlook, Told, integer_options
from pytest_compileiq.engines.ga.gaussian_process import Located, Surrogate, expected_improvement
from pytest_compileiq.engines.ga.points import Encoding, Floats, Points, PointSpace, crossover, mutate, neighbours
from pytest_compileiq.engines.ga.portfolio import portfolio_of
from pytest_compileiq.engines.ga.ranking import KEPT, Feasibility, History, Known, Marginals, Sameness
from pytest_compileiq.model import Candidate
from pytest_compileiq.space import OFF, Point
from pytest_compileiq.space.parameters import UNDECIDED

_SLOTS = ("marginals", "improvement", "marginals", "improvement")
_POOL_SIZE = 16
_POOL_WITH_PORTFOLIO = 12
_FEWEST_SCORED = 4
_ELITE = 20
_LOCAL_STARTS, _LOCAL_ROUNDS, _LOCAL_SIZE = 4, 3, 12
_DRAWS = 200
_MARGINAL_DRAWS = 24
_CHOICE = 128


@dataclass(frozen=True)
class _Pool:
    """Candidates of the next four slots: points (m, genes), their features, and how likely they are not to fail."""

    points: Points
    features: Floats
    feasibility: Feasibility


class Ga:
    """Model-assisted evolutionary search. Never asks a point twice; ends when the space is exhausted."""

    def __init__(self, brief: Brief) -> None:
        self._space = brief.space
        self._points = PointSpace(brief.space)
        self._encoding = Encoding.of(brief.space)
        self._rng = np.random.default_rng(brief.seed)
        self._history = History(self._encoding, brief.n_objectives)
        self._asked: set[Point] = set()
        self._pending: dict[Point, None] = {}
        self._listed = deque(portfolio_of(brief.space, brief.metrics))
        self._surrogate = Surrogate(self._encoding, self._history, self._rng)
        self._sameness = Sameness(self._points.counts)
        self._fitted_to = 0  # candidates told
        self._told_known: Known | None = None
        self._marginals: Marginals | None = None  # of what has been told
        self._located: Located | None = None  # the pool
        self._slots: list[str] = []
        self._queue: deque[tuple[Point, str]] = deque()
        self._outlook: Outlook | None = None  # of the last improvement slot; none with several objectives
        self._drawn = 0
        usual = _POOL_WITH_PORTFOLIO if self._listed else _POOL_SIZE
        self._pool_size = integer_options("ga", brief, {"pool_size": (1, 10_000)}).get("pool_size", usual)
        baseline = self._space.canonical([OFF if gene.knockout_prob > 0 else 0 for gene in self._space.genes])
        if self._space.allows(baseline):
            self._enqueue(baseline, "baseline")
        for point in brief.seed_points():
            self._enqueue(point, "seed")

    def ask(self, n: int) -> list[Candidate]:
        asked: list[Candidate] = []
        while len(asked) < n and (self._queue or self._enqueue_next()):
            point, origin = self._queue.popleft()
            self._pending[point] = None
            asked.append(Candidate(self._space.knobs(point), origin=origin))
        return asked

    def tell(self, results: Sequence[Told]) -> None:
        if not results:
            return
        points = [self._space.point(told.candidate.knobs) for told in results]
        missing = [np.nan] * self._history.scores.shape[1]
        scores = [missing if told.failure is not None else told.scores for told in results]
        self._history.add(np.array(points, dtype=np.int64), np.array(scores), [told.code for told in results])
        self._told_known = self._marginals = self._located = None
        for point in points:
            self._pending.pop(point, None)

    def outlook(self) -> Outlook | None:
        return self._outlook

    # ── the initial pool ─────────────────────────────────────────────────────────────────────────────────────────

    def _enqueue_drawn(self) -> bool:
        """The next of the initial pool: of the portfolio first, then by the space's own probabilities."""
        self._drawn += 1
        # Two thirds: the portfolio's sets are alike, so they alone do not show the model how far it holds here.
        while self._listed and self._drawn <= self._pool_size * 2 // 3:
            listed, drawn = np.array([self._listed.popleft()], dtype=np.int64), self._points.draw(self._rng, 1)
            if self._enqueue_first(self._canonical(np.where(listed == UNDECIDED, drawn, listed)), "portfolio"):
                return True
        return self._enqueue_random(sparse=False)

    def _enqueue_random(self, *, sparse: bool) -> bool:
        """A draw by the space's own probabilities, or a sparse one of log-uniform density."""
        genes = max(len(self._space.genes), 4)
        for _ in range(_DRAWS):
            density = float(np.exp(self._rng.uniform(np.log(2 / genes), np.log(0.5)))) if sparse else None
            if self._enqueue(self._space.sample(self._rng, density), "random"):
                return True
        return False

    def _enqueue_first(self, points: Points, origin: str) -> bool:
        """The first of ``points`` that is new."""
        return any(self._enqueue(tuple(point), origin) for point in points.tolist())

    def _enqueue(self, point: Point, origin: str) -> bool:
        if point in self._asked:
            return False
        self._asked.add(point)
        self._queue.append((point, origin))
        return True

    # ── one slot ─────────────────────────────────────────────────────────────────────────────────────────────────

    def _enqueue_next(self) -> bool:
        if len(self._asked) >= self._space.size:
            return False
        if self._drawn < self._pool_size:
            return self._enqueue_drawn() or self._enqueue_rest()
        if len(self._history.best_and_newest()) < _FEWEST_SCORED:
            return self._enqueue_random(sparse=True) or self._enqueue_rest()
        return self._enqueue_modelled() or self._enqueue_rest()

    def _enqueue_modelled(self) -> bool:
        if not self._slots:
            if self._fitted_to < self._history.told:  # else nothing is new: a large batch fills several pools
                fitted = self._history.best_and_newest()
                self._sameness.learn(self._history.points[fitted], self._history.codes[fitted])
                self._surrogate.improve()
                self._fitted_to, self._told_known = self._history.told, None
            self._pool, self._located = self._make_pool(), None
            self._slots = list(_SLOTS)
        slot = self._slots.pop(0)
        return self._enqueue_marginal() if slot == "marginals" else self._enqueue_improvement()

    def _enqueue_marginal(self) -> bool:
        marginals = self._told_marginals()
        points = self._canonical(marginals.sample(self._rng, _MARGINAL_DRAWS))
        features = self._encoding.features(points)
        new = self._sameness.novelty(points, self._known())
        worth = marginals.log_ratio(points) + np.log(self._pool.feasibility.success(features) * new)
        return self._enqueue_first(points[_best_first(worth, new)], "marginals")

    def _enqueue_improvement(self) -> bool:
        process, best = self._surrogate.informed()
        self._located = self._located or process.located(self._pool.features)
        mean, deviation = process.foretold(self._located, self._encoding.features(self._waiting()))
        new = self._sameness.novelty(self._pool.points, self._known())
        success = self._pool.feasibility.success(self._pool.features)
        worth = expected_improvement(mean, deviation, best) * success * new
        if self._history.scores.shape[1] == 1 and worth.size:
            most, scale = int(np.argmax(worth)), self._surrogate.scale
            self._outlook = Outlook(float(worth[most]) * scale, float(deviation[most]) * scale)
        return self._enqueue_first(self._pool.points[_best_first(worth, new)], "improvement")

    def _known(self) -> Known:
        """What has been told or asked, to judge by how likely the machine code of others is new."""
        if self._told_known is None:
            scored = ~self._history.failed[-KEPT:]
            told, codes = self._history.points[-KEPT:][scored], self._history.codes[-KEPT:][scored]
            self._told_known = self._sameness.known(told, codes)
        waiting = self._waiting()
        return self._told_known.and_new(self._sameness.known(waiting, np.arange(len(waiting))))

    def _waiting(self) -> Points:
        """The points that have been asked, or are about to be, and not yet told, shape (k, genes)."""
        waiting = [*self._pending, *(point for point, _ in self._queue)]
        return np.array(waiting, dtype=np.int64).reshape(-1, len(self._space.genes))

    # ── the evolutionary pool ────────────────────────────────────────────────────────────────────────────────────

    def _make_pool(self) -> _Pool:
        """The best unasked ones of about 360 points and of their local search."""
        counts, rng = self._points.counts, self._rng
        elite = self._history.points[self._history.best_and_newest()[:_ELITE]]
        process, best = self._surrogate.informed()
        relevance = np.exp(process.hyper.log_weights)
        pool = self._canonical(
            np.vstack([
                self._told_marginals().sample(rng, 170),
                mutate(crossover(elite, rng, 90), counts, rng),
                mutate(elite[rng.integers(len(elite), size=80)], counts, rng, relevance),
                self._points.draw(rng, 20),
            ])
        )  # fmt: skip
        failed = self._history.failed[-KEPT:].astype(np.float64)
        feasibility, known = Feasibility.of(self._history.features[-KEPT:], failed), self._known()

        def judged(points: Points) -> tuple[Points, Floats, Floats, Floats]:
            features, new = self._encoding.features(points), self._sameness.novelty(points, known)
            worth = expected_improvement(*process.predict(features), best) * feasibility.success(features) * new
            return points, features, worth, new

        pool, features, worth, new = judged(pool)
        for _ in range(_LOCAL_ROUNDS):
            starts = np.argsort(-worth, kind="stable")[:_LOCAL_STARTS]
            around = self._canonical(neighbours(pool[starts], counts, rng, _LOCAL_SIZE))
            both = zip((pool, features, worth, new), judged(around), strict=True)
            pool, features, worth, new = (np.concatenate(each) for each in both)
        unasked = (index for index in _best_first(worth, new) if tuple(pool[index].tolist()) not in self._asked)
        chosen = list(islice(unasked, _CHOICE))
        return _Pool(pool[chosen], features[chosen], feasibility)

    def _told_marginals(self) -> Marginals:
        if self._marginals is None:
            told = self._history.points[self._history.best_and_newest()]
            self._marginals = Marginals(told, self._points.counts)
        return self._marginals

    def _canonical(self, points: Points) -> Points:
        return self._points.canonical(points, self._rng)

    def _enqueue_rest(self) -> bool:
        if self._enqueue_random(sparse=False):
            return True
        every = self._space.points() if self._space.size <= 1_000_000 else ()
        return any(self._enqueue(point, "rest") for point in every)


def _best_first(worth: Floats, new: Floats) -> Points:
    """Indices, highest ``worth`` first; points whose machine code is more likely known than new come last."""
    return np.lexsort((-worth, new <= 0.5))
