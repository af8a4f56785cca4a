"""What ``acf.compare`` takes: an array of each name from each arm, and how one arm's is held against the other's."""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec import Struct

from pytest_compileiq.errors import BodyError, CompileIQError


class OutputMismatch(CompileIQError, AssertionError):
    """The arms' outputs differ; whichever arm noticed, the tuned one is judged."""


class OffReference(CompileIQError, AssertionError):
    """An arm's output is farther from its reference than the body allows; that arm is judged."""


class ComparedOutput(Struct, frozen=True):
    """One array, and what it has to equal within a tolerance: its reference, or without one the other arm's array."""

    array: Any
    rtol: float = 0
    atol: float = 0
    reference: Any = None

    @classmethod
    def of(cls, name: object, array: Any, *, rtol: float, atol: float, reference: Any) -> ComparedOutput:
        """A copy of what a body gave as the output ``name``."""
        import numpy as np

        if not isinstance(name, str):
            raise BodyError(
                f"acf.compare({type(name).__name__}, …): expected a name first, e.g. acf.compare('out', out)"
            )
        copied = np.array(array, copy=True)
        if copied.dtype.hasobject:
            raise BodyError(f"acf.compare({name!r}, {type(array).__name__}): expected an array of numbers")
        output = cls(copied, rtol, atol, None if reference is None else np.array(reference, copy=True))
        if output.reference is not None:
            output._expect_reference(name)
        return output

    @property
    def is_exact(self) -> bool:
        """Whether no tolerance is given."""
        return not (self.rtol or self.atol)

    @property
    def how(self) -> str:
        """How it is compared, in words."""
        tolerance = f"rtol={self.rtol:g}, atol={self.atol:g}"
        if self.reference is None:
            return "bit for bit" if self.is_exact else tolerance
        return "with its reference, not judged" if self.is_exact else f"with its reference, {tolerance}"

    def _expect_reference(self, name: str) -> None:
        import numpy as np

        from pytest_compileiq.rules.accuracy import NUMBERS

        given = self.array, self.reference
        if self.array.shape != self.reference.shape or any(array.dtype.kind not in NUMBERS for array in given):
            got = " and ".join(f"{array.dtype}{array.shape}" for array in given)
            raise BodyError(
                f"acf.compare({name!r}, …, reference=…): expected numbers in two arrays of one shape, got {got}"
            )
        if self.is_exact:
            return
        off = ~np.isclose(self.array, self.reference, rtol=self.rtol, atol=self.atol, equal_nan=True)
        if off.any():
            raise OffReference(
                f"output {name!r}: {int(off.sum())} of {off.size} values are off their reference "
                f"(rtol={self.rtol:g}, atol={self.atol:g})"
            )


class Outputs(Struct):
    """What bodies compared, by name."""

    given: dict[str, ComparedOutput] = msgspec.field(default_factory=dict)  # what the body that ran last gave
    # What the body that ran first gave, until the other arm's body compares it.
    waiting: dict[str, ComparedOutput] = msgspec.field(default_factory=dict)
    how: dict[str, str] = msgspec.field(default_factory=dict)  # how each is compared, in words

    def take(self, name: str, output: ComparedOutput, *, is_baseline: bool) -> None:
        """Keep what the first arm gave, and hold what the second gives against it, unless it has a reference.

        Raises:
            OutputMismatch: they differ.
        """
        self.given[name] = output
        self.how[name] = output.how
        if output.reference is not None:
            return
        if name not in self.waiting:
            self.waiting[name] = output
            return
        before = self.waiting.pop(name)
        tuned, baseline = (before, output) if is_baseline else (output, before)
        if reason := why_different(name, tuned, baseline):
            raise OutputMismatch(reason)


def why_different(name: str, tuned: ComparedOutput, baseline: ComparedOutput) -> str | None:
    """Why the tuned arm's output does not equal the baseline's as the body asks, or None."""
    import numpy as np

    from pytest_compileiq.rules.accuracy import bytes_differ

    before, now = baseline.array, tuned.array
    if (now.shape, now.dtype) != (before.shape, before.dtype):
        return f"output {name!r}: the baseline gave {before.dtype}{before.shape}, the tuned arm {now.dtype}{now.shape}"
    if tuned.is_exact:
        differ = bytes_differ(now, before)
    else:
        differ = ~np.isclose(now, before, rtol=tuned.rtol, atol=tuned.atol, equal_nan=True)
    if not differ.any():
        return None
    return f"output {name!r}: {int(differ.sum())} of {differ.size} values differ from the baseline's ({tuned.how})"
