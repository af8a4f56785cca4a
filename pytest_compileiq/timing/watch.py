"""What may disturb a measurement while it is taken: a device that slows itself down, or others that compute on it."""

from __future__ import annotations

from collections.abc import Callable
from types import TracebackType
from typing import TYPE_CHECKING, Self

from pytest_compileiq.errors import Signal
from pytest_compileiq.samples import ClockReading

if TYPE_CHECKING:
    from pytest_compileiq.timing.gpu_clocks import Settled


class Disturbance(Signal):
    """Others compute on the device, or nobody can tell: nothing that is measured now proves anything."""


class Watch:
    """Watches one block; this one is of a device that cannot tell anything.

    Raises:
        Disturbance: of ``before`` and ``after_quad``: somebody else computes on the device.
    """

    remarks: tuple[str, ...] = ()  # what could not be seen, or kept out, in sentences
    locked_mhz: int | None = None  # where the device's clocks are held; None where they are free

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Let others measure again."""

    def before(self) -> None:
        """Keep others that measure off the device from now on; asked before sampling, maybe more than once."""

    def settle(self, load: Callable[[], object]) -> Settled | None:
        """Keep the device busy with ``load`` until its clocks are steady; None where it has none to wait for."""
        return None

    def after_slot(self) -> ClockReading | None:
        """The device's clocks, while it is still warm; None where it has none."""
        return None

    def after_quad(self) -> str | None:
        """Why the quad does not count, or None when it counts; asked once more when the block has been sampled."""
        return None


UNWATCHED = Watch()
