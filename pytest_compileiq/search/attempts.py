"""One candidate's work for a worker: asked for again when its worker is lost, but not for ever."""

from __future__ import annotations

import textwrap
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from pytest_compileiq.model import ControlsFile
from pytest_compileiq.search.journal import Evaluated, Journal
from pytest_compileiq.workers.pool import EvaluationFailed
from pytest_compileiq.workers.transport import MOST_LOSSES

_LONGEST_NAME = 200
_Given = TypeVar("_Given")


@dataclass
class Work:
    """The work on one candidate; what the journal holds of it counts too.

    Attributes:
        batch, place: of the candidate: the place is the one within its batch.
        controls: of the candidate, which is named by them.
    """

    journal: Journal
    batch: int
    place: int
    controls: ControlsFile
    _attempt: int | None = None

    def ask(self, evaluate: Callable[[], _Given]) -> _Given:
        """What ``evaluate`` gives, asked for again while its worker is lost through no doing of its own.

        Raises:
            EvaluationFailed: as ``evaluate``; its kind is ``lost`` once two workers were lost, and none is asked then.
        """
        while len(losses := self.journal.losses(self.batch, self.place)) < MOST_LOSSES:
            self._attempt = self.journal.begun(self.batch, self.place)
            try:
                return evaluate()
            except EvaluationFailed as failure:
                if failure.kind != "lost":
                    raise
                self.journal.lost(self.batch, self.place, self._attempt, failure.reason)
        reason = f"{len(losses)} workers were lost with {_named(self.controls)}: {'; '.join(losses)}"
        raise EvaluationFailed(None, "lost", reason)

    def finish(self, evaluated: Evaluated) -> bool:
        """Have it recorded; returns whether it was, as ``Journal.finished``."""
        return self.journal.finished(self.batch, self.place, evaluated, self._attempt)


def _named(controls: ControlsFile) -> str:
    """Its options; an ACF, which nobody reads, by its digest."""
    if controls.kind == "blob":
        return f"the ACF {controls.sha256[:16]}"
    return textwrap.shorten(controls.data.decode(errors="replace"), _LONGEST_NAME, placeholder=" …")
