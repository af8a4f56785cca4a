"""A night as a person watches it: one table on a terminal, plain lines elsewhere."""

from __future__ import annotations

import textwrap
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence

from pytest_compileiq.outcome import NightReport, NightStanding
from pytest_compileiq.report.progress import best_text

_LIVE_EVERY_S = 0.5
_PLAIN_EVERY_S = 60.0
_MOST_ROWS = 16  # of a live table, which has to fit on a small terminal
_LONGEST_WHY = 100
_STANDINGS: tuple[NightStanding, ...] = (
    "proving",
    "searching",
    "waiting",
    "failed",
    "not reached",
    "skipped",
    "closed",
)


class NightTable:
    """Shows a night through two functions.

    ``line`` prints a whole line; ``redraw`` prints lines over so many that were printed last, and is None without a
    terminal.
    """

    def __init__(self, line: Callable[[str], None], redraw: Callable[[Sequence[str], int], None] | None) -> None:
        self._line = line
        self._redraw = redraw
        self._shown = 0
        self._said = ""
        self._last = time.monotonic()

    def show(self, night: Callable[[], NightReport]) -> None:
        """Draw the table twice a second on a terminal, and print a line a minute elsewhere."""
        now = time.monotonic()
        if now - self._last < (_LIVE_EVERY_S if self._redraw else _PLAIN_EVERY_S):
            return
        self._last = now
        if self._redraw is None:
            self._line(night_line(night()))
            return
        lines = [*table_lines(night(), most=_MOST_ROWS), *([self._said] if self._said else [])]
        self._redraw(lines, self._shown)
        self._shown = len(lines)

    def say(self, text: str) -> None:
        """Show what is being done now: below the table, or as a line."""
        self._said = text
        if self._redraw is None:
            self._line(text)

    def done(self) -> None:
        """Clear the table; the summary has it."""
        if self._redraw is not None:
            self._redraw([], self._shown)
            self._shown = 0


def table_lines(night: NightReport, *, most: int | None = None) -> Iterator[str]:
    """The night in a line, then one for each benchmark: evaluations, best so far, share of the budget, how it stands.

    Args:
        most: rows beyond which the rest is counted; what goes on comes first.
    """
    yield night_line(night)
    rows = sorted(night.rows, key=lambda row: _STANDINGS.index(row.standing)) if most else night.rows
    width = max((len(row.name) for row in rows), default=0)
    yield f"{'benchmark':<{width}}  {'evaluations':>11}  {'best (unproven)':>15}  {'share':>6}  state"
    shown = rows[:most]
    for row in shown:
        state = (
            f"{row.standing}: {textwrap.shorten(row.why, _LONGEST_WHY, placeholder=' …')}" if row.why else row.standing
        )
        best = best_text(row.best, row.shift) if row.best < 0 else "-"
        yield f"{row.name:<{width}}  {row.evaluations:>11,}  {best:>15}  {row.share:>6.1%}  {state}"
    if more := len(rows) - len(shown):
        yield f"and {more} more"


def night_line(night: NightReport) -> str:
    """What is spent, reserved and closed, and what is being done."""
    standings = Counter(row.standing for row in night.rows)
    counts = ", ".join(f"{standings[standing]} {standing}" for standing in reversed(_STANDINGS) if standings[standing])
    if night.unit == "s":
        kept = f", {duration_text(night.reserved)} kept for proofs" if night.reserved else ""
        spent = f"{duration_text(night.spent)} of {duration_text(night.total)}{kept}"
    else:
        spent = f"{night.spent:,.0f} of {night.total:,.0f} evaluations"
    return f"night: {spent}; {counts or 'nothing opened'}; {night.doing}"


def duration_text(seconds: float) -> str:
    """``5 s``, ``12:05`` (minutes), ``7:41:02`` (hours)."""
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    minutes, rest = divmod(whole, 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"
