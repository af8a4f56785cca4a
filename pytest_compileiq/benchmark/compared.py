"""What ``acf.compare`` takes: an array of each name from each arm, and how one arm's is held against the other's."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from pytest_compileiq.errors import BodyError, CompileIQError


class OutputMismatch(CompileIQError, AssertionError):
    """The arms' outputs differ; whichever arm noticed, the tuned one is judged."""


@dataclass(frozen=True)
class Output:
    """One array, and within which tolerance the other arm's has to equal it: bit for bit where both are zero."""

    array: Any
    rtol: float = 0
    atol: float = 0

    @classmethod
    def of(cls, name: object, array: Any, *, rtol: float, atol: float) -> Output:
        """A copy of what a body gave as the output ``name``.

        Raises:
            BodyError: ``name`` is not a string, or ``array`` holds anything but numbers.
        """
        import numpy as np

        if not isinstance(name, str):
            raise BodyError(
                f"acf.compare({type(name).__name__}, …): expected a name first, e.g. acf.compare('out', out)"
            )
        copied = np.array(array, copy=True)
        if copied.dtype.hasobject:
            raise BodyError(f"acf.compare({name!r}, {type(array).__name__}): expected an array of numbers")
        return cls(copied, rtol, atol)

    @property
    def is_exact(self) -> bool:
        """Whether the arms have to agree bit for bit."""
        return not (self.rtol or self.atol)

    @property
    def how(self) -> str:
        """How it is compared, in words."""
        return "bit for bit" if self.is_exact else f"rtol={self.rtol:g}, atol={self.atol:g}"


@dataclass
class Outputs:
    """What the body that ran first compared, by name, until the other arm's body compares it; and how, in words."""

    waiting: dict[str, Output] = field(default_factory=dict)
    how: dict[str, str] = field(default_factory=dict)

    def take(self, name: str, output: Output, *, is_baseline: bool) -> None:
        """Keep what the first arm gave, and hold what the second gives against it.

        Raises:
            OutputMismatch: they differ.
        """
        self.how[name] = output.how
        if name not in self.waiting:
            self.waiting[name] = output
            return
        before = self.waiting.pop(name)
        tuned, baseline = (before, output) if is_baseline else (output, before)
        if reason := why_different(name, tuned, baseline):
            raise OutputMismatch(reason)


def why_different(name: str, tuned: Output, baseline: Output) -> str | None:
    """Why the tuned arm's output does not equal the baseline's as the body asks, or None."""
    import numpy as np

    before, now = baseline.array, tuned.array
    if (now.shape, now.dtype) != (before.shape, before.dtype):
        return f"output {name!r}: the baseline gave {before.dtype}{before.shape}, the tuned arm {now.dtype}{now.shape}"
    if not now.size:
        return None
    if tuned.is_exact:
        differ = (_bytes(now) != _bytes(before)).any(axis=1)
    else:
        differ = ~np.isclose(now, before, rtol=tuned.rtol, atol=tuned.atol, equal_nan=True)
    if not differ.any():
        return None
    return f"output {name!r}: {int(differ.sum())} of {differ.size} values differ from the baseline's ({tuned.how})"


def _bytes(array: Any) -> Any:
    """The bytes of each element, shape (elements, itemsize): NaNs and signed zeros count."""
    import numpy as np

    return np.frombuffer(array.tobytes(), dtype=np.uint8).reshape(array.size, -1)
