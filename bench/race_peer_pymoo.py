"""pymoo's mixed-variable genetic algorithm; of several objectives with the ranking of NSGA-II, as its manual has it.

Blank and Deb, "pymoo: Multi-Objective Optimization in Python" (IEEE Access 8, 2020).
"""

from collections import deque
from collections.abc import Sequence
from typing import Any

import numpy as np

from pytest_compileiq.engines.base import Brief
from pytest_compileiq.space import Point
from race_peer import Peer, flat, indices, is_category


class Pymoo(Peer):
    def __init__(self, brief: Brief, first: Sequence[Point]) -> None:
        from pymoo.algorithms.moo.nsga2 import RankAndCrowdingSurvival
        from pymoo.core.mixed import MixedVariableGA
        from pymoo.core.population import Population
        from pymoo.core.problem import Problem
        from pymoo.core.variable import Choice, Integer
        from pymoo.termination import get_termination

        super().__init__(brief)
        variables = {
            gene.name: Choice(options=list(indices(gene)))
            if is_category(gene)
            else Integer(bounds=(indices(gene)[0], indices(gene)[-1]))
            for gene in brief.space.genes
        }
        drawn = [dict(zip(variables, flat(brief.space.genes, point), strict=True)) for point in first]
        start = Population.new(X=np.array(drawn, dtype=object))
        fronts = {"survival": RankAndCrowdingSurvival()} if brief.n_objectives > 1 else {}
        self._algorithm = MixedVariableGA(pop_size=len(first), sampling=start, **fronts)
        problem = Problem(vars=variables, n_obj=brief.n_objectives)
        self._algorithm.setup(problem, termination=get_termination("n_gen", 10**6), seed=brief.seed, verbose=False)
        self._asked: Any = ()
        self._queue: deque[Any] = deque()
        self._left = 0

    def propose(self) -> tuple[Any, Point]:
        if not self._queue:
            self._asked = self._algorithm.ask()
            self._queue.extend(self._asked)
            self._left = len(self._asked)
        individual = self._queue.popleft()
        return individual, self.point_of(individual.X[gene.name] for gene in self.space.genes)

    def answer(self, handle: Any, scores: tuple[float, ...]) -> None:
        handle.set("F", np.array(scores))
        handle.evaluated.add("F")
        self._left -= 1
        if self._left == 0:
            self._algorithm.tell(infills=self._asked)
