"""Who uses a processor: builds side by side, or one measurement that nothing disturbs."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager


class ProcessorTurn:
    """One processor, as the threads of one run share it; who wants to measure goes first."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._building = 0
        self._measuring = 0  # or waiting to

    @property
    def is_wanted(self) -> bool:
        """Whether somebody measures, or waits to."""
        return self._measuring > 0

    @contextmanager
    def building(self) -> Iterator[None]:
        """Build, beside others that do."""
        with self._changed:
            self._changed.wait_for(lambda: not self.is_wanted)
            self._building += 1
        try:
            yield
        finally:
            with self._changed:
                self._building -= 1
                self._changed.notify_all()

    @contextmanager
    def measuring(self) -> Iterator[None]:
        """Measure, while nothing is built; other measurements are kept off by the machine's lock."""
        with self._changed:
            self._measuring += 1
            self._changed.wait_for(lambda: not self._building)
        try:
            yield
        finally:
            with self._changed:
                self._measuring -= 1
                self._changed.notify_all()
