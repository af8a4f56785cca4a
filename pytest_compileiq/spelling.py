"""Names and counts in messages: what was meant by a name that does not exist, how many names a sentence holds."""

from __future__ import annotations

import re
import shlex
import time
from collections.abc import Iterable, Mapping, Sequence

MOST_NAMED = 5  # files, functions or tests in one sentence; a toolkit that moved would name hundreds
_CLOSE = 0.6  # difflib's ratio, and its own default
_BEGIN_OF_TIME_S = -62_135_596_800  # the year 1
END_OF_TIME_S = 253_402_300_799  # Unix time: the last second of the year 9999, beyond which no calendar here goes


def nearest(wrong: str, known: Iterable[str], *, cutoff: float = _CLOSE) -> str | None:
    """The known name that is closest to ``wrong``, upper and lower case aside; None where none is close."""
    from difflib import get_close_matches  # only on the way to an error

    by_lower = {name.lower(): name for name in sorted(known, reverse=True)}
    close = get_close_matches(wrong.lower(), by_lower, n=1, cutoff=cutoff)
    return by_lower[close[0]] if close else None


def did_you_mean(wrong: str, known: Iterable[str], *, cutoff: float = _CLOSE) -> str:
    """`` (did you mean 'registers'?)``, for the end of a clause; empty where no known name is close to ``wrong``."""
    close = nearest(wrong, known, cutoff=cutoff)
    return f" (did you mean {close!r}?)" if close else ""


def first_of(texts: Sequence[str], most: int | None = MOST_NAMED) -> list[str]:
    """The first ``most`` of ``texts``, and ``and 3 more`` for the rest; all of them where it is None."""
    more = [f"and {len(texts) - most} more"] if most is not None and len(texts) > most else []
    return [*texts[:most], *more]


def utc(seconds: float, spelt: str = "%Y-%m-%d %H:%M UTC") -> str:
    """A Unix time as a person reads it; one beyond the years 1 to 9999 as the nearest of them."""
    return time.strftime(spelt, time.gmtime(min(max(seconds, _BEGIN_OF_TIME_S), END_OF_TIME_S)))


def for_shell(word: str) -> str:
    """A word of a command that is printed to be pasted: a test's id may hold anything that a shell would obey."""
    return shlex.quote(word)


def variables_text(environment: Mapping[str, str]) -> str:
    """Variables as a shell sets them: ``OMP_NUM_THREADS=8 LABEL='a b'``."""
    return " ".join(f"{name}={shlex.quote(value)}" for name, value in environment.items())


def quantity(count: int, what: str) -> str:
    """``1 launch``, ``2 launches``, ``0 libraries``: ``what`` is a noun in the singular, also with words before it."""
    if count == 1:
        return f"1 {what}"
    if what.endswith("y"):
        return f"{count} {what[:-1]}ies"
    return f"{count} {what}{'es' if what.endswith(('ch', 's')) else 's'}"


def test_name(kernel: str) -> str:
    """The name of a test of ``kernel``."""
    return "test_" + re.sub(r"\W", "_", kernel)


def time_text(nanoseconds: float) -> str:
    """A time in three digits and its unit: ``12.3 µs``."""
    for size, unit in ((1e9, "s"), (1e6, "ms"), (1e3, "µs")):
        if nanoseconds >= size:
            return f"{nanoseconds / size:.3g} {unit}"
    return f"{nanoseconds:.0f} ns"
