"""The GPU's clocks around a measurement: read, and waited for until they are steady.

A GPU takes a while to raise its clocks under load, and lowers them again by power and heat. What was measured before
they are steady, or at other clocks than the other arm, says little about the code.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from msgspec import Struct

from pytest_compileiq.samples import ClockReading
from pytest_compileiq.timing.nvml import whole_gpu

_STEP_MHZ = 15  # NVIDIA's clocks move in steps of 15 MHz, or half of that
_TOLERANCE = 0.01
_STEADY_S = 0.2
_READINGS = 3  # at least, where one call takes longer than all of that
_BETWEEN_READINGS_S = 0.02  # NVML renews its reading about this often; a question after every call would thin the load


def read_clocks(device: str) -> ClockReading | None:
    """The clocks of the GPU with this UUID, or of the one that this MIG device is a part of; None without NVML.

    Cheaper than ``nvml.snapshot``: it asks nothing about processes, power and heat.
    """
    gpu = whole_gpu(device)
    if gpu is None:
        return None
    return ClockReading(
        sm_mhz=gpu.ask("nvmlDeviceGetClockInfo", gpu.nvml.NVML_CLOCK_SM),
        memory_mhz=gpu.ask("nvmlDeviceGetClockInfo", gpu.nvml.NVML_CLOCK_MEM),
        reasons=gpu.throttle_reasons() or (),
    )


# ── until they are steady ────────────────────────────────────────────────────────────────────────────────────────


class Settled(Struct, frozen=True):
    """What came of waiting for a steady clock.

    Attributes:
        seconds: how long it took.
        settled: whether the SM clock was steady at the end; None where the device does not tell its clock.
        reading: the last one; None where there was none.
    """

    seconds: float
    settled: bool | None
    reading: ClockReading | None


def settle(
    load: Callable[[], object],
    read: Callable[[], ClockReading | None],
    *,
    now: Callable[[], float] = time.perf_counter,
    most_s: float = 3.0,
) -> Settled:
    """Keep the device busy until its SM clock is steady: within 1 %, or one step, through 0.2 s of load.

    Args:
        load: a call of the kernel that returns when the device is done with it; made at least once between readings.
            A clock is steady for the load that it was seen under, so this should be what will be measured.
        read: the clocks of the device that ``load`` runs on. If it does not tell them, nothing is run.
        now: seconds of any origin.
        most_s: when to give up; a call that has begun is waited for.

    Raises:
        Exception: whatever ``load`` raises.
    """
    started = now()
    steady: list[tuple[float, int]] = []
    while (reading := read()) is not None and reading.sm_mhz is not None:
        taken = now()
        steady = _steady_end([*steady, (taken, reading.sm_mhz)])
        if len(steady) >= _READINGS and taken - steady[0][0] >= _STEADY_S:
            return Settled(taken - started, True, reading)
        if taken - started >= most_s:
            return Settled(taken - started, False, reading)
        _keep_busy(load, now)
    return Settled(now() - started, None, reading)


def _steady_end(readings: list[tuple[float, int]]) -> list[tuple[float, int]]:
    """The longest end of ``readings`` whose clocks are all near one another: a slow drift is not steady."""
    start = 0
    while not _near([mhz for _, mhz in readings[start:]]):
        start += 1
    return readings[start:]


def _near(clocks_mhz: Sequence[int]) -> bool:
    highest = max(clocks_mhz)
    return highest - min(clocks_mhz) <= max(_STEP_MHZ, _TOLERANCE * highest)


def _keep_busy(load: Callable[[], object], now: Callable[[], float]) -> None:
    started = now()
    load()
    while now() - started < _BETWEEN_READINGS_S:
        load()


def why_not_held(asked_mhz: int, settled: Settled) -> str | None:
    """In words, that clocks locked at ``asked_mhz`` are others under load; None when they are, or when nobody knows.

    A driver takes the nearest clock that the GPU has, and power and heat lower a locked clock too. An idle GPU need not
    show its lock, so only what ``settle`` saw tells.
    """
    seen = settled.reading
    if seen is None or seen.sm_mhz is None or _near([asked_mhz, seen.sm_mhz]):
        return None
    reasons = f" ({', '.join(seen.reasons)})" if seen.reasons else ""
    return f"the clocks are locked at {asked_mhz} MHz, and under load the GPU runs at {seen.sm_mhz} MHz{reasons}"
