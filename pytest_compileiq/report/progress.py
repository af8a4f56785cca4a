"""The progress of a search: one live line on a terminal, plain lines elsewhere."""

from __future__ import annotations

import math
import time

from pytest_compileiq.config import Budget
from pytest_compileiq.progress import SearchCounts
from pytest_compileiq.rules.words import ratio_text
from pytest_compileiq.spelling import quantity
from pytest_compileiq.system.printing import Terminal

_PLAIN_EVERY_S = 15.0
_LIVE_EVERY_S = 0.1
_LARGEST = 300.0  # of a log-ratio that is shown
_ENOUGH = 10  # evaluations, from which the time for the others is estimated


class LineProgress:
    """Shows the progress of one benchmark.

    Args:
        is_live: redraw one line, in place of printing lines.
    """

    def __init__(self, name: str, terminal: Terminal, *, is_live: bool) -> None:
        self._name = name
        self._terminal = terminal
        self._is_live = is_live
        self._last = time.monotonic()
        if not is_live and not terminal.is_silent:
            terminal.begin()

    def evaluated(self, tally: SearchCounts, budget: Budget, shift: float | None) -> None:
        """Show the tally, at most ten times a second on a terminal and four times a minute elsewhere."""
        now = time.monotonic()
        if now - self._last < (_LIVE_EVERY_S if self._is_live else _PLAIN_EVERY_S):
            return
        self._last = now
        self.say(tally_text(tally, budget, shift))

    def done(self) -> None:
        """Clear the live line; the report tells the result."""
        if self._is_live:
            self._terminal.redraw([])

    def say(self, text: str) -> None:
        """Show what is being done now."""
        if self._terminal.is_silent:
            return
        if self._is_live:
            self._terminal.status(self._name, text)
        else:
            self._terminal.say(f"{self._name}: {text}")


def tally_text(tally: SearchCounts, budget: Budget, shift: float | None) -> str:
    """Evaluations, the best against the baseline, the time left; then what a narrow terminal may cut off.

    The time left is told by a time budget, or estimated from ten evaluations on.

    Args:
        shift: as in ``Progress.evaluated``.
    """
    of = f"/{budget.evaluations}" if budget.evaluations is not None else ""
    gain = gain_text(tally.best, shift)
    parts = [f"{tally.evaluations}{of} evaluations", f"best {gain} (unproven)" if gain else "no gain yet"]
    if (left_s := _left_s(tally, budget)) >= 1:
        parts.append(f"{duration_text(left_s)} left")
    if tally.invalid:
        kinds = ", ".join(f"{count} {kind}" for kind, count in sorted(tally.invalid.items()))
        parts.append(f"{sum(tally.invalid.values())} invalid ({kinds})")
    if tally.duplicates:
        parts.append(quantity(tally.duplicates, "duplicate"))
    return ", ".join(parts)


def _left_s(tally: SearchCounts, budget: Budget) -> float:
    if budget.evaluations is None:
        return (budget.seconds or 0.0) - tally.seconds
    if tally.evaluations < _ENOUGH:
        return 0.0
    return tally.seconds / tally.evaluations * (budget.evaluations - tally.evaluations)


def gain_text(best: float, shift: float | None) -> str:
    """A search's best score against the baseline, empty without a gain; ``shift`` as in ``Progress.evaluated``."""
    if best >= 0:
        return ""
    if shift is not None:
        return f"{'higher' if shift > 0 else 'lower'} by {abs(shift):.3g} of the baseline's magnitude"
    text = ratio_text(math.exp(min(-best, _LARGEST)))
    return "" if text == ratio_text(1.0) else text


def duration_text(seconds: float) -> str:
    """``5 s``, ``12:05`` (minutes), ``7:41:02`` (hours)."""
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    minutes, rest = divmod(whole, 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"
