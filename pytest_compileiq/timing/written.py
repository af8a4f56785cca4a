"""What calls write to one output, and how it is overwritten before one that is looked at."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct

if TYPE_CHECKING:
    from pytest_compileiq.timing.flip import Flip
    from pytest_compileiq.timing.outputs import Bytes, Mask, Output

POISONS = (0xFF, 0x00)  # floating-point NaN, and zero


class Written(Struct):
    """One output after a call.

    Attributes:
        content: what the call leaves there.
        written: the bytes to overwrite before a call, those that it writes; None for all.
    """

    output: Output
    content: Bytes
    written: Mask | None

    @property
    def written_bytes(self) -> int:
        """How many bytes calls write."""
        return self.content.size if self.written is None else int(self.written.sum())

    def left_of(self, other: Written) -> Mask | None:
        """Which bytes the other arm's call writes and this one's leaves; None where there are none."""
        if self.written is None or self.content.size != other.content.size:
            return None
        left = ~self.written if other.written is None else other.written & ~self.written
        return left if left.any() else None

    def poison_also(self, left: Mask | None) -> None:
        """Overwrite these bytes, too, lest the other arm's are taken for this one's."""
        if self.written is not None and left is not None:
            self.written = self.written | left

    def poison(self) -> None:
        """Overwrite what calls write."""
        from pytest_compileiq.timing.outputs import filled

        poisoned = filled(self.output, POISONS[0])
        if self.written is not None:
            poisoned[~self.written] = self.output.now()[~self.written]
        self.output.write(poisoned)

    def overwrite(self, flipped: int) -> None:
        """Overwrite the bytes that calls write by themselves with these bits flipped; 0 is as much work and traffic."""
        import numpy as np

        self.output.flip(np.uint8(flipped) if self.written is None else self.written * np.uint8(flipped))

    def flip_of_all(self) -> Flip | None:
        """What flips all bits of the bytes that calls write on a GPU; None in the host's memory."""
        from pytest_compileiq.timing.outputs import filled

        bits = filled(self.output, 0xFF)
        return self.output.flip_of(bits if self.written is None else self.written * bits)
