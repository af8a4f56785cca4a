"""A night as a person watches it: one table on a terminal, plain lines elsewhere."""

from __future__ import annotations

import textwrap
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence

from pytest_compileiq.outcome import NightReport, NightStanding
from pytest_compileiq.report.progress import duration_text, gain_text
from pytest_compileiq.system.printing import Terminal, cells, cut_start, harmless

_LIVE_EVERY_S = 0.5
_PLAIN_EVERY_S = 60.0
_MOST_ROWS = 16  # of a live table, which has to fit on a small terminal
_LONGEST_NAME = 24  # of a live table: 80 columns then hold the numbers and the state
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
    """Shows a night on ``terminal``; ``-q`` shows nothing of it."""

    def __init__(self, terminal: Terminal) -> None:
        self._terminal = terminal
        self._is_live = terminal.is_live
        self._table: Sequence[str] = ()
        self._said = ""
        self._last = time.monotonic()

    def show(self, night: Callable[[], NightReport]) -> None:
        """Draw the table twice a second on a terminal, and print a line a minute elsewhere."""
        now = time.monotonic()
        if self._terminal.is_silent or now - self._last < (_LIVE_EVERY_S if self._is_live else _PLAIN_EVERY_S):
            return
        self._last = now
        if self._is_live:
            self._table = list(table_lines(night(), most=_MOST_ROWS))
            self._draw()
        else:
            self._print(night_line(night()))

    def say(self, text: str) -> None:
        """Show what is being done now: below the table, or as a line."""
        self._said = text
        if self._terminal.is_silent:
            return
        if self._is_live:
            self._draw()
        else:
            self._print(text)

    def done(self) -> None:
        """Clear the table; the summary has it."""
        if self._is_live:
            self._terminal.redraw([])

    def _draw(self) -> None:
        self._terminal.redraw([*self._table, *([self._said] if self._said else [])])

    def _print(self, line: str) -> None:
        self._terminal.begin()
        self._terminal.say(line)


def table_lines(night: NightReport, *, most: int | None = None) -> Iterator[str]:
    """The night in a line, then one for each benchmark: evaluations, best so far, share of the budget, how it stands.

    Args:
        most: rows beyond which the rest is counted; what goes on comes first.
    """
    yield night_line(night)
    rows = sorted(night.rows, key=lambda row: _STANDINGS.index(row.standing)) if most else night.rows
    shown = rows[:most]
    names = [harmless(row.name) for row in shown]
    if most:
        names = [cut_start(name, _LONGEST_NAME) for name in names]
    width = max(map(cells, ["benchmark", *names]))
    yield f"{'benchmark':<{width}}  {'evaluations':>11}  {'best (unproven)':>15}  {'share':>6}  state"
    for name, row in zip(names, shown, strict=True):
        state = (
            f"{row.standing}: {textwrap.shorten(row.why, _LONGEST_WHY, placeholder=' …')}" if row.why else row.standing
        )
        best = gain_text(row.best, row.shift) or "-"
        yield f"{name}{' ' * (width - cells(name))}  {row.evaluations:>11,}  {best:>15}  {row.share:>6.1%}  {state}"
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
