"""The processor's clock, and what processor this is."""

from __future__ import annotations

import platform
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from pytest_compileiq.timing.base import Device, SingleCalls, StoreLimit
from pytest_compileiq.timing.store_rate import store_rate

if TYPE_CHECKING:
    from pytest_compileiq.timing.flip import Flip

_MOST_OF_RATE = 4


class CpuClock:
    """``perf_counter_ns``. Its own cost is about 50 ns, so that 50 µs keep it at a thousandth of a sample."""

    shortest_s = 50e-6
    single_calls: SingleCalls = "all"

    def seconds(self, call: Callable[[], object], repeats: int) -> float:
        """Seconds for one call of ``call``, the mean of ``repeats`` in a row."""
        start = time.perf_counter_ns()
        for _ in range(repeats):
            call()
        return (time.perf_counter_ns() - start) / repeats * 1e-9

    sample = seconds

    def once(self, call: Callable[[], object]) -> object:
        """Call; when it has returned, it has done its work."""
        return call()

    def overwrite_before(self, call: Callable[[], object], flips: Sequence[Callable[[], Flip | None]]) -> None:
        """Nothing: that would be timed."""

    def store_limit(self) -> StoreLimit:
        """Several times the measured rate of one core, which a machine under load measures too low."""
        return StoreLimit(_MOST_OF_RATE * store_rate(), f"{_MOST_OF_RATE} times the fastest store here")

    def why_void(self) -> None:
        """Nothing: the host's time is what is measured."""

    def conditions(self) -> None:
        """Nothing to choose."""


def cpu_device() -> Device:
    """This processor's model: on virtual machines the name alone hides the generation, so family and model follow."""
    fields = _cpuinfo()
    name = fields.get("model name") or platform.processor() or platform.machine()
    numbers = [f"{key} {fields[key]}" for key in ("cpu family", "model", "stepping") if key in fields]
    return Device(f"{name} ({', '.join(numbers)})" if numbers else name, platform.machine())


def _cpuinfo() -> dict[str, str]:
    try:
        first = Path("/proc/cpuinfo").read_text(encoding="utf-8").split("\n\n")[0]
    except OSError:
        return {}
    pairs = (line.partition(":") for line in first.splitlines())
    return {key.strip(): value.strip() for key, _, value in pairs}
