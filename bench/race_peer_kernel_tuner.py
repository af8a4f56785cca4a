"""Kernel Tuner's strongest strategies, which a language model evolved for spaces of kernels: arXiv 2510.17899.

A strategy calls for one configuration after the other, so it runs in a thread that waits for each answer. It wants a
search space that is enumerated, which 2^65 points are not: it is given an object with the three methods that it calls.
A Hamming neighbourhood is listed whole. The neighbourhoods in which every parameter may move a step have 3^65 points:
a few of them are drawn, and the strategies draw from these. Kernel Tuner has no conditions: a group is one more
parameter, and what it switches is ignored while it is off. Its strategies start at random and take one objective.
"""

import importlib
import queue
import random
import threading
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from pytest_compileiq.engines.base import Brief
from pytest_compileiq.space import Point, Space
from race_peer import Peer, flat, indices

STRATEGIES = {
    "vndx": ("gen_hybrid_vndx", "HybridVNDX"),
    "greywolf": ("gen_adaptive_tabu_greywolf", "AdaptiveTabuGreyWolf"),
}
DRAWN_NEIGHBOURS = 32


class KernelTuner(Peer):
    def __init__(self, strategy: str, brief: Brief, first: Sequence[Point]) -> None:
        super().__init__(brief)
        self._wanted: queue.SimpleQueue[Sequence[int]] = queue.SimpleQueue()
        self._answers: queue.SimpleQueue[float | None] = queue.SimpleQueue()
        module_name, class_name = STRATEGIES[strategy]
        module = importlib.import_module(f"kernel_tuner.strategies.{module_name}")
        module.random = random.Random(brief.seed)  # type: ignore[attr-defined]  # a race's own source
        options = {name: default for name, (_, default) in module._options.items()}
        options["budget"] = brief.budget or options["budget"]
        tuned = _SearchSpace(brief.space, np.random.default_rng([brief.seed, 2]))
        cost = _Cost(self._wanted, self._answers)
        opened = lambda: getattr(module, class_name)(tuned, cost, **options, verbose=False)  # noqa: E731
        threading.Thread(target=_run, args=(opened,), daemon=True).start()

    def propose(self) -> tuple[Any, Point]:
        configuration = self._wanted.get()
        return None, self.point_of(configuration)

    def answer(self, handle: Any, scores: tuple[float, ...]) -> None:
        self._answers.put(scores[0])

    def __del__(self) -> None:
        self._answers.put(None)


def _run(opened: Any) -> None:
    """Runs of the strategy, one after the other: repeated points count in its own budget, and not in the race's."""
    from kernel_tuner.util import StopCriterionReached

    try:
        while True:
            opened().run()
    except StopCriterionReached:
        pass


class _Cost:
    """Kernel Tuner's cost function: hands a configuration out and waits for its score."""

    def __init__(self, wanted: Any, answers: Any) -> None:
        self._wanted, self._answers = wanted, answers

    def __call__(self, configuration: Sequence[int], check_restrictions: bool = True) -> float:
        from kernel_tuner.util import StopCriterionReached

        self._wanted.put(configuration)
        score: float | None = self._answers.get()
        if score is None:
            raise StopCriterionReached("the race has ended")
        return score


class _SearchSpace:
    """As much of Kernel Tuner's ``Searchspace`` as its strategies call, of configurations of indices."""

    def __init__(self, space: Space, rng: np.random.Generator) -> None:
        self._space, self._rng = space, rng
        self._indices = [indices(gene) for gene in space.genes]

    def get_random_sample(self, n: int) -> list[Point]:
        return [flat(self._space.genes, self._space.sample(self._rng)) for _ in range(n)]

    def is_param_config_valid(self, configuration: Sequence[int]) -> bool:
        return self._space.allows(self._space.canonical(configuration))

    def get_neighbors(self, configuration: Sequence[int], neighbor_method: str) -> list[Point]:
        near = self._one_changed(configuration) if neighbor_method == "Hamming" else self._all_moved(configuration)
        return [point for point in near if point != tuple(configuration) and self.is_param_config_valid(point)]

    def _one_changed(self, configuration: Sequence[int]) -> Iterator[Point]:
        for place, values in enumerate(self._indices):
            for value in values:
                yield (*configuration[:place], value, *configuration[place + 1 :])

    def _all_moved(self, configuration: Sequence[int]) -> Iterator[Point]:
        for _ in range(DRAWN_NEIGHBOURS):
            steps = self._rng.integers(-1, 2, size=len(configuration))
            moved = [
                index + int(step) if index + int(step) in values else index
                for index, step, values in zip(configuration, steps, self._indices, strict=True)
            ]
            yield tuple(moved)
