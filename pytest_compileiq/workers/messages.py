"""The messages between a parent and its worker, as values whose types are checked on arrival.

An answer comes from a process that has run a candidate's machine code, so nothing in it is trusted before its type is
checked, and nothing is ever unpickled from it. No path here is absolute: the transport of the messages knows where the
project is, which may be on another machine.
"""

from __future__ import annotations

import mmap
import struct
import time
from collections.abc import Callable, Mapping
from multiprocessing.connection import Connection
from types import UnionType
from typing import ClassVar, Generic, Literal, TypeVar

import msgspec
from msgspec import Struct

from pytest_compileiq.benchmark.block import BlockAnswer
from pytest_compileiq.benchmark.body import Touched
from pytest_compileiq.benchmark.builds import MadeElsewhere
from pytest_compileiq.model import Arm, ControlsFile, FailureKind
from pytest_compileiq.rules.calls import CallTimes, FirstCalls
from pytest_compileiq.rules.stress import Draw
from pytest_compileiq.timing.sampler import BlockPlan

_Given = TypeVar("_Given", covariant=True)


class Start(Struct, frozen=True, tag=True):
    """What a worker begins with: the parent's configuration."""

    directory: str  # the working directory, relative to the root
    tests: tuple[str, ...]  # node ids to collect, relative to the root
    options: dict[str, object]  # of pytest's command line
    markers: tuple[str, ...]  # the declarations of markers, as in an ini file
    import_path: tuple[str | None, ...]  # relative to the root; None stands for what each interpreter has by itself
    environment: dict[str, str]  # of the process; empty once it runs


class Enter(Struct, frozen=True, tag=True):
    """Set up the fixtures of a test; ``builder`` is its pickled compiler, or None where the worker has to find it."""

    nodeid: str
    builder: bytes | None


class Leave(Struct, frozen=True, tag=True):
    """Tear the fixtures of the entered test down."""


class Quit(Struct, frozen=True, tag=True):
    """End."""


class Task(Struct, Generic[_Given], frozen=True):
    """Something to do in the entered test, and the type of its answer."""

    workload: str
    controls: ControlsFile | None
    answer: ClassVar[type[Struct] | UnionType]

    @property
    def arms(self) -> Mapping[Arm, ControlsFile | None]:
        """The controls of both arms."""
        return {"baseline": None, "tuned": self.controls}


class CheckTask(Task[Touched], frozen=True, tag=True):
    """Run the body once for correctness."""

    answer = Touched


class BlockTask(Task[BlockAnswer], frozen=True, tag=True):
    """Sample both arms, nested; ``parent_holds_context`` says whether the parent computes on a GPU itself."""

    baseline: ControlsFile | None
    plan: BlockPlan
    parent_holds_context: bool = False
    answer = BlockAnswer

    @property
    def arms(self) -> Mapping[Arm, ControlsFile | None]:
        return {"baseline": self.baseline, "tuned": self.controls}


class LookTask(Task[CallTimes | None], frozen=True, tag=True):
    """Look at the call that the body measures; None where it measures none."""

    answer = CallTimes | None


class DrawTask(Task[Draw], frozen=True, tag=True):
    """Run the body with ``seed`` for ``acf.rng``, with these controls and twice as the baseline."""

    seed: int
    bits_promised: bool = False
    answer = Draw


class FirstCallsTask(Task[FirstCalls | None], frozen=True, tag=True):
    """Time each arm's first call on a draw, or of a copy of its build, and later ones; None where that decides nothing.

    ``seed`` decides which arm is first, and the draw.
    """

    seed: int
    of_copies: bool
    answer = FirstCalls | None


class Identify(Struct, frozen=True, tag=True):
    """Say what builds of a test depend on there; no test is entered, and none of its fixtures is set up."""

    nodeid: str
    host_flags: dict[str, tuple[str, ...]] | None  # as on the machine of the device; None: as there


class Make(Struct, frozen=True, tag=True):
    """Build a test's kernel; as of ``Identify``, no test is entered."""

    nodeid: str
    host_flags: dict[str, tuple[str, ...]] | None
    controls: ControlsFile | None


