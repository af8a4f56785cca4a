"""What one control brings: the interval of what is lost without it, and the same numbers again from what is stored."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from pytest_compileiq.errors import ClaimMismatch
from pytest_compileiq.kept_controls import Attribution
from pytest_compileiq.spelling import quantity

if TYPE_CHECKING:
    from pytest_compileiq.rules.stats import Interval

ERROR = 0.05  # of all intervals of a table together
_TOLERANCE = 1e-6


def effect(losses: Sequence[float], comparisons: int) -> Interval:
    """The mean loss with an interval that holds simultaneously with those of ``comparisons`` in all.

    Bonferroni's inequality, whatever they have in common (Dunn, J. American Statistical Association 56, 1961).

    Args:
        losses: one for each process, shape (P,).
    """
    import numpy as np  # heavy, and exact tables do without

    from pytest_compileiq.rules.stats import paired_interval

    return paired_interval(np.array(losses), ERROR / 2 / comparisons)


def recompute(attribution: Attribution) -> None:
    """Repeat every interval from the recorded losses.

    Raises:
        ClaimMismatch: one of them differs by more than 1e-6, or fewer comparisons are corrected for than there are.
    """
    measured = [entry for entry in attribution.without if entry.standing == "measured"]
    if len(measured) > attribution.comparisons:
        raise ClaimMismatch(
            f"the attribution corrects for {attribution.comparisons} comparisons, and holds {len(measured)}"
        )
    for entry in measured:
        name = " ".join((*entry.knobs, *(["the ACF"] if entry.acf else [])))
        if len(entry.losses) < 2:
            raise ClaimMismatch(
                f"the attribution of {name:.200} has losses of {quantity(len(entry.losses), 'process')}"
            )
        interval = effect(entry.losses, attribution.comparisons)
        recorded = (entry.loss, entry.low, entry.high)
        for said, computed in zip(recorded, (interval.estimate, interval.low, interval.high), strict=True):
            if said is None or not math.isclose(said, computed, rel_tol=_TOLERANCE, abs_tol=1e-9):
                raise ClaimMismatch(
                    f"the attribution of {name:.200} says {said!r}, and its losses of each process give {computed!r}"
                )
