"""What must hold of every call on a hostile store, and processes in which calls are watched: within one, a call is fast;
one that hangs, dies or eats memory costs the process, and the next one goes on behind it.
"""

from __future__ import annotations

import contextlib
import io
import itertools
import os
import re
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from multiprocessing import get_context
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from tests.fuzz.trees import Link, Tree

MOST_SECONDS = 5.0  # of processor time: what else runs here is not the call's fault
MOST_WAITING_SECONDS = 60.0  # of wall time: for what sleeps on a pipe
MOST_MIB = 300
STORES_A_PROCESS = 40  # a long-lived process grows by what its heap has torn: no call's fault
CODES = frozenset({0, 1, 2, 3})  # docs/reference/command.md
PYTEST_CODES = frozenset({0, 1, 4, 5, 11})
_RAW = re.compile(
    "[\x00-\x09\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028\u2029\u202a-\u202e\u2066-\u2069\ufeff\ud800-\udfff]"
)
_OBEYED = re.compile(r"^\s*::|##\[|##vso\[", re.MULTILINE)
_OUR_ANNOTATION = re.compile(r"^::(error|warning) (file=[^:,]*,line=\d+,)?title=[^:]*::", re.MULTILINE)
_WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
_PROGRAMS = frozenset({"git", "gcc", "cc", Path(sys.executable).name})
CANARY = "a secret beside the project"


@dataclass(frozen=True)
class Call:
    """One call and what came of it. ``touched`` are paths outside the room that it opened, changed or ran."""

    argv: tuple[str, ...]
    code: int
    output: str
    seconds: float
    mib: int
    touched: tuple[str, ...] = ()


@dataclass(frozen=True)
class Violation:
    """One thing that must not be."""

    number: int
    argv: tuple[str, ...]
    what: str


def wrong_with(call: Call, codes: frozenset[int] = CODES) -> Iterator[str]:
    """Everything that must not be, in a few words each."""
    text = _OUR_ANNOTATION.sub("annotation: ", call.output)
    if "Traceback (most recent call last)" in call.output or "INTERNALERROR" in call.output:
        yield f"a traceback: {call.output[-1500:]}"
    if call.code not in codes:
        yield f"exit code {call.code}: {call.output[-300:]}"
    if found := _RAW.search(call.output):
        yield f"a raw {found[0]!r} in {call.output[max(0, found.start() - 60) : found.start() + 20]!r}"
    if found := _OBEYED.search(text):
        yield f"a command in {text[max(0, found.start() - 60) : found.start() + 60]!r}"
    if call.seconds > MOST_SECONDS:
        yield f"took {call.seconds:.1f} s"
    if call.mib > MOST_MIB:
        yield f"took {call.mib} MiB"
    yield from (f"touched {path}" for path in call.touched)


# ── a room: the project that stores are laid out in ──────────────────────────────────────────────────────────────

TEST_K = "import pytest\nfrom pytest_compileiq import Cc\n\n\n@pytest.mark.tune(Cc('k.c'), name='kernel')\ndef test_k(acf):\n    acf.build()\n"


@dataclass(frozen=True)
class Room:
    """A project with a git repository, and beside it a secret that nothing may read or change."""

    home: Path

    @property
    def project(self) -> Path:
        """Where ``acf/`` is."""
        return self.home / "project"

    def prepare(self, first: Tree) -> None:
        """Make the project, with ``first`` as what is committed."""
        (self.home / "outside").mkdir(parents=True)
        (self.home / "outside" / "canary").write_text(CANARY)
        (self.home / "tmp").mkdir()
        self.project.mkdir()
        for name, text in {
            "pytest.ini": "[pytest]\n",
            "test_k.py": TEST_K,
            "k.c": "int k;\n",
            ".gitignore": "*.html\nout/\n",
        }.items():
            (self.project / name).write_text(text)
        os.mkfifo(self.project / "pipe")
        (self.project / "loop").symlink_to("loop")
        (self.project / "out-link").symlink_to("../outside")
        first.write(self.project / "acf")
        for words in (
            ["init", "-q"],
            ["add", "-A"],
            ["-c", "user.name=f", "-c", "user.email=f", "commit", "-qm", "first"],
        ):
            subprocess.run(["git", *words], cwd=self.project, check=True, capture_output=True)

    def lay_out(self, tree: Tree) -> None:
        """Put ``tree`` in the place of the store."""
        shutil.rmtree(self.project / "acf", ignore_errors=True)
        with contextlib.suppress(OSError):
            (self.project / "acf").unlink()
        tree.write(self.project / "acf")

    def is_untouched(self) -> bool:
        """Whether what lies beside the project is as it was."""
        outside = self.home / "outside"
        return sorted(os.listdir(outside)) == ["canary"] and (outside / "canary").read_text() == CANARY  # noqa: PTH208