class Ready(Struct, frozen=True, tag=True):
    """The tests are collected."""


class Entered(Struct, frozen=True, tag=True):
    """The fixtures are up."""

    target: str = ""  # what the test's toolchain makes of its marker there
    command: tuple[str, ...] = ()
    native: str | None = None  # why that machine cannot run what is built so; None if it can
    processor: str = ""  # the model that it measures on
    compiler: str = ""  # by which the time of a compilation would be taken


class Left(Struct, frozen=True, tag=True):
    """The test is over; ``reason`` says what failed in it, if anything did."""

    reason: str | None


class Failed(Struct, frozen=True, tag=True):
    """The worker could not collect or set up."""

    reason: str | None


class FailureAnswer(Struct, frozen=True, tag=True):
    """A task failed: whose fault (None: nobody's), and whether the process is spoilt for the next one."""

    arm: Arm | None
    kind: FailureKind
    reason: str
    poisoned: bool


class IdentityAnswer(Struct, frozen=True, tag=True):
    """What builds depend on (``benchmark.cached_builds``), and what flags that name the host mean."""

    identity: dict[str, str]
    host_flags: dict[str, tuple[str, ...]]


class BuildAnswer(Struct, frozen=True, tag=True):
    """A build."""

    build: MadeElsewhere


class BuildRefused(Struct, frozen=True, tag=True):
    """The compiler refused to build, or was killed: as in ``BuildError``."""

    reason: str
    kind: Literal["compile", "timeout"]
    log: str


Query = Identify | Make
Order = Start | Enter | Leave | Quit | Query | Task[object]
TaskAnswer = Touched | BlockAnswer | CallTimes | Draw | FirstCalls | None | FailureAnswer
QueryAnswer = IdentityAnswer | BuildAnswer | BuildRefused
Answer = Ready | Entered | Left | Failed | QueryAnswer | TaskAnswer
_Ordered = Start | Enter | Leave | Quit | Query | CheckTask | BlockTask | LookTask | DrawTask | FirstCallsTask

encode = msgspec.msgpack.Encoder().encode
decode_order = msgspec.msgpack.Decoder(_Ordered).decode
decode_answer = msgspec.msgpack.Decoder(Answer).decode


def can_be_sent(value: object) -> bool:
    """Whether ``value`` arrives as it is."""
    try:
        return bool(msgspec.msgpack.decode(encode(value)) == value)
    except (TypeError, ValueError, OverflowError, msgspec.DecodeError):
        return False


_MOST_BYTES = 1 << 28
Received = TypeVar("Received")


class Channel(Generic[Received]):
    """One end; a watcher reads the time of the last progress in shared memory, which costs a sample nothing."""

    def __init__(self, decode: Callable[[bytes], Received], read_fd: int, write_fd: int, progress_fd: int) -> None:
        self._read = Connection(read_fd, writable=False)
        self._write = Connection(write_fd, readable=False)
        self._progress = mmap.mmap(progress_fd, 8)
        self._decode = decode

    def send(self, message: Order | Answer) -> None:
        """Send one message, which is progress."""
        self.tick()
        self._write.send_bytes(encode(message))

    def poll(self, timeout_s: float) -> bool:
        """Whether a message (or the end of the pipe) is there within ``timeout_s``."""
        return self._read.poll(timeout_s)

    def receive(self) -> Received:
        """The next message; ValueError where what came is none, EOFError or OSError where the other end is gone."""
        return self._decode(self._read.recv_bytes(maxlength=_MOST_BYTES))

    def tick(self) -> None:
        """Note that something happened now."""
        self._progress[:8] = struct.pack("d", time.monotonic())

    def idle_s(self) -> float:
        """Seconds since the last tick of either end."""
        last: float = struct.unpack("d", self._progress[:8])[0]
        return time.monotonic() - last

    def close(self) -> None:
        """Close both pipes."""
        self._read.close()
        self._write.close()
