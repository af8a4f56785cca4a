"""What is told of a timed call: that later calls do other work than the first, or that most of it is the way there.

Advice, never a verdict: what caches or new pages may explain is not told.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

RATIO = 2.0  # between the first call and later ones, where caches explain less
FRESH_RATIO = 3.0  # where the code too is new to the process
FAULT_S = 50e-6  # to get a page that was never touched; 34 µs seen in a virtual machine whose host has to find it too
PART, MOST = 0.2, 0.5  # of a call's time, spent on the way to the kernel
_UNITS = ((1e-6, "µs"), (1e-3, "ms"), (1.0, "s"))

Unlike = Literal["longer", "shorter"]


@dataclass(frozen=True)
class CallTimes:
    """One look at the measured call, in one run of the body; seconds, the first three of the processor's time.

    Attributes:
        first_s: its first time on what the body had set up: the body's own call where it makes the same one before
            ``measure``, else ``measure``'s first.
        later_s: the fastest of several later ones, after as many calls as a measurement makes.
        cold_s: a typical later one after the caches were emptied; ``later_s`` where the first is not much longer.
        faults: pages that the first one touched as the first.
        call_s: one call in a row, as samples are taken.
        empty_s: the same where the kernel is a function that does nothing; None where that cannot be tried.
    """

    first_s: float
    later_s: float
    cold_s: float
    faults: int
    call_s: float
    empty_s: float | None


def unlike(times: CallTimes, *, ratio: float) -> Unlike | None:
    """Whether the first call did other work than later ones: neither caches nor new pages explain the difference."""
    if times.first_s - times.faults * FAULT_S > ratio * max(times.later_s, times.cold_s):
        return "longer"
    return "shorter" if times.first_s * ratio < times.later_s else None


def of_first_calls(looks: Sequence[CallTimes], *, ratio: float) -> str | None:
    """What to say when every look found the same difference; None without one."""
    found = {unlike(times, ratio=ratio) for times in looks}
    if len(found) != 1 or None in found:
        return None
    first, later = (min(values) for values in zip(*((one.first_s, one.later_s) for one in looks), strict=True))
    return (
        f"the first call takes {_text(first)} and later ones {_text(later)}: what is timed is other work than the "
        "first call's, as where a kernel works in place or remembers; let each measured call begin from the same "
        "data, e.g. by a copy of the input within it"
    )


def of_the_way(looks: Sequence[CallTimes]) -> str | None:
    """What to say of a call that is not far above one of an empty function through the same door; None where it is."""
    known = [(one.empty_s / one.call_s, one) for one in looks if one.empty_s is not None]
    if not known or (least := min(known, key=lambda pair: pair[0]))[0] < PART:
        return None
    share, times = least
    how_much = "most" if share >= MOST else "part"
    return (
        f"the call takes {_text(times.call_s)}, of which calling an empty function through ctypes takes "
        f"{_text(times.empty_s or 0.0)}: {how_much} of what is timed is the call; let one call do more"
    )


def _text(seconds: float) -> str:
    """Two digits or more, in a unit that suits: ``0.9 µs``, ``13 µs``, ``1.2 ms``, ``310 s``."""
    size, unit = next(((size, unit) for size, unit in _UNITS if seconds < 999.5 * size), _UNITS[-1])
    number = seconds / size
    return f"{number:.2g} {unit}" if number < 99.5 else f"{number:.0f} {unit}"
