"""Engines by name; third parties add theirs by the entry point group ``pytest_compileiq.engines``.

A third party's engine is held to what the search relies on; one sentence blames it for what it breaks.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from typing import Any

from pytest_compileiq.engines.base import Brief, Checkpointed, Engine, Foreseeing, Outlook, Told
from pytest_compileiq.errors import CompileIQError, EnvironmentFault, MarkerError
from pytest_compileiq.model import Candidate
from pytest_compileiq.space import Space
from pytest_compileiq.spelling import did_you_mean

GROUP = "pytest_compileiq.engines"

# A search uses one of them: the others are not imported.
BUILT_IN = {
    "compileiq": "compileiq:CompileIQ",
    "ga": "ga:Ga",
    "grid": "simple:Grid",
    "pack": "simple:Pack",
    "random": "simple:RandomSearch",
    **{f"optuna:{sampler}": "optuna:Optuna" for sampler in ("tpe", "gp", "cmaes", "nsga2")},
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
        module, _, kind = BUILT_IN[wanted].partition(":")
        made: Engine = getattr(import_module(f"{__package__}.{module}"), kind)(*wanted.split(":")[1:], brief)
        return made
    point = next(point for point in entry_points(group=GROUP) if point.name == wanted)
    engine = _guarded(point, "loading it", lambda: point.load()(brief))
    return (_ForeignCheckpointed if isinstance(engine, Checkpointed) else Foreign)(engine, point, brief.space)


def portfolio_of(name: str, brief: Brief) -> str:
    """The portfolio that the engine called ``name`` tries first; empty where it has none."""
    if name != "ga":
        return ""
    from pytest_compileiq.engines.ga.portfolio import name_of

    return name_of(brief.space, brief.metrics)


class Foreign:
    """An engine of a third party: its exceptions and invalid candidates become faults that name it."""

    def __init__(self, engine: Any, point: EntryPoint, space: Space) -> None:
        self._engine, self._point, self._space = engine, point, space

    def ask(self, n: int) -> list[Candidate]:
        asked = _guarded(self._point, "ask()", lambda: self._engine.ask(n))
        if not isinstance(asked, list) or len(asked) > n:
            raise _fault(self._point, f"ask({n}) gave {asked!r:.80}: expected a list of at most {n} candidates")
        for candidate in asked:
            if not isinstance(candidate, Candidate):
                raise _fault(self._point, f"ask() gave {candidate!r:.80}: expected candidates")
            if (reason := self._space.why_not(candidate.knobs)) is not None:
                raise _fault(self._point, f"ask() gave a candidate outside the space: {reason}")
        return asked

    def tell(self, results: Sequence[Told]) -> None:
        _guarded(self._point, "tell()", lambda: self._engine.tell(results))

    def outlook(self) -> Outlook | None:
        if not isinstance(self._engine, Foreseeing):
            return None
        told = _guarded(self._point, "outlook()", self._engine.outlook)
        if told is not None and not (
            isinstance(told, Outlook) and all(0 <= number < math.inf for number in (told.improvement, told.spread))
        ):
            raise _fault(self._point, f"outlook() gave {told!r:.80}: expected an Outlook of numbers of at least 0")
        return told


class _ForeignCheckpointed(Foreign):
    def checkpoint(self) -> bytes:
        return bytes(_guarded(self._point, "checkpoint()", self._engine.checkpoint))

    def restore(self, state: bytes) -> None:
        _guarded(self._point, "restore()", lambda: self._engine.restore(state))


def _guarded(point: EntryPoint, what: str, call: Callable[[], Any]) -> Any:
    try:
        return call()
    except CompileIQError:
        raise
    except Exception as error:
        raise _fault(point, f"{what} failed: {type(error).__name__}: {error}") from error


def _fault(point: EntryPoint, what: str) -> EnvironmentFault:
    owner = f" of {point.dist.name} {point.dist.version}" if point.dist else ""
    return EnvironmentFault(
        f"the engine {point.name!r} ({point.value}{owner}): {what}; "
        "run pytest_compileiq.testing.EngineConformance on it, or use --tune-engine=ga"
    )