def calls_of(tree: Tree) -> list[list[str]]:
    """Every verb that reads a store, those that write last."""
    target = next(
        (os.fsdecode(name)[7:-5] for name in tree.files if name.startswith(b"kernel/") and name.endswith(b".toml")), "x"
    )
    links = tuple(name + b"/" for name, what in tree.files.items() if isinstance(what, Link))
    laid_out = (name for name, what in tree.files.items() if isinstance(what, bytes) and not name.startswith(links))
    files = [f"acf/{os.fsdecode(name)}" for name in itertools.islice(laid_out, 4)]
    diffs, histories = ("terminal", "markdown", "json"), ("terminal", "html", "json")
    return [
        ["list"], ["check"], ["show", "kernel"], ["show", "kernel", "--target", target], ["report", "page.html"],
        *(["textconv", file] for file in files), ["diff", "--format", diffs[len(tree.files) % 3]],
        ["history", "--format", histories[len(tree.files) % 3]], ["flags", "kernel", "--compiler", "gcc"],
        ["flags", "kernel", "--compiler", "gcc", "--target", target, "--on-stale=omit", "-o", "out/flags", "--depfile", "out/k.d"],
        ["export", "--runtime", "out", "--on-stale=omit"], ["verify-binary", "k.o"], ["verify-binary", "k.o", "--name", "kernel"], ["prune"],
        ["promote", "kernel", "--point", "1"], ["retire", "kernel", "--reason", "::error::why\n"], ["prune", "--yes"], ["list"],
    ]  # fmt: skip


# ── inside the watched process ───────────────────────────────────────────────────────────────────────────────────


@dataclass
class _Watch:
    """An audit hook, which is for ever: it notes what a call opens, changes and runs outside the room."""

    room: Room
    touched: list[str] = field(default_factory=list)
    on: bool = False

    def __call__(self, event: str, arguments: tuple[Any, ...]) -> None:
        if not self.on:
            return
        self.on = False  # what is asked here is not the call's doing
        try:
            self._note(event, arguments)
        finally:
            self.on = True

    def _note(self, event: str, arguments: tuple[Any, ...]) -> None:
        if event == "open":
            path, _, flags = arguments
            if isinstance(path, str | bytes | os.PathLike) and self._is_foreign(
                os.fsdecode(path), writing=bool(flags and flags & _WRITES)
            ):
                self.touched.append(f"open {os.fsdecode(path)!r}")
        elif event == "subprocess.Popen":
            if Path(os.fsdecode(arguments[0])).name not in _PROGRAMS:
                self.touched.append(f"run {arguments[0]!r}")
        elif event in (
            "os.remove",
            "os.rename",
            "os.mkdir",
            "os.rmdir",
            "os.truncate",
            "os.link",
            "os.symlink",
            "os.chmod",
            "os.chown",
        ):
            paths = [os.fsdecode(one) for one in arguments[:2] if isinstance(one, str | bytes | os.PathLike)]
            if event == "os.link" and re.fullmatch(r"/proc/self/fd/\d+", paths[0]):
                del paths[0]  # a file of this process that has no name yet: what counts is the one that it gets
            self.touched += [f"{event} {path!r}" for path in paths if self._is_foreign(path, writing=True)]

    def _is_foreign(self, name: str, *, writing: bool) -> bool:
        path = os.path.abspath(name)  # noqa: PTH100  # through no link
        if path in ("/dev/null", "/dev/tty"):
            return False
        mine = f"{self.room.home}{os.sep}"
        if path.startswith(mine):
            below = path.removeprefix(mine)
            return below.startswith("outside") or (
                writing
                and below != "project"
                and not below.startswith(("project/acf", "project/out", "project/page.html", "project/.partial", "tmp"))
            )
        is_lock = re.fullmatch(r"/(run/lock|tmp)/pytest-compileiq-[0-9a-f]{16}\.lock", path) is not None
        return (writing and not is_lock and "__pycache__" not in path) or path in (
            "/etc/passwd",
            "/dev/zero",
            "/dev/stdin",
        )


