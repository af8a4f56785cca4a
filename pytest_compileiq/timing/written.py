"""What calls write to one output, and how it is overwritten before one that is looked at."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct

if TYPE_CHECKING:
    from pytest_compileiq.timing.device_kernels import Flip
    from pytest_compileiq.timing.outputs import Bytes, Mask, Output

_MOST_APART = 0.1  # of the values
POISONS = (0xFF, 0x00)  # floating-point NaN, and zero


class WrittenOutput(Struct):
    """One output after a call."""

    output: Output
    content: Bytes  # what the call leaves there
    written: Mask | None  # the bytes to overwrite before a call, those that it writes; None for all

    @property
    def written_bytes(self) -> int:
        """How many bytes calls write."""
        return self.content.size if self.written is None else int(self.written.sum())

    @property
    def own_bytes(self) -> Bytes:
        """What calls write, without what they leave alone."""
        return self.content if self.written is None else self.content[self.written]

    def left_of(self, other: WrittenOutput) -> Mask | None:
        """Which bytes the other arm's call writes and this one's leaves; None where there are none."""
        if self.written is None or self.content.size != other.content.size:
            return None
        left = ~self.written if other.written is None else other.written & ~self.written
        return left if left.any() else None

    def why_apart(self, other: WrittenOutput) -> str | None:
        """How these values differ from the baseline's, in words; None where few do, or numpy lacks their type."""
        from pytest_compileiq.rules.accuracy import share_apart

        if (dtype := self.output.dtype) is None or dtype != other.output.dtype or self.output.size != other.output.size:
            return None
        written = [arm.written for arm in (self, other) if arm.written is not None]
        whole = [mask.reshape(-1, dtype.itemsize).all(axis=1) for mask in written]
        own, its = (
            arm.content.view(dtype)[whole[0] & whole[-1]] if whole else arm.content.view(dtype) for arm in (self, other)
        )
        if (share := share_apart(its, own)) < _MOST_APART:
            return None
        return (
            f"{share:.0%} of the values in {self.output.name} differ from the baseline's by more than a tenth of its "
            "largest value; if both are correct, define correct outputs by measure(check=…)"
        )

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
