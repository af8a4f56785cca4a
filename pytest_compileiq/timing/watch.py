"""What may disturb a measurement while it is taken: a GPU that slows itself down, or that others compute on."""

from __future__ import annotations

import os
from collections.abc import Callable

Disturbed = Callable[[], str | None]
"""Asked after every quad: why it does not count, or None when it counts."""


def undisturbed() -> str | None:
    """For devices that cannot tell."""
    return None


def slowdown_of(kind: str) -> Disturbed:
    """Whether the device of ``kind`` slowed itself down, by heat or by a power brake."""
    if kind == "cpu":
        return undisturbed
    from pytest_compileiq.timing.nvml import hardware_slowdown, snapshot  # heavy: NVML

    def slowdown() -> str | None:
        seen = snapshot()
        return hardware_slowdown(seen) if seen else None

    return slowdown


def intruders(kind: str) -> str | None:
    """Who else computes on the device of ``kind``, in words; this worker's siblings do not count."""
    if kind == "cpu":
        return None
    from pytest_compileiq.timing.nvml import snapshot  # heavy: NVML

    seen = snapshot(root=os.getppid())
    if seen is None or not seen.foreign_pids:
        return None
    return f"other processes compute on the GPU: {', '.join(map(str, seen.foreign_pids))}"
