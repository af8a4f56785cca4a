"""Counters of this process's watched calls: of which function, on what, how often and how long."""

from __future__ import annotations

import atexit
import contextlib
import json
import os
import threading
from collections.abc import Callable
from time import perf_counter_ns
from typing import TYPE_CHECKING, Any, NamedTuple

from . import cffi_hook, ctypes_hook
from .shapes import DESCRIBE, told_of_shape
from .values import Memory, Number, Refused, with_extents

if TYPE_CHECKING:
    from .both_arms import Arms
    from .recorder import Recorder
    from .shapes import Shape
    from .values import Extents, ForeignFunction

SCHEMA = 1
RAISED = object()  # in a result's place
_DOORS: dict[str, Any] = {"ctypes": ctypes_hook, "cffi": cffi_hook}
_MOST_SHAPES = 20_000  # of a thread, all functions together; a shape beyond counts as none
_BATCHES = 20
_BATCH_CALLS = 100


class ForeignCall(NamedTuple):
    """A call that has been made; ``call(called, *arguments)`` makes it again."""

    called: Any  # the object that the program called
    function: ForeignFunction
    shape: Shape
    arguments: tuple[Any, ...]
    result: Any  # what it gave, or ``RAISED``
    own_ns: int  # its time, without the watched calls within it
    call: Callable[..., Any]


def number_of(function: ForeignFunction, called: Any, result: Any) -> Number | None:
    """The number that C returned; None for nothing, or where nobody said what it returns."""
    number: Number | None = _DOORS[function.door].returned(called, result)
    return number


def given_to(
    function: ForeignFunction, called: Any, arguments: tuple[Any, ...], named: dict[str, Any], extents: Extents | None
) -> list[Number | Memory | None]:
    """What a call is about to be given; None for NULL. ``extents`` is what the user said of memory."""
    if named:
        raise Refused("it is called with named arguments")
    return with_extents(_DOORS[function.door].taken(called, arguments), extents)


class _Thread:
    """The calls of one thread, so that no two threads write to one count."""

    __slots__ = ("calls", "inner_ns", "spent_ns")

    def __init__(self) -> None:
        # How many, their time, and that of the two longest.
        self.calls: dict[tuple[ForeignFunction, Shape], list[int]] = {}
        self.inner_ns = 0  # the time in watched calls that were made within the present one, by a callback
        self.spent_ns = 0  # what the watching itself took


