"""Times in words."""

from __future__ import annotations

_UNITS = ((1e9, "s"), (1e6, "ms"), (1e3, "µs"))


def time_text(nanoseconds: float) -> str:
    """A time in three digits and its unit: ``12.3 µs``."""
    for size, unit in _UNITS:
        if nanoseconds >= size:
            return f"{nanoseconds / size:.3g} {unit}"
    return f"{nanoseconds:.0f} ns"
