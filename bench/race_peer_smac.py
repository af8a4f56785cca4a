"""SMAC3 by its facade for spaces of categories and conditions: a random forest, and one draw in five at random.

Lindauer et al., "SMAC3: A Versatile Bayesian Optimization Package for Hyperparameter Optimization" (JMLR 23, 2022). It
is told ratios, since its forest models the logarithm of a cost. In place of its design of Sobol's points over a
quarter of the budget it begins with what all engines begin with; its random draws are by the space's probabilities too.
"""

import math
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pytest_compileiq.engines.base import Brief
from pytest_compileiq.space import OFF, Gene, Point
from race_peer import Peer, indices, is_category


class Smac(Peer):
    def __init__(self, brief: Brief, first: Sequence[Point]) -> None:
        from ConfigSpace import Configuration
        from smac import HyperparameterOptimizationFacade, Scenario
        from smac.multi_objective.parego import ParEGO

        super().__init__(brief)
        self._folder = tempfile.TemporaryDirectory()
        space = _configuration_space(brief)
        objectives = [f"objective {number}" for number in range(brief.n_objectives)]
        scenario = Scenario(
            space, objectives=objectives if len(objectives) > 1 else "cost", deterministic=True, seed=brief.seed,
            n_trials=100 * (brief.budget or 1000), output_directory=Path(self._folder.name),
        )  # fmt: skip
        start = [Configuration(space, values=_active(brief.space.genes, point)) for point in first]
        facade = HyperparameterOptimizationFacade
        self._smac: Any = facade(
            scenario, _never_called, logging_level=False, overwrite=True,
            initial_design=facade.get_initial_design(scenario, n_configs=0, additional_configs=start),
            multi_objective_algorithm=ParEGO(scenario) if brief.n_objectives > 1 else None,
        )  # fmt: skip

    def propose(self) -> tuple[Any, Point]:
        from joblib import parallel_config

        with parallel_config(backend="sequential"):  # else each look at the forest starts a pool of threads
            asked = self._smac.ask()
        values = dict(asked.config)
        return asked, self.point_of(values.get(gene.name, OFF) for gene in self.space.genes)

    def answer(self, handle: Any, scores: tuple[float, ...]) -> None:
        from smac.runhistory.dataclasses import TrialValue

        costs = [math.exp(score) for score in scores]
        self._smac.tell(handle, TrialValue(cost=costs[0] if len(costs) == 1 else costs), save=False)


def _configuration_space(brief: Brief) -> Any:
    from ConfigSpace import Categorical, ConfigurationSpace, EqualsCondition, OrdinalHyperparameter

    space = ConfigurationSpace(seed=brief.seed)
    genes = brief.space.genes
    for gene in genes:
        values = list(indices(gene))
        if is_category(gene):
            space.add(Categorical(gene.name, values, weights=_weights(gene)))
        else:
            space.add(OrdinalHyperparameter(gene.name, values))
    for gene in genes:
        if gene.parent is not None:
            space.add(EqualsCondition(space[gene.name], space[genes[gene.parent].name], 0))
    return space


def _weights(gene: Gene) -> list[float]:
    """The probabilities of ``indices``."""
    each = (1 - gene.knockout_prob) / len(gene.values)
    return [gene.knockout_prob if index == OFF else each for index in indices(gene)]


def _active(genes: Sequence[Gene], point: Point) -> dict[str, int]:
    pairs = zip(genes, point, strict=True)
    return {gene.name: index for gene, index in pairs if gene.parent is None or point[gene.parent] != OFF}


def _never_called(config: object, seed: int = 0) -> float:
    raise AssertionError("SMAC3 is spoken to by ask and tell")
