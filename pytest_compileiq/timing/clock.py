"""Clocks and devices: their protocols, the processor's own, and which specimen of its model a device is."""

from __future__ import annotations

import ctypes
import hashlib
import hmac
import os
import platform
import re
import time
from collections.abc import Callable, Sequence
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Literal, Protocol

from msgspec import Struct

from pytest_compileiq.errors import EnvironmentFault
from pytest_compileiq.model import UNIT
from pytest_compileiq.samples import Conditions
from pytest_compileiq.system.files import is_in_container, text_of

if TYPE_CHECKING:
    from pytest_compileiq.timing.cuda_context import Flip

SingleCalls = Literal["all", "bare", "none"]
"""Whose slots begin with single calls: all arms, arms without a check, or none, since the host would be timed."""


class Device(Struct, frozen=True):
    """Where a kernel runs: the model, never one device of it."""

    name: str
    architecture: str
    driver: str | None = None
    power_limit_w: float | None = None


class Measures(Struct, frozen=True):
    """What a machine measures kernels of one kind on; ``no_energy`` says why it measures no energy, if it does not."""

    device: Device
    no_energy: str | None = None


def capability(arch: str) -> tuple[int, int]:
    """``sm_90a`` → (9, 0), ``sm_103`` → (10, 3)."""
    return divmod(int(arch.removeprefix("sm_").rstrip("af")), 10)


class StoreLimit(Struct, frozen=True):
    """The highest rate of stores of one core, or of a whole GPU, in bytes a second, and its origin in words."""

    bytes_per_s: float
    words: str


class Clock(Protocol):
    """Times calls of a kernel, or takes another metric while they run."""

    shortest_s: float  # shorter calls are repeated inside one sample
    single_calls: SingleCalls  # the arms whose slots begin with single calls

    def seconds(self, call: Callable[[], object], repeats: int) -> float:
        """Seconds for one call, as the mean of ``repeats`` calls timed together."""

    def sample(self, call: Callable[[], object], repeats: int) -> float:
        """The metric's value for one call, as the mean of ``repeats``; for a clock of time, its seconds."""

    def once(self, call: Callable[[], object]) -> object:
        """Call as it is timed, and wait for the device; returns what the call returned."""

    def overwrite_before(self, call: Callable[[], object], flips: Sequence[Callable[[], Flip | None]]) -> None:
        """Flip bytes before each timed call of ``call``, where that is no part of what is timed."""

    def store_limit(self) -> StoreLimit:
        """The rate of stores above which a call has not written its outputs."""

    def why_void(self) -> str | None:
        """Why the samples so far measured something else than the kernel; None where they measured it."""

    def conditions(self) -> Conditions | None:
        """How the last sample was taken; None where there is nothing to choose."""


_SMALL_BYTES, _LARGE_BYTES = 4 << 10, 24 << 10  # both in any L1 cache
_LOOPS, _CALLS = 60, 10
_LEAST = 100e9  # 32 bytes a cycle at 3 GHz: on a busy machine 14 were measured where 118 are right


@lru_cache(maxsize=1)
def store_rate() -> float:
    """Bytes a second that one core stores to its L1 cache: the best of 60 loops, without the cost of a call."""
    small_s, large_s = (min(_seconds(size) for _ in range(_LOOPS)) for size in (_SMALL_BYTES, _LARGE_BYTES))
    # By chance the smaller one may have taken as long: then only the larger one says something.
    # A busy machine measures too little: never below a common core's rate.
    taken_s = large_s - small_s if large_s > 1.2 * small_s else large_s
    return max(_LEAST, (_LARGE_BYTES - _SMALL_BYTES) / taken_s)


def _seconds(size: int) -> float:
    """Of one call that stores so many bytes, the mean of a loop."""
    memory = ctypes.create_string_buffer(size)
    begun = time.perf_counter_ns()
    for _ in range(_CALLS):
        ctypes.memset(memory, 1, size)
    return max(1, time.perf_counter_ns() - begun) / _CALLS * 1e-9


_MOST_OF_RATE = 4


class CpuClock:
    """``perf_counter_ns``. Its own cost is about 50 ns, so that 50 µs keep it at a thousandth of a sample."""

    shortest_s = 50e-6
    single_calls: SingleCalls = "all"

    def seconds(self, call: Callable[[], object], repeats: int) -> float:
        start = time.perf_counter_ns()
        for _ in range(repeats):
            call()
        return (time.perf_counter_ns() - start) / repeats * 1e-9

    sample = seconds

    def once(self, call: Callable[[], object]) -> object:
        return call()

    def overwrite_before(self, call: Callable[[], object], flips: Sequence[Callable[[], Flip | None]]) -> None:
        """Nothing: that would be timed."""

    def store_limit(self) -> StoreLimit:
        # a machine under load measures too low
        return StoreLimit(_MOST_OF_RATE * store_rate(), f"{_MOST_OF_RATE} times the fastest store here")

    def why_void(self) -> None:
        """Nothing: the host's time is what is measured."""

    def conditions(self) -> None:
        """Nothing to choose."""


def cpu_device() -> Device:
    """This processor's model: on virtual machines the name alone hides the generation, so family and model follow."""
    try:
        first = Path("/proc/cpuinfo").read_text(encoding="utf-8").split("\n\n")[0]
    except OSError:
        first = ""
    fields = {key.strip(): value.strip() for key, _, value in (line.partition(":") for line in first.splitlines())}
    name = fields.get("model name") or platform.processor() or platform.machine()
    numbers = [f"{key} {fields[key]}" for key in ("cpu family", "model", "stepping") if key in fields]
    return Device(f"{name} ({', '.join(numbers)})" if numbers else name, platform.machine())


MACHINE = "ACF_MACHINE"
# machine-id(5) asks for it: the id is confidential, and an application tells others a digest under a key of its own.
_KEY = b"pytest-compileiq: which machine"
_ID = re.compile(r"[0-9a-f]{32}")
_DIGITS = 32


def unit_of(kind: str, root: Path = Path("/")) -> str:
    """The device of ``kind`` in use: a GPU, or a part of one, by NVML's UUID, a processor by its machine.

    Empty where nothing tells: whatever else is unknown may be the same device.
    """
    if kind == "cpu":
        return _machine(root)
    from pytest_compileiq.timing.cuda_context import current_uuid  # heavy: the CUDA driver

    try:
        return current_uuid()
    except EnvironmentFault:
        return ""


def _machine(root: Path) -> str:
    """What ``ACF_MACHINE`` says, else a digest of the machine's id."""
    if given := os.environ.get(MACHINE):
        return given if UNIT.fullmatch(given) else _digest(given)
    # Containers of one image may hold one machine-id, and those of one machine have to count as one: the boot's id.
    machine = "" if is_in_container() else text_of(root / "etc/machine-id")
    known = machine if _ID.fullmatch(machine) else text_of(root / "proc/sys/kernel/random/boot_id")
    return _digest(known) if known else ""


def _digest(text: str) -> str:
    return f"CPU-{hmac.new(_KEY, text.encode(errors='replace'), hashlib.sha256).hexdigest()[:_DIGITS]}"
