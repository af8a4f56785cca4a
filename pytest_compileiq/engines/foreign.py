"""A third party's engine, held to what the search relies on; one sentence blames it for what it breaks."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from importlib.metadata import EntryPoint
from typing import Any

from pytest_compileiq.engines.base import Brief, Checkpointed, Engine, Foreseeing, Outlook, Told
from pytest_compileiq.errors import CompileIQError, EnvironmentFault
from pytest_compileiq.model import Candidate
from pytest_compileiq.space import Space


def foreign(point: EntryPoint, brief: Brief) -> Engine:
    """The engine that ``point`` brings.

    Raises:
        EnvironmentFault: it cannot be loaded or opened.
    """
    engine = _guarded(point, "loading it", lambda: point.load()(brief))
    kind = ForeignCheckpointed if isinstance(engine, Checkpointed) else Foreign
    return kind(engine, point, brief.space)


class Foreign:
    """An engine whose exceptions and invalid candidates become faults that name it."""

    def __init__(self, engine: Any, point: EntryPoint, space: Space) -> None:
        self._engine, self._point, self._space = engine, point, space

    def ask(self, n: int) -> list[Candidate]:
        asked = _guarded(self._point, "ask()", lambda: self._engine.ask(n))
        if not isinstance(asked, list) or len(asked) > n:
            raise _fault(self._point, f"ask({n}) gave {asked!r:.80}: expected a list of at most {n} candidates")
        return self._within("ask()", asked)

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

    def _within(self, what: str, asked: list[Any]) -> list[Candidate]:
        for candidate in asked:
            if not isinstance(candidate, Candidate):
                raise _fault(self._point, f"{what} gave {candidate!r:.80}: expected candidates")
            if (reason := self._space.why_not(candidate.knobs)) is not None:
                raise _fault(self._point, f"{what} gave a candidate outside the space: {reason}")
        return asked


class ForeignCheckpointed(Foreign):
    """The same, for an engine that keeps its state."""

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
