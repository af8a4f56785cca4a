"""Several benchmarks at once, each on a device of its own.

By threads, since they wait for compilers and workers. Only the main thread hears a Ctrl-C; the others are told
between two evaluations.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_EXCEPTION, CancelledError, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from queue import SimpleQueue
from typing import TypeVar

from pytest_compileiq.config import Budget
from pytest_compileiq.errors import LeftAlone
from pytest_compileiq.outcome import ItemReport
from pytest_compileiq.progress import Progress, SearchCounts
from pytest_compileiq.workers.pool import Pool

Work = TypeVar("Work")


def on_devices(
    devices: int, take: Callable[[], Work | None], do: Callable[[Work, int], None], interrupt: Callable[[], None]
) -> None:
    """Have each device ``do`` what it ``take``s, until that is None; raises what doing it raised.

    With one device it is done on the caller's own thread, which hears a Ctrl-C. ``interrupt`` is called after a Ctrl-C,
    and when a device has failed: then the others have to come to an end.
    """

    def serve(place: int) -> None:
        while (work := take()) is not None:
            do(work, place)

    if devices == 1:
        serve(0)
        return
    with ThreadPoolExecutor(devices, thread_name_prefix="compileiq-device") as threads:
        serving = [threads.submit(serve, place) for place in range(devices)]
        try:
            wait(serving, return_when=FIRST_EXCEPTION)
            for served in serving:
                if served.done():
                    served.result()
        except BaseException:
            interrupt()
            raise


@dataclass
class Interruption:
    """A Ctrl-C as the threads hear it: the first ends searches, the second ends everything."""

    times: int = 0

    def heard_by(self, progress: Progress) -> Progress:
        return _Hearing(progress, self)


@dataclass
class _Hearing:
    progress: Progress
    interruption: Interruption
    _ended_search: bool = False

    def evaluated(self, tally: SearchCounts, budget: Budget, shift: float | None) -> None:
        self.progress.evaluated(tally, budget, shift)
        if self.interruption.times and not self._ended_search:
            self._ended_search = True
            raise KeyboardInterrupt

    def say(self, text: str) -> None:
        if self.interruption.times > 1:
            raise KeyboardInterrupt
        self.progress.say(text)


@dataclass
class SideBySide:
    """The benchmarks of a run, each tuned on the first device that is free, in their order."""

    tune: Callable[[str, Pool], ItemReport]
    pools: Sequence[Pool]
    interruption: Interruption
    _free: SimpleQueue[Pool] = field(default_factory=SimpleQueue)
    _threads: ThreadPoolExecutor = field(init=False)
    _tuned: dict[str, Future[ItemReport]] = field(default_factory=dict)

    def begin(self, nodeids: Sequence[str]) -> None:
        self._threads = ThreadPoolExecutor(len(self.pools), thread_name_prefix="compileiq-device")
        for pool in self.pools:
            self._free.put(pool)
        self._tuned = {nodeid: self._threads.submit(self._tune, nodeid) for nodeid in nodeids}

    @property
    def interrupted(self) -> bool:
        return self.interruption.times > 0

    def report_of(self, nodeid: str) -> ItemReport:
        """Wait for the report of a benchmark; raises what tuning it raised.

        Raises:
            LeftAlone: the run was interrupted before it was begun, or had anything to settle.
            KeyboardInterrupt: a second Ctrl-C.
        """
        while True:
            try:
                return self._tuned[nodeid].result()
            except CancelledError as error:
                raise LeftAlone("interrupted before it was begun: the same command begins it") from error
            except KeyboardInterrupt:
                self.cancel()
                if self.interruption.times > 1:
                    raise

    def cancel(self) -> bool:
        """Begin nothing more, and end the searches under way; returns whether there are any."""
        self.interruption.times += 1
        for future in self._tuned.values():
            future.cancel()
        return not all(future.done() for future in self._tuned.values())

    def close(self, end_work: Callable[[], None]) -> None:
        if self.cancel():
            end_work()
        self._threads.shutdown()

    def _tune(self, nodeid: str) -> ItemReport:
        pool = self._free.get()
        try:
            return self.tune(nodeid, pool)
        except KeyboardInterrupt as error:  # before there was anything to settle
            raise LeftAlone("interrupted before there was anything to settle: the same command goes on") from error
        finally:
            self._free.put(pool)
