"""The embedded engine where builds are cheap beside measurements: it has more built, and picks by the machine code."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import islice

import numpy as np

from pytest_compileiq.engines.base import Brief, Built, Told
from pytest_compileiq.engines.ga.code_model import CodeModel, Fitted, squashed
from pytest_compileiq.engines.ga.encoding import Floats, Points
from pytest_compileiq.engines.ga.engine import Ga
from pytest_compileiq.engines.ga.marginals import Marginals
from pytest_compileiq.engines.ga.ranking import best_first
from pytest_compileiq.engines.ga.variation import crossover, mutate
from pytest_compileiq.model import Candidate
from pytest_compileiq.space import Point

_FEWEST_SCORED, _FEWEST_EXPECTED = 12, 6  # measured candidates, the fewer where something is expected of the knobs
_PARENTS = 20
_RESERVE = 64  # candidates that were built and passed over
_LEARNS_EVERY = 4  # measured candidates
_KEPT = 200  # measured candidates that the model of machine code is fitted to
_DRAWN = 2  # variations of each kind that are drawn for each that is wanted


@dataclass(frozen=True)
class _Described:
    """A candidate that was built, and its scores once it was measured."""

    candidate: Candidate
    point: Point
    features: Mapping[str, float]
    scores: tuple[float, ...] = ()


class PickingGa(Ga):
    """``Ga``, which proposes its own candidates and variations of the best, and picks by a model of machine code."""

    def __init__(self, brief: Brief) -> None:
        super().__init__(brief)
        self._model = CodeModel(self._trend / np.sqrt(self._encoding.share))
        self._fewest = _FEWEST_EXPECTED if self._experience.by_metric else _FEWEST_SCORED
        self._variety = np.random.default_rng([brief.seed, 1])  # its own: what ``ask`` draws stays as it is
        self._scored: list[_Described] = []
        self._reserve: list[_Described] = []
        self._fitted: Fitted | None = None
        self._learned = 0

    def propose(self, n: int, most: int) -> list[Candidate]:
        """What it would ask for, then what was passed over before, then variations of the best."""
        own = self.ask(n)
        again = self._recalled(min(n, most - len(own)))
        return [*own, *again, *self._variations(most - len(own) - len(again))]

    def pick(self, built: Sequence[Built], n: int) -> list[int]:
        """The new ones that the model of machine code expects most of, or, before it knows enough, the first ones."""
        new = [place for place, each in enumerate(built) if not each.known]
        described = [self._described(built[place].candidate, built[place].features) for place in new]
        best = self._best(described, n)
        passed_over = [each for place, each in enumerate(described) if place not in best]
        self._reserve = [*self._reserve, *passed_over][-_RESERVE:]
        self._pending = dict.fromkeys(described[place].point for place in best)
        return [new[place] for place in best]

    def tell(self, results: Sequence[Told]) -> None:
        """As of ``Ga``; what was measured also teaches the model of machine code."""
        super().tell(results)
        self._scored += [
            self._described(told.candidate, told.features, told.scores)
            for told in results
            if told.failure is None and not told.duplicate
        ]
        if len(self._scored) > _KEPT:
            order = best_first(np.array([each.scores for each in self._scored]))
            newest = range(len(self._scored) - _KEPT // 2, len(self._scored))
            self._scored = [self._scored[place] for place in sorted({*order[: _KEPT // 2].tolist(), *newest})]
        self._fitted = None

    def _recalled(self, count: int) -> list[Candidate]:
        """Up to ``count`` of those that were built and passed over, which by now seem worth another look."""
        best = self._best(self._reserve, count)
        again = [self._reserve[place].candidate for place in best]
        self._reserve = [each for place, each in enumerate(self._reserve) if place not in best]
        return again

    def _variations(self, count: int) -> list[Candidate]:
        """Up to ``count`` unasked points around the best: recombined and mutated, mutated, and by their marginals."""
        if len(self._scored) < self._fewest or not count:
            return []
        order = best_first(np.array([each.scores for each in self._scored]))
        points, rng = _points(self._scored)[order], self._variety
        counts, size, parents = self._points.counts, _DRAWN * count, points[:_PARENTS]
        drawn = self._points.canonical(
            np.vstack([
                mutate(crossover(parents, rng, size), counts, rng),
                mutate(parents[rng.integers(len(parents), size=size)], counts, rng),
                Marginals(points, counts).sample(rng, size),
            ]),
            rng,
        )  # fmt: skip
        unasked = (point for point in map(tuple, rng.permutation(drawn).tolist()) if point not in self._asked)
        chosen = list(islice(unasked, count))
        self._asked.update(chosen)
        return [Candidate(self._space.knobs(point), origin="variation") for point in chosen]

    def _best(self, built: Sequence[_Described], count: int) -> list[int]:
        """Places of at most ``count``, best first; in their order while too little is known to fit a model."""
        if len(self._scored) < self._fewest or not built:
            return list(range(len(built)))[:count]
        if self._fitted is None:
            learn = self._history.told >= self._learned + _LEARNS_EVERY
            self._learned = self._history.told if learn else self._learned
            features = [each.features for each in self._scored]
            self._fitted = self._model.fit(features, self._knobs(self._scored), self._standard_scores(), learn=learn)
        return self._fitted.best_batch([each.features for each in built], self._knobs(built), count)

    def _knobs(self, described: Sequence[_Described]) -> Floats:
        """The features of their points times the root of each one's share of its gene, shape (n, F)."""
        return np.asarray(self._encoding.features(_points(described)) * np.sqrt(self._encoding.share))

    def _described(
        self, candidate: Candidate, features: Mapping[str, float], scores: tuple[float, ...] = ()
    ) -> _Described:
        return _Described(candidate, self._space.point(candidate.knobs), features, scores)

    def _standard_scores(self) -> Floats:
        """One standardised number for each that was measured; several objectives are weighted at random."""
        scores = np.array([each.scores for each in self._scored])
        if scores.shape[1] > 1:
            low, high = scores.min(axis=0), scores.max(axis=0)
            scores = (scores - low) / np.maximum(high - low, 1e-12) @ self._variety.dirichlet(np.ones(len(low)))
        return squashed(scores.reshape(-1))


def _points(described: Sequence[_Described]) -> Points:
    return np.array([each.point for each in described], dtype=np.int64)
