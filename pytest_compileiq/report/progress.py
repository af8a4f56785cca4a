"""Progress as a person watches it: a live line or table on a terminal, plain lines elsewhere."""

from __future__ import annotations

import math
import textwrap
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence

from pytest_compileiq.config import Budget
from pytest_compileiq.outcome import NightReport, NightStanding
from pytest_compileiq.progress import SearchCounts
from pytest_compileiq.report.claims import moved_text
from pytest_compileiq.rules.words import ratio_text
from pytest_compileiq.spelling import quantity
from pytest_compileiq.system.printing import Terminal, cells, cut_start, harmless

_PLAIN_EVERY_S = 15.0
_LIVE_EVERY_S = 0.1
_LARGEST = 300.0  # of a log-ratio that is shown
_ENOUGH = 10  # evaluations, from which the time for the others is estimated; a time budget tells it at once


class LineProgress:
    """Shows the progress of one benchmark: one line, redrawn if ``is_live``, else printed lines."""

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
    """Evaluations, the best against the baseline, the time left; then what a narrow terminal may cut off."""
    of = f"/{budget.evaluations}" if budget.evaluations is not None else ""
    gain = gain_text(tally.best, shift)
    parts = [f"{tally.evaluations}{of} evaluations", f"best {gain} (unproven)" if gain else "no gain yet"]
    left_s = 0.0
    if budget.evaluations is None:
        left_s = (budget.seconds or 0.0) - tally.seconds
    elif tally.evaluations >= _ENOUGH:
        left_s = tally.seconds / tally.evaluations * (budget.evaluations - tally.evaluations)
    if left_s >= 1:
        parts.append(f"{duration_text(left_s)} left")
    if tally.invalid:
        kinds = ", ".join(f"{count} {kind}" for kind, count in sorted(tally.invalid.items()))
        parts.append(f"{sum(tally.invalid.values())} invalid ({kinds})")
    if tally.duplicates:
        parts.append(quantity(tally.duplicates, "duplicate"))
    return ", ".join(parts)


def gain_text(best: float, shift: float | None) -> str:
    """A search's best score against the baseline, empty without a gain; ``shift`` as in ``Progress.evaluated``."""
    if best >= 0:
        return ""
    if shift is not None:
        return moved_text(shift)
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


_TABLE_LIVE_S = 0.5
_TABLE_PLAIN_S = 60.0
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
        if self._terminal.is_silent or now - self._last < (_TABLE_LIVE_S if self._is_live else _TABLE_PLAIN_S):
            return
        self._last = now
        if self._is_live:
            self._table = list(night_lines(night(), most=_MOST_ROWS))
        self._show("" if self._is_live else night_line(night()))

    def say(self, text: str) -> None:
        """Show what is being done now: below the table, or as a line."""
        self._said = text
        if not self._terminal.is_silent:
            self._show(text)

    def _show(self, line: str) -> None:
        if self._is_live:
            self._terminal.redraw([*self._table, *([self._said] if self._said else [])])
        else:
            self._terminal.begin()
            self._terminal.say(line)

    def done(self) -> None:
        """Clear the table; the summary has it."""
        if self._is_live:
            self._terminal.redraw([])


def night_lines(night: NightReport, *, most: int | None = None) -> Iterator[str]:
    """The night in a line, then one for each benchmark; of more than ``most`` the first to go on, the rest counted."""
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
