"""Optuna's samplers as engines: ``optuna:tpe``, ``optuna:gp``, ``optuna:cmaes`` and ``optuna:nsga2``.

A gene is an Optuna parameter of indices into its values, with off as one more; a knob of many ordered values that may
be off is two parameters, whether and which. Each sampler gets conditional genes in the form that it can use: TPE
decomposes conditional spaces (``group``), so it is asked only for what is active; the others model only what every
trial has, so they are asked for everything, and what is inactive is left out afterwards. CMA-ES takes only numbers, so
for it every gene is one number, and off lies below the first value.

Akiba et al., "Optuna" (KDD 2019). TPE: Bergstra et al. (NIPS 2011). CMA-ES with margin, for discrete variables:
Hamano et al. (GECCO 2022). NSGA-II: Deb et al. (IEEE TEC 6, 2002).
"""

from __future__ import annotations

import importlib.util
import itertools
import warnings
from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Literal

import numpy as np

from pytest_compileiq.engines.base import Brief, Told, integer_options
from pytest_compileiq.errors import EnvironmentFault, MarkerError, install
from pytest_compileiq.model import Candidate
from pytest_compileiq.space import OFF, Gene, Point

Sampler = Literal["tpe", "gp", "cmaes", "nsga2"]

_NEEDS = {"gp": "torch", "cmaes": "cmaes"}
_POOL = {"tpe": 10, "gp": 10, "cmaes": 10, "nsga2": 50}
_FEW = 8  # up to so many ordered values are a category, off included: a third of TPE's time, and no worse
_REPEATS = 20
_DRAWS = 1000
_ENUMERABLE = 100_000


