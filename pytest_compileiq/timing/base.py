"""What a clock is, and what a device is."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Literal, Protocol

from msgspec import Struct

from pytest_compileiq.samples import Conditions

if TYPE_CHECKING:
    from pytest_compileiq.timing.flip import Flip


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
    """Times calls of a kernel, or takes another metric while they run.

    Attributes:
        shortest_s: a sample shorter than this is dominated by the clock; shorter calls are repeated inside one sample.
        single_calls: the arms whose slots begin with single calls.
    """

    shortest_s: float
    single_calls: SingleCalls

    def seconds(self, call: Callable[[], object], repeats: int) -> float:
        """Seconds for one call, as the mean of ``repeats`` calls timed together."""
        ...

    def sample(self, call: Callable[[], object], repeats: int) -> float:
        """The metric's value for one call, as the mean of ``repeats``; for a clock of time, its seconds."""
        ...

    def once(self, call: Callable[[], object]) -> object:
        """Call as it is timed, and wait for the device; returns what the call returned."""
        ...

    def overwrite_before(self, call: Callable[[], object], flips: Sequence[Callable[[], Flip | None]]) -> None:
        """Flip bytes before each timed call of ``call``, where that is no part of what is timed.

        So the kernel cannot tell a timed call from a checked one. On a processor an overwrite would be timed; there the
        single calls of slots are compared instead (``rules.slot_starts``).

        Args:
            flips: each makes one; None for memory of the host.

        Raises:
            EnvironmentFault: the GPU has no memory for one.
        """
        ...

    def store_limit(self) -> StoreLimit:
        """The rate of stores above which a call has not written its outputs."""
        ...

    def why_void(self) -> str | None:
        """Why the samples so far measured something else than the kernel; None where they measured it."""
        ...

    def conditions(self) -> Conditions | None:
        """How the last sample was taken; None where there is nothing to choose."""
        ...
