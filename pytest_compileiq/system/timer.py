"""When to go on: the time that passes, and waiting in it."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator


class Timer:
    """This machine's time in seconds from any start; tests have one in which a wait takes none."""

    def now(self) -> float:
        """The time, which never goes back."""
        return time.monotonic()

    def wait_until(self, moment: float) -> None:
        """Return at ``moment``, or at once if it is over."""
        time.sleep(max(0.0, moment - self.now()))

    def spaced(self, numbers: Iterable[int], every_s: float) -> Iterator[int]:
        """Each of ``numbers``, at least ``every_s`` after the one before."""
        moment = self.now()
        for number in numbers:
            self.wait_until(moment)
            moment = self.now() + every_s
            yield number
