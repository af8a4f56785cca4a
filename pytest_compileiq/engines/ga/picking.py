"""The embedded engine where builds are cheap beside measurements: it has more built, and picks by the machine code."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice

import numpy as np

from pytest_compileiq.engines.base import Brief, Built, Told
from pytest_compileiq.engines.ga.code_model import CodeModel, Described, squashed, standardised
from pytest_compileiq.engines.ga.encoding import Floats, Points
from pytest_compileiq.engines.ga.engine import Ga
from pytest_compileiq.engines.ga.history import KEPT
from pytest_compileiq.engines.ga.marginals import Marginals
from pytest_compileiq.engines.ga.ranking import best_first
from pytest_compileiq.engines.ga.variation import crossover, mutate
from pytest_compileiq.model import Candidate
from pytest_compileiq.space import Point

_BUILT = 4  # candidates that are built for each that is measured
_FEWEST_SCORED = 12
_PARENTS = 20
RECALL = 1
_RESERVE = 128
_DRAWN = 2  # variations of each kind that are drawn for each that is wanted


class PickingGa(Ga):
    """``Ga``, which proposes its own candidates and variations of the best, and picks by a model of machine code."""

    def __init__(self, brief: Brief) -> None:
        super().__init__(brief)
        self._model = CodeModel()
        self._variety = np.random.default_rng([brief.seed, 1])  # its own: what ``ask`` draws stays as it is
        self._scored: list[Told] = []
        self._reserve: list[Built] = []

    def propose(self, n: int) -> list[Candidate]:
        """What it would ask for, and three times as many variations of the best."""
        own, again = self.ask(n), self._recalled(n)
        return [*own, *again, *self._variations((_BUILT - 1) * n - len(again))]

    def pick(self, built: Sequence[Built], n: int) -> list[int]:
        """The new ones that the model of machine code expects most of, or, before it knows enough, the first ones."""
        new = [place for place, each in enumerate(built) if not each.known]
        picked = new[:n]
        if len(self._scored) >= _FEWEST_SCORED and new:
            picked = [new[place] for place in self._best([built[place] for place in new], n)]
        self._reserve = [*self._reserve, *(built[place] for place in new if place not in picked)][-_RESERVE:]
        self._pending = dict.fromkeys(self._point(built[place].candidate) for place in picked)
        return picked

    def tell(self, results: Sequence[Told]) -> None:
        """As of ``Ga``; what was measured also teaches the model of machine code."""
        super().tell(results)
        self._scored += [told for told in results if told.failure is None and not told.duplicate]
        if len(self._scored) > KEPT:
            order = best_first(np.array([told.scores for told in self._scored]))
            newest = range(len(self._scored) - KEPT // 2, len(self._scored))
            self._scored = [self._scored[place] for place in sorted({*order[: KEPT // 2].tolist(), *newest})]

    def _recalled(self, count: int) -> list[Candidate]:
        """Up to ``count`` of those that were built and passed over, which by now seem worth another look."""
        if RECALL == 0 or not self._reserve or len(self._scored) < _FEWEST_SCORED:
            return []
        best = self._best(self._reserve, count)
        again = [self._reserve[place].candidate for place in best]
        self._reserve = [each for place, each in enumerate(self._reserve) if place not in best]
        return again

    def _variations(self, count: int) -> list[Candidate]:
        """Up to ``count`` unasked points around the best: recombined and mutated, mutated, and by their marginals."""
        if len(self._scored) < _FEWEST_SCORED:
            return []
        order = best_first(np.array([told.scores for told in self._scored]))
        points, rng = self._points_of([self._scored[place].candidate for place in order]), self._variety
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

    def _best(self, built: Sequence[Built], count: int) -> list[int]:
        """Places of at most ``count``, best first."""
        told = len(self._scored)
        described: list[Told | Built] = [*self._scored, *built]
        points = self._points_of([each.candidate for each in described])
        knobs = self._encoding.features(points) * np.sqrt(self._encoding.share)
        everything = Described(standardised([each.features for each in described], told), knobs)
        scores = self._standard_scores()
        expected = self._model.expected(everything.at(slice(told)), scores, everything.at(slice(told, None)))
        return expected.best_batch(float(scores.min()), count)

    def _standard_scores(self) -> Floats:
        """One standardised number for each that was measured; several objectives are weighted at random."""
        scores = np.array([told.scores for told in self._scored])
        if scores.shape[1] > 1:
            low, high = scores.min(axis=0), scores.max(axis=0)
            scores = (scores - low) / np.maximum(high - low, 1e-12) @ self._variety.dirichlet(np.ones(len(low)))
        return squashed(scores.reshape(-1))

    def _points_of(self, candidates: Sequence[Candidate]) -> Points:
        return np.array([self._point(candidate) for candidate in candidates], dtype=np.int64)

    def _point(self, candidate: Candidate) -> Point:
        return self._space.point(candidate.knobs)