def _serve(answers: Connection, room: Room, numbers: Iterable[int], make: Callable[[int], Tree], cheap: bool) -> None:
    os.chdir(room.project)
    os.environ |= {
        "TMPDIR": str(room.home / "tmp"),
        "XDG_CACHE_HOME": str(room.home / "tmp"),
        "GIT_CONFIG_GLOBAL": "/dev/null",
        "ACF_LOCK_DIR": "",  # locks lie where they do for everybody
    }
    sys.dont_write_bytecode = True
    tempfile.tempdir = None  # as TMPDIR says now
    resource.setrlimit(resource.RLIMIT_AS, (6 << 30, 6 << 30))
    watch = _Watch(room)
    sys.addaudithook(watch)
    _remember_claims()
    _remember_the_parser()
    for number in numbers:
        tree = make(number)
        room.lay_out(tree)
        answers.send(("began", number, tree.digest))
        calls = calls_of(tree)
        for argv in calls if not cheap else [calls[0], calls[1], calls[4], calls[5 + number % (len(calls) - 5)]]:
            answers.send(("calls", number, tuple(argv)))
            call = _called(argv, watch)
            if call.mib > MOST_MIB:  # this process holds what other stores and verbs have left in it
                room.lay_out(tree)
                call = replace(call, mib=_mib_alone(argv))
            answers.send(("called", number, call))
        if not room.is_untouched():
            answers.send(("called", number, Call(("all of them",), 0, "", 0, 0, ("outside/",))))
    answers.send(("done", -1, None))


def _remember_claims() -> None:
    """What the room's tests claim never changes: pytest collects them once, not for every store."""
    from pytest_compileiq.cli import orphans

    collect, found = orphans.collect_claims, {}
    orphans.collect_claims = lambda project: found.get(project) or found.setdefault(project, collect(project))


def _remember_the_parser() -> None:
    """Half of a quick verb's time is argparse's making of its parser, which no store changes."""
    from pytest_compileiq import rooms
    from pytest_compileiq.cli import main as cli

    whole = cli._parser(rooms.verbs())
    cli._parser = lambda _arguments: whole


def _called(argv: list[str], watch: _Watch) -> Call:
    from pytest_compileiq.cli.main import main

    streams = [io.TextIOWrapper(io.BytesIO(), encoding="utf-8", write_through=True) for _ in range(2)]
    watch.touched = []
    _forget_peak()
    before = time.process_time()
    with contextlib.redirect_stdout(streams[0]), contextlib.redirect_stderr(streams[1]):
        watch.on = True
        try:
            code = main(argv)
        except SystemExit as end:
            code = end.code if isinstance(end.code, int) else 1
        except BaseException:
            traceback.print_exc()
            code = 1
        finally:
            watch.on = False
    seconds = time.process_time() - before
    output = "".join(stream.buffer.getvalue().decode("utf-8", "surrogateescape") for stream in streams)
    return Call(tuple(argv), code, output, seconds, _peak_mib(), tuple(watch.touched))


_ALONE = """
import re, sys
from pathlib import Path
from pytest_compileiq.cli.main import main
try:
    main(sys.argv[1:])
finally:
    print("", re.search(r"VmHWM:\\s*(\\d+)", Path("/proc/self/status").read_text())[1], sep="\\n")
"""


