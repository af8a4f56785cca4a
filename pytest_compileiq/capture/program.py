"""A Python program run in the foreground by its own interpreter, with what it calls watched."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

import msgspec
from msgspec import Meta, Struct

from pytest_compileiq.capture.bundle import LARGEST_CONTENT, Call, Count
from pytest_compileiq.capture.inside import launch
from pytest_compileiq.capture.inside.counters import SCHEMA
from pytest_compileiq.errors import CompileIQError, UserError
from pytest_compileiq.system.files import Unfit, read_regular
from pytest_compileiq.system.process import run_in_foreground

QUOTA_BYTES = {"integers": LARGEST_CONTENT, "floats": LARGEST_CONTENT}  # of the memory that the recorded calls hold
_LARGEST_FAILURE = 64 << 10
_LARGEST_TALLY = 256 << 20
_PYTHON = re.compile(r"python(\d+(\.\d+)*t?)?")
_INSTEAD = (
    "for a kernel of another program, write a benchmark of it: acf init makes a first one, and "
    "Cc(…, like='compile_commands.json') takes its command from that program's build"
)
_VALUED = re.compile(r"-(?!-)([^WXcm]*)([WXcm])(.*)", re.DOTALL)  # flags, then an option that takes a value: -Bc…


@dataclass(frozen=True)
class Program:
    """A call of Python."""

    interpreter: str
    options: tuple[str, ...]  # the interpreter's own, as they were typed
    kind: Literal["script", "module", "code"]
    target: str  # the script's path, the module's name, or the code, by ``kind``
    arguments: tuple[str, ...]  # what the program gets


class Calls(Struct, frozen=True):
    """The calls of one function with arguments of one shape, some of them ``kept`` whole."""

    library: str
    name: str
    door: str
    shape: tuple[int | str, ...]
    calls: Annotated[int, Meta(ge=1, le=1 << 62)]
    own_ns: Count  # without watched calls further in
    kept: tuple[Call, ...] = ()
    longest_ns: tuple[Count, Count] = (0, 0)  # of the two longest calls

    @property
    def usual_ns(self) -> int:
        """``own_ns`` with the longest call as long as the second longest: one preempted call does not tell."""
        longest, second = self.longest_ns
        return max(self.own_ns - (longest - second) * (self.calls > 1), 0)


class Unrecorded(Struct, frozen=True):
    """Calls of a function that could not be recorded, and why, in a part of a sentence."""

    library: str
    name: str
    why: str
    calls: Count


class RoutedCalls(Struct, frozen=True):
    """The calls with arguments of one captured shape, made by two arms: the baseline, then the tuned one."""

    calls: tuple[Count, Count]  # how many each arm made
    pairs: tuple[tuple[Count, Count], ...]  # nanoseconds of neighbouring calls, in the order of time; of many only some


class Apart(Struct, frozen=True):
    """A place in which the arms differed, relative to the largest value there; None of what is no float."""

    place: str
    calls: Count  # on how many of the calls that both made
    tuned: Annotated[float, Meta(ge=0)] | None  # how far the tuned arm was from the baseline at most
    own: Annotated[float, Meta(ge=0)] | None  # and the baseline from itself


class Routed(Struct, frozen=True):
    """What became of a function whose calls were to be made by two arms."""

    library: str
    function: str
    failure: str | None  # why no call was routed, or None
    series: tuple[RoutedCalls, ...]  # by captured shape, as asked for; the last one is of all other shapes
    compared: Count  # how many calls both arms made, on the same memory
    not_compared: tuple[str, ...]  # why others could not be, each a part of a sentence
    apart: tuple[Apart, ...]  # where these differ
    raised: Count
    lost: Count  # calls that another thread's call had made by another arm


class CallAccount(Struct, frozen=True):
    """What a program called."""

    schema: int
    elapsed_ns: Annotated[int, Meta(ge=1, le=1 << 62)]  # from its first line to the end of its interpreter
    watching_ns: Count  # how much of that the watching took
    threads: Count  # how many threads made watched calls
    forks: Count  # how many processes it forked, which were not watched
    failure: str | None  # why the watching itself failed, or None
    refused: tuple[str, ...]  # sentences on what could not be watched
    calls: tuple[Calls, ...]
    unrecorded: tuple[Unrecorded, ...] = ()  # what was watched, and could not be recorded
    routed: tuple[Routed, ...] = ()  # as asked for


class NotWatched(CompileIQError):
    """The program left no account of its calls, or none that can be read; the message says how it ended."""

    def __init__(self, message: str, status: int | None = None) -> None:
        super().__init__(message)
        self.status = status  # how it ended where it left none, negative for a signal


def python_program(command: Sequence[str]) -> Program:
    """Parse ``python [OPTIONS] SCRIPT | -m MODULE | -c CODE [ARGUMENTS]``."""
    if not command:
        raise UserError("expected a program behind the options: … -- python PROGRAM …")
    if not _PYTHON.fullmatch(Path(command[0]).name):
        raise UserError(
            f"{command[0]!r} is not called python, and the calls of Python programs alone are watched: put python "
            f"before a script, and python -m before the module of an installed command; {_INSTEAD}"
        )
    interpreter = shutil.which(command[0])
    if interpreter is None:
        raise UserError(f"there is no interpreter {command[0]!r}: name one by its path")
    words, at = command[1:], 0
    kind: Literal["script", "module", "code"] = "script"
    while at < len(words) and words[at].startswith("-") and words[at] != "-":
        found = _VALUED.fullmatch(words[at])
        flags, letter, value = found.groups() if found else ("", "", "")
        if letter in ("c", "m"):
            kind = "code" if letter == "c" else "module"
            options = [*words[:at], *([f"-{flags}"] if flags else [])]
            rest = [*([value] if value else []), *words[at + 1 :]]
            break
        takes_next = (letter and not value) or words[at] == "--check-hash-based-pycs"
        at += 2 if takes_next else 1
    else:
        options, rest = [*words[:at]], [*words[at:]]
    if not rest or rest[0] == "-":
        raise UserError(
            "expected a script, -m MODULE or -c CODE behind python: a program from standard input is not run"
        )
    return Program(interpreter, tuple(options), kind, rest[0], tuple(rest[1:]))


def watch(
    program: Program,
    folder: Path,
    sampled: int | None = None,
    extents: Sequence[str] = (),
    *,
    arms: Mapping[str, object] | None = None,
    output: Path | None = None,
) -> tuple[int, CallAccount]:
    """Run a program with this process's own input, its account in ``folder``; its exit status, and what it called.

    Args:
        sampled: calls of each function and shape recorded beside the first; None for no recording at all.
        extents: how large memory is that no object tells, as ``inside.values.parsed`` takes it.
        arms: the arguments of ``inside.both_arms.Arms``, for calls that other builds make.
        output: a file for the program's standard output; None for this process's own.
    """
    tally = folder / "tally.json"
    contents(folder).mkdir()
    record = None
    if sampled is not None:
        record = {"folder": str(contents(folder)), "sampled": sampled, "quota_bytes": QUOTA_BYTES}
        record["extents"] = list(extents)
    launches = {"account": str(launches_file(folder)), "contents": str(contents(folder))}
    settings = json.dumps({"tally": str(tally), "record": record, "arms": arms, "launches": launches})
    started = (program.interpreter, *program.options, launch.__file__, settings)
    status = run_in_foreground([*started, program.kind, program.target, *program.arguments], output)
    try:
        return status, _read(read_regular(tally, _LARGEST_TALLY))
    except Unfit as unfit:
        why = str(unfit)
        with suppress(Unfit):  # where the program could say why
            failure = read_regular(tally.with_name(f"{tally.name}.failure"), _LARGEST_FAILURE)
            why = failure.decode(errors="replace") or why
        how = f"by signal {-status}" if status < 0 else f"with status {status}"
        raise NotWatched(
            f"{program.target} ended {how} and left no account of its calls ({why}): they are written when the "
            "interpreter ends by itself, and not by os._exit, os.exec… or a signal",
            status,
        ) from unfit


def contents(folder: Path) -> Path:
    """The directory of what the recorded calls' memory held, and of kernels' PTX, in files named by their SHA-256."""
    return folder / "contents"


def launches_file(folder: Path) -> Path:
    """The account of the kernels that Triton's JIT launched; it is not there where the program does without Triton."""
    return folder / "launches.json"


def _read(tally: bytes) -> CallAccount:
    try:
        watched = msgspec.json.decode(tally, type=CallAccount)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise NotWatched(f"the account of the program's calls cannot be read: {error}") from error
    if watched.schema != SCHEMA:
        raise NotWatched(f"the account of the program's calls has schema {watched.schema}, and {SCHEMA} is read")
    return watched
