"""The progress of a search: one live line on a terminal, plain lines elsewhere."""

from __future__ import annotations

import math
import time
from collections.abc import Callable

from pytest_compileiq.config import Budget
from pytest_compileiq.rules.words import ratio_text
from pytest_compileiq.spelling import quantity
from pytest_compileiq.tally import Tally

_PLAIN_EVERY_S = 15.0
_LIVE_EVERY_S = 0.1
_LARGEST = 300.0  # of a log-ratio that is shown


class LineProgress:
    """Shows progress through two functions.

    ``line`` prints a whole line; ``rewrite`` replaces the live line, and is None without a terminal.
    """

    def __init__(self, name: str, line: Callable[[str], None], rewrite: Callable[[str], None] | None) -> None:
        self._name = name
        self._line = line
        self._rewrite = rewrite
        self._last = time.monotonic()

    def evaluated(self, tally: Tally, budget: Budget, shift: float | None) -> None:
        """Show the tally, at most ten times a second on a terminal and four times a minute elsewhere."""
        now = time.monotonic()
        if now - self._last < (_LIVE_EVERY_S if self._rewrite else _PLAIN_EVERY_S):
            return
        self._last = now
        (self._rewrite or self._line)(f"{self._name}: {tally_text(tally, budget, shift)}")

    def done(self) -> None:
        """Clear the live line; the report tells the result."""
        if self._rewrite:
            self._rewrite("")

    def say(self, text: str) -> None:
        """Show what is being done now."""
        (self._rewrite or self._line)(f"{self._name}: {text}")


def tally_text(tally: Tally, budget: Budget, shift: float | None) -> str:
    """Evaluations, invalid ones, duplicates, the best so far against the baseline, and the time left in seconds.

    Args:
        shift: as in ``Progress.evaluated``.
    """
    spent = tally.seconds
    if budget.evaluations is not None:
        done, left_s = (
            f"{tally.evaluations}/{budget.evaluations}",
            spent / max(tally.evaluations, 1) * (budget.evaluations - tally.evaluations),
        )
    else:
        done, left_s = f"{tally.evaluations}", max(0.0, (budget.seconds or 0.0) - spent)
    kinds = ", ".join(f"{count} {kind}" for kind, count in sorted(tally.invalid.items()))
    invalid = f"{sum(tally.invalid.values())} invalid" + (f" ({kinds})" if kinds else "")
    best = f"best {best_text(tally.best, shift)} (unproven)"
    built = f" of {tally.built} built" if tally.built else ""
    return f"{done} evaluated{built}, {invalid}, {quantity(tally.duplicates, 'duplicate')}, {best}, {left_s:.0f} s left"


def best_text(best: float, shift: float | None) -> str:
    """A search's best score against the baseline; ``shift`` as in ``Progress.evaluated``."""
    if shift is not None:
        return f"better by {abs(shift):.3g} of the baseline's magnitude"
    return ratio_text(math.exp(min(-best, _LARGEST)))
