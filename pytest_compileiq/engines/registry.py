"""Engines by name; third parties add theirs by the entry point group ``pytest_compileiq.engines``."""

from __future__ import annotations

from collections.abc import Callable
from importlib.metadata import entry_points

from pytest_compileiq.engines.base import Brief, Engine
from pytest_compileiq.engines.ga import Ga
from pytest_compileiq.engines.random import RandomSearch
from pytest_compileiq.errors import MarkerError

GROUP = "pytest_compileiq.engines"
AUTO = "ga"

BUILT_IN: dict[str, Callable[[Brief], Engine]] = {"ga": Ga, "random": RandomSearch}


def make(name: str, brief: Brief) -> Engine:
    """The engine called ``name``; ``auto`` is ``ga``.

    Raises:
        MarkerError: there is none, naming those there are.
    """
    wanted = AUTO if name == "auto" else name
    if wanted in BUILT_IN:
        return BUILT_IN[wanted](brief)
    others = {point.name: point for point in entry_points(group=GROUP)}
    if wanted in others:
        engine: Engine = others[wanted].load()(brief)
        return engine
    raise MarkerError(f"there is no engine {name!r}: expected auto, {', '.join(sorted({*BUILT_IN, *others}))}")
