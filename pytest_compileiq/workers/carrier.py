"""Where workers live and how their parent reaches them; ``workers.local`` keeps them as processes of this machine.

Another carrier, such as one to the machines of a cluster, keeps the same promises; conversations and pools rely on
nothing else.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from contextlib import AbstractContextManager
from typing import Protocol

from pytest_compileiq.errors import Signal
from pytest_compileiq.workers.messages import Answer, Order, Start

MOST_LOSSES = 2  # of workers, with one piece of work: it might be what ends the machines


class WorkerDied(Signal):
    """The worker crashed, exited, hung or printed without end; ``kind`` is the evaluation's failure."""

    def __init__(self, kind: str, reason: str) -> None:
        super().__init__(reason)
        self.kind = kind
        self.reason = reason


class Line(Protocol):
    """One worker as its parent reaches it."""

    @property
    def is_outdated(self) -> bool:
        """Whether a new worker of its number would live elsewhere: its device is lost, or has come back."""

    def send(self, order: Order) -> None:
        """Send one order.

        Raises:
            WorkerDied: nobody is there to take it.
        """

    def receive(self, timeout_s: float) -> Answer:
        """The next answer; ``timeout_s`` bounds the time without progress of the worker.

        Raises:
            WorkerDied: none comes.
        """

    def close(self, wait_s: float) -> None:
        """Wait for its end, and kill it if it does not end within ``wait_s``."""

    def kill(self) -> None:
        """End it now, with all that it started in its process group."""


class Carrier(Protocol):
    """Starts workers somewhere."""

    @property
    def shares_files(self) -> bool:
        """Whether workers see this machine's files at the same paths."""

    @property
    def devices(self) -> int:
        """How many devices the workers are spread over: worker ``number`` lives on device ``number % devices``."""

    def launch(self, start: Start, number: int) -> Line:
        """Start worker ``number``, without waiting for it to be ready.

        Raises:
            WorkerDied: it ended at once.
            OSError: no process can be started there.
        """

    def alone(self, number: int, kinds: Sequence[str]) -> AbstractContextManager[None]:
        """Keep everybody else in this run off the device of worker ``number`` meanwhile.

        And everybody else on its machine from measuring on the devices of ``kinds``. Not on GPUs: only the worker knows
        which one its body uses, and locks it.
        """

    def sweep(self, spared: Collection[Line] = ()) -> None:
        """Kill whatever the workers have left behind, but not the workers ``spared``."""
