"""First calls against later ones: whether measured calls do other work, and whether a gain is there on new input.

A look at one call (``CallTimes``) gives advice, never a verdict: a difference that caches or new pages may explain is
not reported. ``FirstCalls`` of both arms decide whether a kernel remembers its input, a plan made of it, or the output:
it is right on every input, and no faster on a new one. Caches explain no difference, since they are emptied before each
call, nor does what both arms pay for a first call.

Where the body draws from ``acf.rng``, each draw is new. With x the log of first over later calls, tuned less baseline,
what is lost is x as a share of the log gain of later calls, at least twice that of 1.1. Student's t over the draws asks
whether that, clipped to -1 to 2, has a mean above a half.

Where it draws nothing, each call is the first of a copy of the build, which remembers nothing. A table that both arms
fill once costs both as much, whatever they save later; so there the seconds decide: of those that calls in a row save,
the share that the tuned arm's first call costs more than the baseline's, clipped to -3 to 3, likewise against a half.

Either way nothing is lost of a gain below 1.1 of calls in a row. Those are not made on emptied caches, on which alone
streaming stores are slow; so on draws, too, a quarter of the seconds has to be lost.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal

from msgspec import Struct

if TYPE_CHECKING:
    from pytest_compileiq.rules.stats import Floats

RATIO = 2.0  # between the first call and later ones, where caches explain less
FRESH_RATIO = 3.0  # where the code too is new to the process
FAULT_S = 50e-6  # to touch a new page; 34 µs was seen in a virtual machine, whose host has to find the page too
PART, MOST = 0.2, 0.5  # shares of a call's time that are call overhead
SURE_P = 1e-4
FEWEST = 8  # draws: where all of few are clipped alike, t knows no noise
LOOKS = 16, 32, 64, 128, 256  # draws, or copies of the build
_LEAST_GAIN = 1.1  # of first calls against later ones, in the tuned arm alone
_CLIP = 3.0
_LOG_CLIP = -1.0, 2.0
_MOST_LOSS, _LITTLE_LOSS = 0.5, 0.25
_UNITS = ((1e-6, "µs"), (1e-3, "ms"), (1.0, "s"))


class CallTimes(Struct, frozen=True, tag=True):
    """One look at the measured call, in one run of the body. Times are in seconds, the first three in CPU time."""

    first_s: float  # on fresh data: the body's own call before measure if it is the same one, else measure's first
    later_s: float  # the fastest of several later calls, after as many calls as a measurement makes
    cold_s: float  # a typical later call on emptied caches; later_s where the first call is not much longer
    faults: int  # pages that the first call was the first to touch
    call_s: float  # one of many calls in a row, as samples are taken
    empty_s: float | None  # the same with a kernel that does nothing; None where that cannot be tried


def unlike(times: CallTimes, *, ratio: float) -> Literal["longer", "shorter"] | None:
    """Whether the first call did other work than later ones: neither caches nor new pages explain the difference."""
    if times.first_s - times.faults * FAULT_S > ratio * max(times.later_s, times.cold_s):
        return "longer"
    return "shorter" if times.first_s * ratio < times.later_s else None


def of_first_calls(looks: Sequence[CallTimes], *, ratio: float) -> str | None:
    """Advice where every look found the same difference, else None."""
    differences = {unlike(times, ratio=ratio) for times in looks}
    if len(differences) != 1 or None in differences:
        return None
    first, later = min(times.first_s for times in looks), min(times.later_s for times in looks)
    return (
        f"the first call takes {_text(first)} and later ones {_text(later)}: the measured calls do other work than "
        "the first call, as where a kernel works in place or remembers; let each measured call begin from the same "
        "data: measure(…, reset=…) restores it, untimed"
    )


def of_the_way(looks: Sequence[CallTimes]) -> str | None:
    """Advice on a call that takes little longer than one of an empty function, else None."""
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


# ── whether a gain is there on new input ─────────────────────────────────────────────────────────────────────────


class Called(Struct, frozen=True):
    """One arm's calls on one draw, in seconds of processor time."""

    first_s: float  # the first call on the drawn input
    later_s: float  # the median of later calls
    warm_s: float  # the fastest of further calls in a row, whose caches nobody empties
    new_pages: int = 0  # pages that the first call touched beyond those of later ones