class Optuna:
    """A study, spoken to by ask and tell. Never asks a point twice; ends when the space is exhausted.

    The first ``pool_size`` candidates (the one option: a population of NSGA-II, the start of the others) are drawn from
    the space by its own probabilities, which Optuna's distributions cannot hold. Failures, and points that ``where=``
    refuses, are told as ``FAIL``, which the samplers leave out of their models. A point that is proposed again is
    answered at once with its known result.

    Raises:
        EnvironmentFault: Optuna, or a package that the sampler needs, is not installed.
        MarkerError: an option is unknown, or the sampler takes one objective only.
    """

    def __init__(self, sampler: Sampler, brief: Brief) -> None:
        name = f"optuna:{sampler}"
        pool_size = integer_options(name, brief, {"pool_size": (2, 10_000)}).get("pool_size", _POOL[sampler])
        if brief.n_objectives > 1 and sampler == "cmaes":
            raise MarkerError(
                f"engine {name!r} takes one objective, and there are {brief.n_objectives}: "
                "use --tune-engine=ga, optuna:nsga2 or optuna:tpe"
            )
        if importlib.util.find_spec("optuna") is None:
            raise EnvironmentFault(f"the engine {name!r} is Optuna's, which is not installed: {install('optuna')}")
        if (package := _NEEDS.get(sampler)) and importlib.util.find_spec(package) is None:
            raise EnvironmentFault(
                f"the engine {name!r} needs {package}, which is not installed: pip install {package}"
            )
        self._name = name
        self._space = brief.space
        self._rng = np.random.default_rng(brief.seed)
        self._numbers_only, self._active_only = sampler == "cmaes", sampler == "tpe"
        self._asked: set[Point] = set()
        self._told: dict[Point, Told] = {}
        self._waiting: defaultdict[Point, list[Any]] = defaultdict(list)
        import optuna  # heavy, and an extra

        self._failed = optuna.trial.TrialState.FAIL
        with _silence(optuna):
            self._study = optuna.create_study(
                sampler=_make_sampler(optuna.samplers, sampler, brief.seed, pool_size),
                directions=["minimize"] * brief.n_objectives,
            )
        drawn = (self._space.sample(self._rng) for _ in range(pool_size))
        for point in dict.fromkeys([*brief.seed_points(), *drawn]):
            self._enqueue(point)

    def ask(self, n: int) -> list[Candidate]:
        points = [point for point in (self._next() for _ in range(n)) if point is not None]
        return [Candidate(self._space.knobs(point), origin=self._name) for point in points]

    def tell(self, results: Sequence[Told]) -> None:
        for told in results:
            point = self._space.point(told.candidate.knobs)
            self._told[point] = told
            for trial in self._waiting.pop(point, ()):
                self._answer(trial, told)

    def _next(self) -> Point | None:
        for _ in range(_REPEATS):
            if len(self._asked) >= self._space.size:
                return None
            if (point := self._proposed()) is not None:
                return point
        draws = (self._space.sample(self._rng) for _ in range(_DRAWS))
        every = self._space.points() if self._space.size <= _ENUMERABLE else ()
        unseen = next((point for point in itertools.chain(draws, every) if point not in self._asked), None)
        if unseen is None:
            return None
        self._enqueue(unseen)
        return self._proposed()

    def _proposed(self) -> Point | None:
        """The sampler's next point, or None when it has been asked before or ``where=`` refuses it."""
        trial = self._study.ask()
        point = self._suggested(trial)
        if not self._space.allows(point):
            self._study.tell(trial, state=self._failed)
            return None
        if point in self._told:
            self._answer(trial, self._told[point])
        else:
            self._waiting[point].append(trial)
        if point in self._asked:
            return None
        self._asked.add(point)
        return point

    def _answer(self, trial: Any, told: Told) -> None:
        if told.failure is None:
            self._study.tell(trial, list(told.scores))
        else:
            self._study.tell(trial, state=self._failed)

    # ── genes as Optuna's parameters ─────────────────────────────────────────────────────────────────────────────

    def _suggested(self, trial: Any) -> Point:
        point: list[int] = []
        for gene in self._space.genes:
            active = gene.parent is None or point[gene.parent] != OFF
            point.append(self._index(trial, gene) if active or not self._active_only else OFF)
        return self._space.canonical(point)

    def _index(self, trial: Any, gene: Gene) -> int:
        lowest, highest = _lowest(gene), len(gene.values) - 1
        if self._numbers_only:
            return int(trial.suggest_int(gene.name, lowest, highest))
        if _is_category(gene):
            return int(trial.suggest_categorical(gene.name, range(lowest, highest + 1)))
        on = lowest != OFF or trial.suggest_categorical(_switch(gene), (False, True))
        if not on and self._active_only:
            return OFF
        index = int(trial.suggest_int(gene.name, 0, highest))
        return index if on else OFF

    def _enqueue(self, point: Point) -> None:
        given: dict[str, Any] = {}
        for gene, index in zip(self._space.genes, point, strict=True):
            if gene.parent is not None and point[gene.parent] == OFF:
                continue
            if self._numbers_only or _is_category(gene):
                given[gene.name] = index
                continue
            if _lowest(gene) == OFF:
                given[_switch(gene)] = index != OFF
            if index != OFF:
                given[gene.name] = index
        self._study.enqueue_trial(given)


def _is_category(gene: Gene) -> bool:
    return gene.kind in ("choice", "switch") or len(gene.values) <= _FEW


def _lowest(gene: Gene) -> int:
    return OFF if gene.knockout_prob > 0 or gene.kind == "switch" else 0


def _switch(gene: Gene) -> str:
    """The parameter that says whether an ordered knob is on; no knob's name holds a blank."""
    return f"{gene.name} on"


def _make_sampler(samplers: Any, sampler: Sampler, seed: int, pool_size: int) -> Any:
    seed %= 2**32
    if sampler == "nsga2":
        return samplers.NSGAIISampler(population_size=pool_size, seed=seed)
    common = {"n_startup_trials": pool_size, "seed": seed}
    if sampler == "tpe":
        # The liar keeps candidates of one batch apart: what is being evaluated counts as bad.
        return samplers.TPESampler(**common, multivariate=True, group=True, constant_liar=True)
    if sampler == "gp":
        return samplers.GPSampler(**common, warn_independent_sampling=False)
    return samplers.CmaEsSampler(**common, with_margin=True, warn_independent_sampling=False)


@contextmanager
def _silence(optuna: Any) -> Iterator[None]:
    """Neither a log line (a study was created) nor a warning (a setting is experimental) reaches the user's run."""
    verbosity = optuna.logging.get_verbosity()
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        optuna.logging.set_verbosity(verbosity)