def _mib_alone(argv: list[str]) -> int:
    """By the process's own account: what is told of a child counts what its parent held when it forked."""
    said = subprocess.run([sys.executable, "-c", _ALONE, *argv], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    return int(said.stdout.split()[-1]) >> 10


def _forget_peak() -> None:
    with contextlib.suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5")


def _peak_mib(process: int | str = "self") -> int:
    """0 where there is no ``/proc``, or the process has ended."""
    try:
        status = Path(f"/proc/{process}/status").read_text()
    except OSError:
        return 0
    peak = re.search(r"VmHWM:\s*(\d+)", status)
    return int(peak[1]) >> 10 if peak else 0


# ── outside of it ────────────────────────────────────────────────────────────────────────────────────────────────


@dataclass
class Report:
    """What a run came to."""

    stores: set[str] = field(default_factory=set)
    calls: int = 0
    slowest: Call | None = None
    largest: Call | None = None
    codes: dict[tuple[str, int], int] = field(default_factory=dict)
    violations: list[Violation] = field(default_factory=list)

    def take(self, number: int, call: Call, codes: frozenset[int] = CODES) -> None:
        """Count one call and judge it."""
        self.calls += 1
        key = (call.argv[0], call.code)
        self.codes[key] = self.codes.get(key, 0) + 1
        self.slowest = max(filter(None, (self.slowest, call)), key=lambda one: one.seconds)
        self.largest = max(filter(None, (self.largest, call)), key=lambda one: one.mib)
        self.violations += [Violation(number, call.argv, what) for what in wrong_with(call, codes)]


def run(
    room: Room, numbers: list[int], make: Callable[[int], Tree], *, cheap: bool = False, report: Report | None = None,
    told: Callable[[Report], None] = lambda _: None,
) -> Report:  # fmt: skip
    """Every verb on every store; ``cheap``: the reading ones and one more in turn."""
    report, left = report or Report(), numbers
    while left:
        behind = _run_until_it_dies(room, left[:STORES_A_PROCESS], make, cheap, report, told)
        left = behind + left[STORES_A_PROCESS:]
    return report


def _run_until_it_dies(
    room: Room, numbers: list[int], make: Callable[[int], Tree], cheap: bool, report: Report, told: Callable[[Report], None]
) -> list[int]:  # fmt: skip
    """Returns the numbers that are left behind the one that ended the process."""
    forked = get_context("fork")
    mine, theirs = forked.Pipe(duplex=False)
    process = forked.Process(target=_serve, args=(theirs, room, numbers, make, cheap))
    process.start()
    theirs.close()
    number, argv = numbers[0], ("nothing yet",)
    while True:
        try:
            if not mine.poll(MOST_WAITING_SECONDS):
                raise TimeoutError
            event, number_now, what = mine.recv()
        except (EOFError, TimeoutError) as end:
            process.kill()
            process.join()
            how = "hung" if isinstance(end, TimeoutError) else f"ended the process ({process.exitcode})"
            report.violations.append(Violation(number, argv, how))
            return numbers[numbers.index(number) + 1 :]
        if event == "done":
            process.join()
            return []
        number = number_now
        if event == "began":
            report.stores.add(what)
            told(report)
        elif event == "calls":
            argv = what
        else:
            report.take(number, what)


def run_pytest(project: Path, arguments: list[str], temporary: Path, **environment: str) -> Call:
    """One pytest in a process of its own."""
    (project.parent / "said").unlink(missing_ok=True)
    started = {
        "PATH": os.environ["PATH"],
        "PYTHONPATH": ":".join(sys.path),
        "PYTHONDONTWRITEBYTECODE": "1",
        "TMPDIR": str(temporary),
        "HOME": str(temporary),
    }
    with (project.parent / "said").open("wb") as said:
        process = subprocess.Popen(
            [sys.executable, "-m", "pytest", *arguments], cwd=project, env=started | environment, stdin=subprocess.DEVNULL, stdout=said,
            stderr=subprocess.STDOUT, start_new_session=True,
        )  # fmt: skip
        give_up_at = time.monotonic() + 4 * MOST_WAITING_SECONDS
        mib = 0
        while (ended := os.wait4(process.pid, os.WNOHANG))[0] == 0 and time.monotonic() < give_up_at:
            mib = max(mib, _peak_mib(process.pid))  # what wait4 tells holds what this process had when it forked
            time.sleep(0.02)
        if ended[0] == 0:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            ended = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(ended[1])
    output = (project.parent / "said").read_bytes().decode("utf-8", "surrogateescape")
    usage = ended[2]
    return Call(("pytest", *arguments), process.returncode, output, usage.ru_utime + usage.ru_stime, mib)
