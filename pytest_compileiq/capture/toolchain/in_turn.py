"""The recorded calls of one shape, made in turn, each as cold as a program makes it."""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from pytest_compileiq.capture.toolchain.replay import RecordedCall

_SEED = 22
_TEXTS = 8  # of different content, so that no branch is learned
_TEXT_BYTES = 64 << 10


class CallsInTurn:
    """Recorded calls: ``calls()`` makes one of them, and ``reset()`` goes on to the next.

    In the program other code runs between two calls, and the next one has other data. A call that is made again and
    again on the same data has its branches learned and its memory in the caches, and a candidate may gain twice there
    what it gains in the program (bench/captured_alone.py). So ``reset`` also has 64 KiB deflated, untimed: that takes a
    processor's caches and branch predictor for its own.
    """

    def __init__(self, calls: Sequence[RecordedCall]) -> None:
        self._calls = calls
        self._resets = 0

    def __call__(self) -> Any:
        """Make the call; gives what it returns."""
        return self._current()

    def restore(self) -> None:
        """Put what the call changes back as it was before."""
        self._current.restore()

    def reset(self) -> None:
        """Go on to the next call, as it was before, and have what the processor has learned of it forgotten."""
        self._resets += 1
        self._current.restore()
        zlib.compress(_OTHER_WORK[self._resets % _TEXTS], 1)

    def check(self, *, rtol: float = 0.0, atol: float = 0.0) -> None:
        """As ``RecordedCall.check``, of the call that was made."""
        self._current.check(rtol=rtol, atol=atol)

    @property
    def _current(self) -> RecordedCall:
        return self._calls[self._resets % len(self._calls)]


_OTHER_WORK = [
    np.random.default_rng((_SEED, number)).integers(97, 117, _TEXT_BYTES, np.uint8).tobytes()
    for number in range(_TEXTS)
]
