"""What a look at a timed call says: later calls do other work than the first, or much of the time is call overhead.

Advice, never a verdict: a difference that caches or new pages may explain is not reported.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from msgspec import Struct

RATIO = 2.0  # between the first call and later ones, where caches explain less
FRESH_RATIO = 3.0  # where the code too is new to the process
FAULT_S = 50e-6  # to touch a new page; 34 µs was seen in a virtual machine, whose host has to find the page too
PART, MOST = 0.2, 0.5  # shares of a call's time that are call overhead
_UNITS = ((1e-6, "µs"), (1e-3, "ms"), (1.0, "s"))

Unlike = Literal["longer", "shorter"]


class CallTimes(Struct, frozen=True):
    """One look at the measured call, in one run of the body. Times are in seconds, the first three in CPU time.

    Attributes:
        first_s: the first call on the data that the body set up: the body's own call where it makes the same one
            before ``measure``, else ``measure``'s first.
        later_s: the fastest of several later calls, after as many calls as a measurement makes.
        cold_s: a typical later call on emptied caches; ``later_s`` where the first call is not much longer.
        faults: pages that the first call was the first to touch.
        call_s: one of many calls in a row, as samples are taken.
        empty_s: the same with a kernel that does nothing; None where that cannot be tried.
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
    """What to say when every look found the same difference; None when they did not."""
    differences = {unlike(times, ratio=ratio) for times in looks}
    if len(differences) != 1 or None in differences:
        return None
    first, later = (min(values) for values in zip(*((times.first_s, times.later_s) for times in looks), strict=True))
    return (
        f"the first call takes {_text(first)} and later ones {_text(later)}: the measured calls do other work than "
        "the first call, as where a kernel works in place or remembers; let each measured call begin from the same "
        "data: measure(…, reset=…) restores it, untimed"
    )


def of_the_way(looks: Sequence[CallTimes]) -> str | None:
    """What to say of a call that takes little longer than one of an empty function; None where it takes much longer."""
    known = [(times.empty_s / times.call_s, times) for times in looks if times.empty_s is not None]
    if not known or (least := min(known, key=lambda pair: pair[0]))[0] < PART:
        return None
    share, times = least
    how_much = "most" if share >= MOST else "part"
    return (
        f"the call takes {_text(times.call_s)}, of which calling an empty function through ctypes takes "
        f"{_text(times.empty_s or 0.0)}: {how_much} of the measured time is call overhead; let one call do more"
    )


def _text(seconds: float) -> str:
    """Two digits or more, in a unit that suits: ``0.9 µs``, ``13 µs``, ``1.2 ms``, ``310 s``."""
    size, unit = next(((size, unit) for size, unit in _UNITS if seconds < 999.5 * size), _UNITS[-1])
    number = seconds / size
    return f"{number:.2g} {unit}" if number < 99.5 else f"{number:.0f} {unit}"
