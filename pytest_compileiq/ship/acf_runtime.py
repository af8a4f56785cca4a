"""Tells a JIT which proven controls it may apply, or why none. Written by ``acf export --runtime``; needs no package.

    answer = acf_runtime.resolve("softmax", "sm_90a", device, compiler_build, ptx_sha256)
    options = " ".join(answer.options) if answer.path else ""
    threads = acf_runtime.params("blur").get("threads", 4)  # where there is no compiler

A controls file is named by its digest, so different controls have different paths: a JIT that keys its cache by its
options cannot take yesterday's kernel for today's. ``ACF_DISABLE=name,…`` (or ``all``) turns controls off.

Whether what was shipped is in use: ``report()``; ``ACF_EXPECT=name,…`` (or ``all``) ends the process with status 86
where one was never applied; ``ACF_COUNTS=FILE`` appends what was counted, and ``ACF_COUNTS=stderr`` says it in a line
at the exit. Both are read at the import.
"""

# Every start of a program pays for this import: pathlib is left out, and what few calls need is imported there.
from __future__ import annotations

import os
import sys
import threading
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from types import TracebackType
    from typing import Any

SCHEMA = 1
COUNTS_SCHEMA = 1
NEVER_APPLIED = 86  # the exit status
_STDERR = "stderr"
_MOST_ANSWERS = 4096  # kept in memory
_MOST_TOLD = 3  # reasons or names in one sentence
_MOST_BYTES = 64 << 20  # read of one file
# The parts of a PTX text that tell where it came from, not what it does: comments, line numbers, debug data.
_ORIGIN = r"(?m)//[^\n]*|^[ \t]*\.(?:loc|file)\b[^\n]*|^[ \t]*\.section\s+\.debug\w*\s*\{[^}]*\}"
_SPLIT_BY_JITS = frozenset(" \t\n\r\f\v,;'\"\\")


class Resolution(NamedTuple):
    """What to compile a kernel with.

    Attributes:
        path: the controls file; None means to compile without controls.
        reason: why, in a sentence.
        options: all options that apply the controls, ``--apply-controls=PATH`` among them.
        params: what the kernel or the program itself was proven with, such as ``num_warps``.
    """

    path: str | None
    reason: str
    options: tuple[str, ...] = ()
    params: Mapping[str, bool | int | float | str] = MappingProxyType({})


