"""The same work on many items, one share per core. Processes are forked, so the work may be any callable."""

from __future__ import annotations

import gc
import multiprocessing
import os
from collections.abc import Callable, Sequence
from multiprocessing.connection import Connection
from typing import TypeVar

from pytest_compileiq.errors import EnvironmentFault

Item = TypeVar("Item")
Result = TypeVar("Result")


def spread(work: Callable[[Sequence[Item]], Result], items: Sequence[Item], *, least: int) -> list[Result]:
    """The result of ``work`` on each share of ``items``, in their order; what a share raises is raised here.

    Args:
        work: what to do with one share; its result goes through a pipe, pickled.
        least: items below which a share is not worth a process.

    Raises:
        EnvironmentFault: a process was killed before it answered.
    """
    shares = _shares(items, least)
    if len(shares) == 1:
        return [work(shares[0])]
    others = gc.get_freeze_count()
    gc.freeze()  # the collector skips what is imported by now, and leaves the memory that the processes share alone
    try:
        return _spread(work, shares)
    finally:
        if not others:  # what somebody else froze stays so
            gc.unfreeze()


def _spread(work: Callable[[Sequence[Item]], Result], shares: Sequence[Sequence[Item]]) -> list[Result]:
    forked = multiprocessing.get_context("fork")
    running = []
    for share in shares[1:]:
        receiver, sender = forked.Pipe(duplex=False)
        process = forked.Process(target=_run, args=(work, share, sender), daemon=True)
        process.start()
        sender.close()
        running.append((process, receiver))
    results = [work(shares[0])]
    for process, receiver in running:
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
        results.append(result)
    return results


def _shares(items: Sequence[Item], least: int) -> list[Sequence[Item]]:
    count = max(1, min(len(os.sched_getaffinity(0)), len(items) // least))
    size = -(-len(items) // count) or 1
    return [items[start : start + size] for start in range(0, len(items), size)] or [items]


def _run(work: Callable[[Sequence[Item]], Result], share: Sequence[Item], answer: Connection) -> None:
    try:
        answer.send((work(share), None))
    except Exception as error:  # ``spread`` raises it
        answer.send((None, error))
