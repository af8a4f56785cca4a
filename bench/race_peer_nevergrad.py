"""nevergrad's ``NGOpt``, its default: it picks an algorithm by the space and the budget.

Meunier et al., "Black-Box Optimization Revisited" (IEEE TEC 26, 2022).
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from pytest_compileiq.engines.base import Brief
from pytest_compileiq.space import Point
from race_peer import Peer, flat, indices, is_category


class Nevergrad(Peer):
    def __init__(self, brief: Brief, first: Sequence[Point]) -> None:
        from nevergrad import optimizers, p

        super().__init__(brief)
        variables = {
            gene.name: (p.Choice if is_category(gene) else p.TransitionChoice)(list(indices(gene)))
            for gene in brief.space.genes
        }
        parametrization = p.Dict(**variables)
        parametrization.random_state = np.random.RandomState(brief.seed)
        self._optimizer = optimizers.NGOpt(parametrization, budget=brief.budget)
        for point in first:
            self._optimizer.suggest(dict(zip(variables, flat(brief.space.genes, point), strict=True)))

    def propose(self) -> tuple[Any, Point]:
        asked = self._optimizer.ask()
        return asked, self.point_of(asked.value[gene.name] for gene in self.space.genes)

    def answer(self, handle: Any, scores: tuple[float, ...]) -> None:
        self._optimizer.tell(handle, scores[0] if len(scores) == 1 else list(scores))