class Runtime:
    """The exported directory, read at the first question. Safe to use from several threads and signal handlers."""

    def __init__(self, directory: str | os.PathLike[str]) -> None:
        self._directory = os.path.abspath(directory)
        self._artifacts: list[dict[str, Any]] | None = None
        self._answers: dict[tuple[Any, ...], Resolution] = {}
        self._shipped: frozenset[str] = frozenset()
        self._counts_file = ""
        self._begin_counting()

    def _begin_counting(self) -> None:
        """Count from zero, as another process: what a fork inherits is its parent's."""
        # For the counts alone: imports, handlers and arguments' methods are foreign code, which may wait for whoever
        # waits for this. Reentrant, since a signal's handler runs anywhere.
        self._lock = threading.RLock()
        self._process = f"{os.getpid()}-{os.urandom(6).hex()}"
        self._counts: dict[str, dict[str, int]] = {}  # name → why refused, "" for applied → how often

    def resolve(
        self,
        name: str,
        arch: str,
        device: str | None = None,
        compiler_build: str | None = None,
        ptx_sha256: str | None = None,
    ) -> Resolution:
        """The controls of ``name`` for the kernel about to be compiled; never raises. None is not compared.

        Args:
            name: the artifact's name.
            arch: the architecture, e.g. ``sm_90a``.
            device: the model as the driver names it, e.g. ``NVIDIA H200``; a claim of time or energy holds for one.
            compiler_build: the build of the assembler that will read the file; see ``ptxas_build``.
            ptx_sha256: the digest of the PTX that will be assembled; see ``ptx_sha256``.
        """
        try:
            question = (name, arch, device, compiler_build, ptx_sha256, os.environ.get("ACF_DISABLE", ""))
            answer = self._answers.get(question) or self._remember(question)
        except Exception as error:  # an argument of the wrong type, such as a list for a name
            answer = Resolution(None, f"{name}: {type(error).__name__}: {error}")
        if self._count(str(name), "" if answer.path else answer.reason):
            self._write_counts()  # at once too, since a process may end without running its exit handlers
        return answer

    def params(self, name: str, device: str | None = None) -> Mapping[str, bool | int | float | str]:
        """All parameters that ``name`` was proven with, its defaults among them; empty where they may not be applied.

        That is where the machine is of another architecture, or a package that the test names of another version.
        """
        import platform

        return self.resolve(name, platform.machine().replace("_", "-"), device).params

    def report(self) -> dict[str, Any]:
        """What this process looked for, applied and never asked for, in JSON's types.

        ``artifacts`` holds for each name whether controls of it are ``shipped``, how often it was ``looked_for`` and
        ``applied`` (its controls were handed out), and ``refused``: reason → how often. A name that is not shipped is
        there if it was asked for. ``problem`` says why the export cannot be read, or is None.
        """
        problem = None
        try:
            self._manifest()
        except Exception as error:
            problem = f"{self._manifest_path()} cannot be read: {type(error).__name__}: {error}"
        with self._lock:
            counted = {name: dict(self._counts.get(name, ())) for name in sorted({*self._shipped, *self._counts})}
        artifacts: dict[str, dict[str, Any]] = {}
        for name, own in counted.items():
            artifacts[name] = {"shipped": name in self._shipped, "looked_for": sum(own.values())}
            artifacts[name] |= {"applied": own.pop("", 0), "refused": own}
        head = {"schema": COUNTS_SCHEMA, "process": self._process, "export": self._directory}
        return {**head, "problem": problem, "artifacts": artifacts}

    def _count(self, name: str, what: str) -> bool:
        """Count one answer: a reason, or "" for applied; whether it is news of an artifact that is shipped."""
        with self._lock:
            counts = self._counts.setdefault(name, {})
            counts[what] = counts.get(what, 0) + 1
            return counts[what] == 1 and name in self._shipped

    def _remember(self, question: tuple[Any, ...]) -> Resolution:
        try:
            found = self._answer(*question)
        except Exception as error:  # whatever is wrong with the export, the kernel still has to be compiled
            found = Resolution(None, f"{question[0]}: {type(error).__name__}: {error}")
        if len(self._answers) >= _MOST_ANSWERS:
            self._answers.clear()
        answer = self._answers.setdefault(question, found)
        if answer is found:  # else another thread has told it
            import logging

            logging.getLogger(__name__).log(logging.INFO if answer.path else logging.WARNING, "acf: %s", answer.reason)
        return answer

    def _answer(
        self, name: str, arch: str, device: str | None, build: str | None, ptx: str | None, disabled: str
    ) -> Resolution:
        if {"all", name} & {word.strip() for word in disabled.split(",")}:
            return Resolution(None, f"{name}: turned off by ACF_DISABLE={disabled}")
        fitting = [entry for entry in self._manifest() if entry["name"] == name]
        if not fitting:
            return Resolution(None, f"{name}: not in {self._manifest_path()}")
        answers = [self._judge(entry, arch, device, build, ptx) for entry in fitting]
        return next((answer for answer in answers if answer.path), answers[0])

    def _judge(
        self, entry: Mapping[str, Any], arch: str, device: str | None, build: str | None, ptx: str | None
    ) -> Resolution:
        name = entry["name"]
        if arch not in (proven := entry["architectures"]):
            return Resolution(None, f"{name}: proven for {', '.join(proven)}, not for {arch}{_respelled(proven, arch)}")
        if entry["sha256"] is None:
            return Resolution(None, str(entry["reason"]))
        if device is not None and (proven := entry["devices"]) and device not in proven:
            not_here = f"{device}{_respelled(proven, device)}"
            return Resolution(None, f"{name}: proven on {', '.join(proven)}, not on {not_here}")
        for package in entry.get("packages", ()):
            if package != (here := _installed(package.partition(" ")[0])):
                return Resolution(None, f"{name}: proven with {package}, not with {here}")
        if build is not None and build != entry["compiler_build"]:
            return Resolution(None, f"{name}: proven with {entry['compiler_build']}, not with {build}")
        if ptx is not None and ptx not in entry["ptx_sha256"]:
            known = entry["ptx_sha256"]
            why = "this PTX is not the one proven" if known else "no PTX was exported to compare this with"
            return Resolution(None, f"{name}: {why}")
        return self._verified(entry)

    def _verified(self, entry: Mapping[str, Any]) -> Resolution:
        import hashlib

        path = os.path.join(self._directory, "acfs", f"{entry['sha256']}.acf")
        if "{path}" in "".join(entry["options"]) and _SPLIT_BY_JITS & set(path):
            return Resolution(None, f"{entry['name']}: {path} has a character that a JIT would split its options at")
        with open(path, "rb", opener=_opened) as stream:
            digest = hashlib.sha256(stream.read(_MOST_BYTES)).hexdigest()
        if digest != entry["sha256"]:
            return Resolution(None, f"{entry['name']}: {path} was changed, its digest is {digest[:8]}…")
        options = tuple(word.replace("{path}", path) for word in entry["options"])
        reason = f"{entry['name']}: {entry['target']}, as proven"
        return Resolution(path, reason, options, MappingProxyType(dict(entry["params"])))

    def _manifest(self) -> list[dict[str, Any]]:
        if self._artifacts is None:
            import json

            with open(self._manifest_path(), "rb", opener=_opened) as stream:
                content = json.loads(stream.read(_MOST_BYTES))
            if content["schema"] != SCHEMA:
                raise ValueError(f"manifest.json has schema {content['schema']}, this module reads {SCHEMA}")
            artifacts = list(content["artifacts"])
            self._shipped = frozenset(str(entry["name"]) for entry in artifacts if entry["sha256"] is not None)
            self._artifacts = artifacts
        return self._artifacts

    def _manifest_path(self) -> str:
        return os.path.join(self._directory, "manifest.json")

    # ── at exit ──────────────────────────────────────────────────────────────────────────────────────────────────

    def watch(self, expected: str, counts_file: str) -> None:
        """Hold this process to ``expected`` when it ends, and append its counts to ``counts_file``; "" does neither.

        It stands in ``sys._acf_runtimes`` then, where pytest's plugin finds it by whatever name it was imported.
        """
        import atexit

        self._expected = expected
        self._counts_file = counts_file if counts_file in ("", _STDERR) else os.path.abspath(counts_file)
        self._uncaught: BaseException | None = None
        vars(sys).setdefault("_acf_runtimes", []).append(self)
        atexit.register(self._at_exit)
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=self._begin_counting)
        if expected:
            self._note_uncaught()

    def leave_judging(self) -> None:
        """Leave it to the caller to judge this process."""
        self._expected = ""

    def _note_uncaught(self) -> None:
        """Learn of the exception that ends the process, whose own exit status stands."""
        shown_by = sys.excepthook

        def hook(kind: type[BaseException], error: BaseException, traceback: TracebackType | None) -> None:
            self._uncaught = error
            shown_by(kind, error, traceback)

        sys.excepthook = hook

    def _at_exit(self) -> None:
        self._write_counts()
        if self._counts_file == _STDERR:
            _complain(_told(self.report()))
        missing = unmet(self.report(), self._expected) if self._expected else []
        if missing:
            # Others call sys.excepthook too; only the interpreter sets last_value to what it is about to end with.
            if self._uncaught is None or self._uncaught is not getattr(sys, "last_value", None):
                vars(sys)["_acf_exit"] = _ExitStatus(NEVER_APPLIED)
            _complain(f"ACF_EXPECT={self._expected}: {'; '.join(missing)}")

    def _write_counts(self) -> None:
        if self._counts_file in ("", _STDERR):
            return
        import json

        line = json.dumps(self.report()).encode() + b"\n"
        try:
            # One write at the end of the file: lines of several processes do not mix.
            descriptor = _opened(self._counts_file, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
            try:
                if os.write(descriptor, line) < len(line):
                    raise OSError(0, "it is full")
            finally:
                os.close(descriptor)
        except OSError as error:
            _complain(f"ACF_COUNTS={self._counts_file} cannot be written: {error.strerror}; name a plain file")
            self._counts_file = ""


def _opened(path: str, flags: int) -> int:
    """An opener of regular files alone, which does not wait for a pipe's other end."""
    descriptor = os.open(path, flags | getattr(os, "O_NONBLOCK", 0), 0o644)
    if os.path.isfile(descriptor):
        return descriptor
    os.close(descriptor)
    raise OSError(0, "it is no regular file")


class _ExitStatus:
    """Gives the process its exit status when the interpreter takes ``sys`` down.

    Nothing else can: an exit handler's exceptions are printed, and ``os._exit`` in one would lose the handlers after
    it and what open files still hold. ``sys`` goes after the handlers and after all modules.
    """

    def __init__(self, status: int) -> None:
        self._status = status
        self._exit = os._exit

    def __del__(self) -> None:
        self._exit(self._status)


def unmet(report: Mapping[str, Any], expected: str) -> list[str]:
    """Why what is ``expected`` (names, or ``all`` that is shipped) was not all applied, an artifact a clause."""
    if report["problem"]:
        return [str(report["problem"])]
    artifacts = report["artifacts"]
    shipped = [name for name, counts in artifacts.items() if counts["shipped"]]
    names = [word for word in map(str.strip, expected.split(",")) if word]
    wanted = dict.fromkeys(name for word in names for name in (shipped if word == "all" else [word]))
    if not wanted:
        return ["no controls are shipped that could have been applied" if names else "it names no artifact"]
    return [
        f"{name} was never applied: {_why_not(name, artifacts)}"
        for name in wanted
        if not artifacts.get(name, {}).get("applied")
    ]


def _told(report: Mapping[str, Any]) -> str:
    """``applied 12, refused 1 (stale), never asked 3``: answers, and artifacts that nobody asked for."""
    counts = report["artifacts"].values()
    refused = [(reason, often) for own in counts for reason, often in own["refused"].items()]
    why = f" ({_first(reason for reason, _ in refused)})" if refused else ""
    applied, never = sum(own["applied"] for own in counts), sum(not own["looked_for"] for own in counts)
    return f"applied {applied}, refused {sum(often for _, often in refused)}{why}, never asked {never}"


def _why_not(name: str, artifacts: Mapping[str, Any]) -> str:
    if refused := artifacts.get(name, {}).get("refused"):
        often = sorted(refused, key=refused.__getitem__, reverse=True)
        return _first(f"refused {refused[reason]}x ({reason})" for reason in often)
    shipped = [other for other, counts in artifacts.items() if counts["shipped"]]
    if name not in shipped:
        return f"it is not shipped; shipped: {_first(shipped) or 'nothing'}"
    in_vain = [other for other, counts in artifacts.items() if not counts["shipped"]]
    return "nobody asked for it" + (f", but for {_first(in_vain)}, not shipped" if in_vain else "")


def _first(texts: Iterable[str]) -> str:
    told = list(texts)
    more = len(told) - _MOST_TOLD
    return ", ".join(told[:_MOST_TOLD]) + (f" and {more} more" if more > 0 else "")


def _complain(sentence: str) -> None:
    """One line on standard error, which neither a terminal nor a CI runner takes for a command."""
    shown = "".join(char if char.isprintable() else repr(char)[1:-1] for char in sentence).replace("##", "#\\x23")
    print(f"acf: {shown}", file=sys.stderr)


def _respelled(proven: Sequence[str], asked: str) -> str:
    """What to add to a refusal where ``asked`` may be a name that was proven, spelled in another way."""
    words = _words(asked)
    for name in proven:
        if "".join(_words(name)) == "".join(words):
            return f": the same name in another spelling; ask with {name!r}"
    for name in proven:
        if set(words) <= set(_words(name)) or set(_words(name)) <= set(words):
            return f": where that is the same, it is spelled in another way; ask with {name!r}"
    return ""


def _words(name: str) -> list[str]:
    return "".join(char if char.isalnum() else " " for char in name.casefold()).split()


def _installed(name: str) -> str:
    """A package and its version; ``python`` is Python's own line."""
    if name == "python":
        return f"python {sys.version_info.major}.{sys.version_info.minor}"
    import importlib.metadata

    try:
        return f"{name} {importlib.metadata.version(name)}"
    except importlib.metadata.PackageNotFoundError:
        return f"no {name}"


_here = Runtime(os.path.dirname(__file__))
resolve = _here.resolve
params = _here.params
report = _here.report
if __package__ != "pytest_compileiq.ship":  # the copy there exports nothing
    _here.watch(os.environ.get("ACF_EXPECT", ""), os.environ.get("ACF_COUNTS", ""))


def ptx_sha256(ptx: str) -> str:
    """The digest of what ``ptx`` does, without the comments, line numbers and debug data that name directories."""
    import hashlib
    import re

    lines = (line.strip() for line in re.sub(_ORIGIN, "", ptx).splitlines())
    return hashlib.sha256("\n".join(line for line in lines if line).encode()).hexdigest()


def ptxas_build(program: str) -> str | None:
    """The build that ``program --version`` reports, e.g. ``cuda_13.3.r13.3/compiler.38244171_0``; None without one."""
    import re
    import subprocess

    try:
        output = subprocess.run([program, "--version"], capture_output=True, text=True, timeout=30, check=True).stdout
    except (OSError, subprocess.SubprocessError):
        return None
    build = re.search(r"^Build (\S+)", output, re.MULTILINE)
    return build[1] if build else None
