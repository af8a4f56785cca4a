"""Processors of this machine: shared for builds, exclusive for a measurement."""

from __future__ import annotations

import gc
import multiprocessing
import os
import platform
import re
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any, TypeVar

from pytest_compileiq.errors import EnvironmentFault

Item = TypeVar("Item")
Result = TypeVar("Result")


def spread(work: Callable[[Sequence[Item]], Result], items: Sequence[Item], *, least: int) -> list[Result]:
    """The result of ``work`` on each share of ``items``, in their order, computed in forked processes.

    Args:
        work: its result on one share is pickled, and its exception is raised here.
        least: items below which a share is not worth a process.

    Raises:
        EnvironmentFault: a process was killed before it answered.
    """
    count = max(1, min(len(os.sched_getaffinity(0)), len(items) // least))
    size = -(-len(items) // count) or 1
    first, *shares = [items[start : start + size] for start in range(0, len(items), size)] or [items]
    if not shares:
        return [work(first)]
    others = gc.get_freeze_count()
    gc.freeze()  # the collector skips what is imported by now, and leaves the memory that the processes share alone
    try:
        running = [_start(work, share) for share in shares]
        return [work(first), *(_answer_of(*each) for each in running)]
    finally:
        if not others:  # what somebody else froze stays so
            gc.unfreeze()


def _start(work: Callable[[Sequence[Item]], Result], share: Sequence[Item]) -> tuple[BaseProcess, Connection]:
    forked = multiprocessing.get_context("fork")
    receiver, sender = forked.Pipe(duplex=False)
    process = forked.Process(target=_run, args=(work, share, sender), daemon=True)
    process.start()
    sender.close()
    return process, receiver


def _answer_of(process: BaseProcess, receiver: Connection) -> Any:
    try:
        result, error = receiver.recv()
    except EOFError as end:
        process.join()
        raise EnvironmentFault(
            f"a process that shared the work was killed (exit code {process.exitcode}), by a person or for want of "
            "memory: run the same again"
        ) from end
    process.join()
    if error is not None:
        raise error
    return result


def _run(work: Callable[[Sequence[Item]], Result], share: Sequence[Item], answer: Connection) -> None:
    try:
        answer.send((work(share), None))
    except Exception as error:  # ``spread`` raises it
        answer.send((None, error))


class ProcessorTurn:
    """One processor, as the threads of one run share it; who wants to measure goes first."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._building = 0
        self._measuring = 0  # or waiting to

    @property
    def is_wanted(self) -> bool:
        return self._measuring > 0

    @contextmanager
    def building(self) -> Iterator[None]:
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


def this_architecture() -> str:
    """The architecture of this machine as targets spell it: ``x86-64``, ``aarch64``."""
    return platform.machine().replace("_", "-")


def what_it_runs() -> str:
    """Kernel and microcode, which change times and no machine code: ``Linux 6.1.0-28-amd64, microcode 0xa10113e``."""
    kernel = f"{platform.system()} {platform.release()}"
    try:
        listed = Path("/proc/cpuinfo").read_text(encoding="utf-8")
    except (OSError, ValueError):
        return kernel
    microcode = re.search(r"^microcode\s*:\s*(\S+)", listed, re.MULTILINE)
    return f"{kernel}, microcode {microcode[1]}" if microcode else kernel
