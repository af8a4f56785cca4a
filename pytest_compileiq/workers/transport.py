"""Where workers live and how their parent reaches them; ``workers.local`` keeps them as processes of this machine."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Protocol

from pytest_compileiq.benchmark.builds import Afar
from pytest_compileiq.errors import Signal
from pytest_compileiq.workers.messages import Answer, Order, Start

MOST_LOSSES = 2  # of workers, with one piece of work: it might be what ends the machines


class WorkerDied(Signal):
    """The worker crashed, exited, hung or printed without end; ``kind`` is the evaluation's failure."""

    def __init__(self, kind: str, reason: str) -> None:
        super().__init__(reason)
        self.kind = kind
        self.reason = reason


class Connection(Protocol):
    """One worker as its parent reaches it.

    Raises:
        WorkerDied: of ``bring``, ``send`` and ``receive``: the worker is lost, or gives no answer.
    """

    @property
    def is_outdated(self) -> bool:
        """Whether a new worker of its number would live elsewhere: its device is lost, or has come back."""

    @property
    def shares_files(self) -> bool:
        """Whether it sees this machine's files at the same paths."""

    def bring(self, build: Path) -> None:
        """Copy a build, a folder of the run's builds, to where the worker looks for it, if it does not see this one."""

    def send(self, order: Order) -> None:
        """Send one order."""

    def receive(self, timeout_s: float) -> Answer:
        """The next answer; ``timeout_s`` bounds the time without progress of the worker."""

    def close(self, wait_s: float) -> None:
        """Wait for its end, and kill it if it does not end within ``wait_s``."""

    def kill(self) -> None:
        """End it now, with all that it started in its process group."""


class Transports(Protocol):
    """Transports to other machines, for one run."""

    @property
    def each(self) -> Sequence[Transport]:
        """One transport to each device that the run began with."""

    def afar(self, nodeid: str) -> Afar:
        """What other machines do for the test ``nodeid``.

        Raises:
            EnvironmentFault: no machine can build it.
        """

    def close(self) -> None:
        """End what is under way there; closing twice does nothing more."""


class Transport(Protocol):
    """Starts workers somewhere, and keeps others off their devices."""

    def launch(self, start: Start, number: int) -> Connection:
        """Start worker ``number``, without waiting for it to be ready.

        Raises:
            WorkerDied: it ended at once.
            OSError: no process can be started there.
        """

    @property
    def devices(self) -> int:
        """How many devices the workers are spread over: worker ``number`` lives on device ``number % devices``."""

    def alone(self, number: int, kinds: Sequence[str]) -> AbstractContextManager[None]:
        """Keep everybody else in this run off the device of worker ``number`` meanwhile.

        And everybody else on its machine from measuring on the devices of ``kinds``. Not on GPUs: only the worker knows
        which one its body uses, and locks it.

        Raises:
            WorkerDied: its device is lost.
        """

    def refuse(self, number: int, reason: str) -> WorkerDied:
        """Use the machine of worker ``number`` no more, for its unlikeness; returns what that worker dies of."""

    def sweep(self, spared: Collection[Connection] = ()) -> None:
        """Kill whatever the workers have left behind, but not the workers ``spared``."""
