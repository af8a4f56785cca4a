"""Engines by name; third parties add theirs by the entry point group ``pytest_compileiq.engines``."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from importlib.metadata import entry_points

from pytest_compileiq.engines.base import Brief, Engine
from pytest_compileiq.engines.compileiq import CompileIQ
from pytest_compileiq.engines.foreign import foreign
from pytest_compileiq.engines.ga import Ga
from pytest_compileiq.engines.optuna import SAMPLERS, Optuna
from pytest_compileiq.engines.simple import Grid, Pack, RandomSearch
from pytest_compileiq.errors import MarkerError
from pytest_compileiq.space import Space
from pytest_compileiq.spelling import did_you_mean

GROUP = "pytest_compileiq.engines"

BUILT_IN: dict[str, Callable[[Brief], Engine]] = {
    "compileiq": CompileIQ,
    "ga": Ga,
    "grid": Grid,
    "pack": Pack,
    "random": RandomSearch,
    **{f"optuna:{sampler}": partial(Optuna, sampler) for sampler in SAMPLERS},
}
_TAKES_OPAQUE = frozenset({"compileiq", "pack"})


def choose(name: str, space: Space) -> str:
    """The engine that ``name`` means for ``space``: ``auto`` is ``compileiq`` for an opaque one, else ``ga``.

    Raises:
        MarkerError: there is none, or it cannot search the space.
    """
    if name == "auto":
        return "compileiq" if space.opaque else "ga"
    if name in BUILT_IN:  # for any other, every installed package is looked at
        if space.opaque is not None and name not in _TAKES_OPAQUE:
            raise MarkerError(
                f"the engine {name!r} cannot draw from {space.opaque}: use --tune-engine=compileiq or pack, "
                "or tune the public options with tune(space='options')"
            )
        return name
    known = {*BUILT_IN, *(point.name for point in entry_points(group=GROUP))}
    if name not in known:
        meant = did_you_mean(name, ["auto", *sorted(known)])
        raise MarkerError(f"there is no engine {name!r}{meant}: expected auto, {', '.join(sorted(known))}")
    return name


def make(name: str, brief: Brief) -> Engine:
    """The engine called ``name``.

    Raises:
        MarkerError: there is none, or it cannot search the space.
        EnvironmentFault: it needs a package that is not installed, or is a third party's and cannot be opened.
    """
    wanted = choose(name, brief.space)
    if wanted in BUILT_IN:
        return BUILT_IN[wanted](brief)
    return foreign(next(point for point in entry_points(group=GROUP) if point.name == wanted), brief)


def portfolio_of(name: str, brief: Brief) -> str:
    """The portfolio that the engine called ``name`` tries first; empty where it has none."""
    if name != "ga":
        return ""
    from pytest_compileiq.engines.ga.portfolio import name_of

    return name_of(brief.space, brief.metrics)