class FirstCalls(Struct, frozen=True, tag=True):
    """Both arms' calls on one draw, and how their outputs differ; None where they hardly do."""

    baseline: Called
    tuned: Called
    apart: str | None = None

    @property
    def is_usable(self) -> bool:
        """Whether no new memory is in the first call's time; of the tuned arm it may be where it remembers."""
        return self.baseline.new_pages <= 0

    def both(self, when: str) -> tuple[float, float]:
        """The baseline's and the tuned arm's ``first_s``, ``later_s`` or ``warm_s``."""
        return getattr(self.baseline, when), getattr(self.tuned, when)


def why_remembered(draws: Sequence[FirstCalls]) -> str | None:
    """Why the gain is one of remembered input; None where nothing says so, or too few draws do."""
    import numpy as np  # heavy, as scipy is

    from pytest_compileiq.rules.stats import paired_p

    usable = _usable(draws)
    if len(usable) < FEWEST or (lost_s := _lost_seconds(usable)) is None or np.median(lost_s) < _LITTLE_LOSS:
        return None  # as of streaming stores, whose log gain depends on where the outputs lie
    if (p_value := paired_p(_lost_gains(usable), _MOST_LOSS)) > SURE_P:
        return None
    first_gain, later_gain = (
        f"{math.exp(float(np.median(_log_gains(usable, when)))):.3g}x" for when in ("first_s", "later_s")
    )
    return (
        f"on {len(usable)} new draws of acf.rng, caches emptied, the first call is {first_gain} and later calls are "
        f"{later_gain} as fast as the baseline's (p = {p_value:.2g}): the call remembers work that it did "
        "before; do the work in every call, or declare tune(…, repeats=True) where production repeats its inputs"
    )


def is_decided(calls: Sequence[FirstCalls], *, drawn: bool) -> bool:
    """Whether no more draws, or copies of the build, are needed: the gain is there, there is none, or it lacks."""
    if len(calls) >= LOOKS[-1]:
        return True
    if len(calls) not in LOOKS:  # looked at after each one, most memos of 3 µs would once seem to lose nothing
        return False
    from statistics import median  # one slow first call of the baseline, as of a new process, must not decide

    usable = _usable(calls) if drawn else calls
    if not usable or (lost := _lost_seconds(usable)) is None:
        return True
    if median((_lost_gains(usable) if drawn else lost).tolist()) < _LITTLE_LOSS:
        return True
    return (why_remembered if drawn else why_never_new)(calls) is not None


def why_never_new(copies: Sequence[FirstCalls]) -> str | None:
    """Why there is no verdict on a gain that first calls of copies of the build lack; None where they have it."""
    from pytest_compileiq.rules.stats import paired_p

    if len(copies) < FEWEST or (lost := _lost_seconds(copies)) is None:
        return None
    if (p_value := paired_p(lost, _MOST_LOSS)) > SURE_P / len(LOOKS):
        return None
    return (
        f"first calls of {len(copies)} fresh copies of the build lack {min(lost.mean(), 1):.0%} of the gain "
        f"(p = {p_value:.2g}), and the test has one input: draw the inputs from acf.rng, or declare "
        "tune(…, repeats=True) where production repeats its inputs"
    )


def _usable(draws: Sequence[FirstCalls]) -> list[FirstCalls]:
    return [draw for draw in draws if draw.is_usable]


def _log_gains(draws: Sequence[FirstCalls], when: str) -> Floats:
    """How much faster the tuned arm's calls are, shape (draws,)."""
    import numpy as np

    gains: Floats = -np.diff(np.log([draw.both(when) for draw in draws]))[:, 0]
    return gains


def _lost_gains(draws: Sequence[FirstCalls]) -> Floats:
    """The share of the log gain that each first call lacks, shape (draws,)."""
    import numpy as np

    later = _log_gains(draws, "later_s")
    gain = max(float(later.mean()), 2 * math.log(_LEAST_GAIN))
    lost: Floats = np.clip((later - _log_gains(draws, "first_s")) / gain, *_LOG_CLIP)
    return lost


def _lost_seconds(copies: Sequence[FirstCalls]) -> Floats | None:
    """The share of the saved seconds that each first call lacks, shape (copies,); None where little is saved."""
    import numpy as np

    first, later, warm = (np.array([copy.both(when) for copy in copies]) for when in ("first_s", "later_s", "warm_s"))
    saved_s = float(np.median(-np.diff(warm)))  # emptied caches can hide a gain that a proof shows
    if saved_s < (1 - 1 / _LEAST_GAIN) * float(np.median(warm[:, 0])):
        return None
    lost: Floats = np.clip(np.diff(first - later)[:, 0] / saved_s, -_CLIP, _CLIP)
    return lost