class Counters:
    """Counts what the hooks hand in, and writes it to ``path`` when the interpreter ends.

    Nothing here raises into the program: the first failure is kept, and told at the end. ``recorder`` records calls,
    ``arms`` make them by other builds; there is at most one of the two.
    """

    def __init__(self, path: str, recorder: Recorder | None = None, arms: Arms | None = None) -> None:
        self.failure: str | None = None
        self.is_open = True
        self._path = path
        self._recorder = recorder
        self._arms = arms
        self._process = os.getpid()
        self._forks = 0
        self.refused: list[Callable[[], list[str]]] = []  # ask at the end for sentences on what could not be watched
        self.calibration: tuple[Callable[[], Any], Callable[[], Any]]  # a watched call, and the same unwatched
        self._threads: list[_Thread] = []
        self._current = threading.local()
        self._began = perf_counter_ns()
        os.register_at_fork(after_in_parent=self._count_fork, after_in_child=self._close)

    def write_at_exit(self) -> None:
        """Write at the very end, behind what the program registers: exit functions run last in, first out."""
        atexit.register(self._write)

    def fail(self, error: BaseException) -> None:
        self.failure = self.failure or f"{type(error).__name__}: {error}"

    def watching(
        self, call: Callable[..., Any], function_of: Callable[[Any], ForeignFunction | None]
    ) -> Callable[..., Any]:
        """A ``__call__`` that counts and calls as ``call``; ``function_of`` tells, once of an object, what it calls."""
        tally, current, thread, describe = self, self._current, self._thread, DESCRIBE
        observer: Any = self._recorder or self._arms

        def watched(self: Any, /, *arguments: Any, **named: Any) -> Any:
            entered = perf_counter_ns()
            try:
                function = self._acf_function
            except AttributeError:
                function = function_of(self)
            if function is None or not tally.is_open:
                return call(self, *arguments, **named)
            try:
                mine = current.mine
            except AttributeError:
                mine = thread()
            try:
                shape = tuple([describe[type(argument)](argument) for argument in arguments])
            except Exception as error:  # of an object of the program's
                tally.fail(error)
                shape = ()
            begun = None
            if observer:
                try:
                    begun = observer.begin(self, function, shape, arguments, named)
                except Exception as error:
                    tally.fail(error)
            outer_ns, mine.inner_ns = mine.inner_ns, 0
            result = RAISED
            began = perf_counter_ns()
            try:
                result = call(self, *arguments, **named)
                return result
            finally:
                ended = perf_counter_ns()
                try:
                    counted = mine.calls[function, shape]
                except KeyError:
                    kept = shape if len(mine.calls) < _MOST_SHAPES else ()
                    counted = mine.calls.setdefault((function, kept), [0, 0, 0, 0])
                own_ns = ended - began - mine.inner_ns
                counted[0] += 1
                counted[1] += own_ns
                if own_ns > counted[3]:
                    counted[2], counted[3] = max(own_ns, counted[2]), min(own_ns, counted[2])
                if begun is not None:
                    try:
                        observer.finish(begun, ForeignCall(self, function, shape, arguments, result, own_ns, call))
                    except Exception as error:
                        tally.fail(error)
                left = perf_counter_ns()
                mine.spent_ns += left - ended + began - entered
                mine.inner_ns = outer_ns + left - entered

        return watched

    def unseen_ns(self, watched: Callable[[], Any], plain: Callable[[], Any]) -> float:
        """What a watched call costs beyond what the watching has measured of itself: its entry and its exit."""
        mine = self._thread()
        costs = []
        for call in (watched, plain):
            batches = []
            for _ in range(_BATCHES):
                before_ns, began = mine.spent_ns, perf_counter_ns()
                for _ in range(_BATCH_CALLS):
                    call()
                batches.append(perf_counter_ns() - began - (mine.spent_ns - before_ns))
            costs.append(min(batches))  # since what else the machine does only adds to it
        return max(0.0, (costs[0] - costs[1]) / _BATCH_CALLS)

    def _thread(self) -> _Thread:
        mine = self._current.mine = _Thread()
        self._threads.append(mine)
        return mine

    def _count_fork(self) -> None:
        self._forks += 1

    def _close(self) -> None:
        self.is_open = False

    def _write(self) -> None:
        if os.getpid() != self._process:  # a child that forked and ends by itself
            return
        elapsed_ns = perf_counter_ns() - self._began
        try:
            told = json.dumps(self._told(elapsed_ns))
            with open(self._path, "w", encoding="utf-8") as stream:
                stream.write(told)
        except Exception as error:  # the program ended well: whoever started it sees that there is no account, and why
            with contextlib.suppress(OSError), open(f"{self._path}.failure", "w", encoding="utf-8") as stream:
                stream.write(f"{type(error).__name__}: {error}")

    def _told(self, elapsed_ns: int) -> dict[str, Any]:
        calls: dict[tuple[ForeignFunction, Shape], list[int]] = {}
        threads = list(self._threads)
        for thread in threads:
            for key, (count, own_ns, *longest) in list(thread.calls.items()):
                into = calls.setdefault(key, [0, 0, 0, 0])
                into[:2] = into[0] + count, into[1] + own_ns
                into[2:] = sorted([*into[2:], *longest])[:1:-1]
        count = sum(count for count, *_ in calls.values())
        spent_ns = sum(thread.spent_ns for thread in threads)
        unseen_ns = self.unseen_ns(*self.calibration) if count else 0.0
        self.is_open = False  # for threads that outlive the program
        if self._recorder:
            self._recorder.close()
        return {
            "schema": SCHEMA,
            "elapsed_ns": elapsed_ns,
            "watching_ns": round(spent_ns + count * unseen_ns),
            "threads": len(threads),
            "forks": self._forks,
            "failure": self.failure,
            "refused": [sentence for reasons in self.refused for sentence in reasons()],
            "calls": [
                {
                    "library": function.library,
                    "name": function.name,
                    "door": function.door,
                    "shape": told_of_shape(shape),
                    "calls": count,
                    "own_ns": own_ns,
                    "longest_ns": longest,
                    "kept": self._recorder.kept(function, shape) if self._recorder else [],
                }
                for (function, shape), (count, own_ns, *longest) in calls.items()
            ],
            "unrecorded": self._recorder.refused() if self._recorder else [],
            "routed": self._arms.told() if self._arms else [],
        }
