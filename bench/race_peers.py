"""Other people's optimisers behind this project's ask and tell, given what it gives its own engines.

A gene is one variable: indices into its values, with off below the first. The first population is drawn from the space
by its own probabilities, after the seeds. A point that comes again costs nothing: it is answered from memory.
"""

import hashlib
import importlib.metadata
import importlib.util
from collections import deque
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

import pytest_compileiq
from pytest_compileiq.engines.base import Brief, Engine, Told
from pytest_compileiq.engines.registry import make
from pytest_compileiq.model import Candidate
from pytest_compileiq.space import OFF, Gene, Point

POOL = 16
REPEATS = 5


class Peer:
    """Asks an optimiser for points, one at a time, until one is new."""

    def __init__(self, brief: Brief, first: Sequence[Point]) -> None:
        self.space = brief.space
        self._known: dict[Point, float] = {}
        self._open: dict[Point, Any] = {}
        self._rng = np.random.default_rng(brief.seed)

    def propose(self) -> tuple[Any, Point]:
        raise NotImplementedError

    def answer(self, handle: Any, score: float) -> None:
        raise NotImplementedError

    def ask(self, n: int) -> list[Candidate]:
        for _ in range(REPEATS):
            handle, point = self.propose()
            if point not in self._known:
                self._open[point] = handle
                return [Candidate(self.space.knobs(point))]
            self.answer(handle, self._known[point])
        return [Candidate(self.space.knobs(self.space.sample(self._rng)))]

    def tell(self, results: Sequence[Told]) -> None:
        for told in results:
            point = self.space.point(told.candidate.knobs)
            worst = max(self._known.values(), default=0.0)
            self._known[point] = told.scores[0] if told.scores else worst
            if point in self._open:
                self.answer(self._open.pop(point), self._known[point])


class Pymoo(Peer):
    """Its mixed-variable genetic algorithm."""

    def __init__(self, brief: Brief, first: Sequence[Point]) -> None:
        from pymoo.core.mixed import MixedVariableGA
        from pymoo.core.population import Population
        from pymoo.core.problem import Problem
        from pymoo.core.variable import Choice, Integer
        from pymoo.termination import get_termination

        super().__init__(brief, first)
        variables = {
            gene.name: Choice(options=list(_indices(gene)))
            if gene.kind in ("choice", "switch")
            else Integer(bounds=(_indices(gene)[0], _indices(gene)[-1]))
            for gene in brief.space.genes
        }
        start = Population.new(X=np.array([dict(zip(variables, point, strict=True)) for point in first], dtype=object))
        self._algorithm = MixedVariableGA(pop_size=len(first), sampling=start)
        problem = Problem(vars=variables, n_obj=1)
        self._algorithm.setup(problem, termination=get_termination("n_gen", 10**6), seed=brief.seed, verbose=False)
        self._asked: Any = ()
        self._queue: deque[Any] = deque()
        self._left = 0

    def propose(self) -> tuple[Any, Point]:
        if not self._queue:
            self._asked = self._algorithm.ask()
            self._queue.extend(self._asked)
            self._left = len(self._asked)
        one = self._queue.popleft()
        return one, self.space.canonical([int(one.X[gene.name]) for gene in self.space.genes])

    def answer(self, handle: Any, score: float) -> None:
        handle.set("F", np.array([score]))
        handle.evaluated.add("F")
        self._left -= 1
        if self._left == 0:
            self._algorithm.tell(infills=self._asked)


class Nevergrad(Peer):
    """``NGOpt``, its default: it picks an algorithm by the space and the budget."""

    def __init__(self, brief: Brief, first: Sequence[Point]) -> None:
        import nevergrad

        super().__init__(brief, first)
        choices = nevergrad.p
        variables = {
            gene.name: (choices.Choice if gene.kind in ("choice", "switch") else choices.TransitionChoice)(
                list(_indices(gene))
            )
            for gene in brief.space.genes
        }
        parametrization = choices.Dict(**variables)
        parametrization.random_state = np.random.RandomState(brief.seed)
        self._optimizer = nevergrad.optimizers.NGOpt(parametrization, budget=brief.budget)
        for point in first:
            self._optimizer.suggest(dict(zip(variables, point, strict=True)))

    def propose(self) -> tuple[Any, Point]:
        one = self._optimizer.ask()
        return one, self.space.canonical([int(one.value[gene.name]) for gene in self.space.genes])

    def answer(self, handle: Any, score: float) -> None:
        self._optimizer.tell(handle, score)


PEERS: dict[str, type[Peer]] = {"pymoo": Pymoo, "nevergrad": Nevergrad}
ENGINES = ("ga", "optuna:tpe", "optuna:nsga2", "pymoo", "nevergrad", "random")
LABELS = {
    "ga": "**ga** (ours)",
    "optuna:tpe": "Optuna TPE",
    "optuna:nsga2": "Optuna NSGA-II",
    "pymoo": "pymoo mixed-variable GA",
    "nevergrad": "nevergrad NGOpt",
    "random": "random",
}


def installed() -> list[str]:
    """The engines of the race that are here; one line for each that is not."""
    here = []
    for name in ENGINES:
        package = name.partition(":")[0]
        if package in ("ga", "random") or importlib.util.find_spec(package):
            here.append(name)
        else:
            print(f"{name} is left out: pip install {package}")
    return here


def opened(name: str, brief: Brief) -> Engine:
    """The engine called ``name``: one of the registry, or a peer."""
    if name not in PEERS:
        return make(name, brief)
    rng = np.random.default_rng(brief.seed)
    drawn = [brief.space.sample(rng) for _ in range(POOL)]
    return PEERS[name](brief, list(dict.fromkeys([*brief.seed_points(), *drawn])))


def version(name: str) -> str:
    """What a race of this engine depends on: its code here, or the package's version."""
    package = name.partition(":")[0]
    home = Path(pytest_compileiq.__file__).parent / "engines"
    ours = sorted(home.glob(f"{package}.py")) + sorted((home / package).glob("*.py"))
    ours = ours or [Path(__file__)]
    digest = hashlib.sha256(b"".join(path.read_bytes() for path in ours)).hexdigest()[:16]
    return f"{digest} {importlib.metadata.version(package) if package not in ('ga', 'random') else ''}"


def _indices(gene: Gene) -> range:
    return range(OFF if gene.knockout_prob > 0 or gene.kind == "switch" else 0, len(gene.values))
