"""Tells a JIT which proven controls it may apply, or why none. Written by ``acf export --runtime``; needs no package.

    answer = acf_runtime.resolve("softmax", "sm_90a", device, compiler_build, ptx_sha256)
    options = " ".join(answer.options) if answer.path else ""
    threads = acf_runtime.params("blur").get("threads", 4)  # where there is no compiler

A controls file is named by its digest, so different controls have different paths: a JIT that keys its cache by its
options cannot take yesterday's kernel for today's. ``ACF_DISABLE=name,…`` (or ``all``) turns controls off.
"""

from __future__ import annotations

import hashlib
import importlib.metadata
import json
import logging
import os
import platform
import re
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

SCHEMA = 1
_MOST_ANSWERS = 4096  # kept in memory
_SPLIT_BY_JITS = re.compile(r"""[\s,;'"\\]""")
# The parts of a PTX text that tell where it came from, not what it does: comments, line numbers, debug data.
_ORIGIN = re.compile(r"//[^\n]*|^[ \t]*\.(?:loc|file)\b[^\n]*|^[ \t]*\.section\s+\.debug\w*\s*\{[^}]*\}", re.MULTILINE)

log = logging.getLogger(__name__)


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
    """The exported directory, read at the first question. Safe to use from several threads."""

    def __init__(self, directory: str | os.PathLike[str]) -> None:
        self._directory = Path(directory)
        self._lock = threading.Lock()
        self._artifacts: list[dict[str, Any]] | None = None
        self._answers: dict[tuple[Any, ...], Resolution] = {}
        self._counts: Counter[tuple[str, str]] = Counter()

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
            with self._lock:
                answer = self._answers.get(question)
                if answer is None:
                    answer = self._remember(question)
                self._counts[answer.reason, "applied" if answer.path else "not applied"] += 1
            return answer
        except Exception as error:  # an argument of the wrong type, such as a list for a name
            return _failed(name, error)

    def params(self, name: str, device: str | None = None) -> Mapping[str, bool | int | float | str]:
        """All parameters that ``name`` was proven with, its defaults among them; empty where they may not be applied.

        That is where the machine is of another architecture, or a package that the test names of another version.
        """
        return self.resolve(name, platform.machine().replace("_", "-"), device).params

    def counts(self) -> dict[tuple[str, str], int]:
        """How often each (reason, ``applied`` or ``not applied``) was the answer."""
        with self._lock:
            return dict(self._counts)

    def _remember(self, question: tuple[Any, ...]) -> Resolution:
        try:
            answer = self._answer(*question)
        except Exception as error:  # whatever is wrong with the export, the kernel still has to be compiled
            answer = _failed(question[0], error)
        if len(self._answers) >= _MOST_ANSWERS:
            self._answers.clear()
        self._answers[question] = answer
        log.log(logging.INFO if answer.path else logging.WARNING, "acf: %s", answer.reason)
        return answer

    def _answer(
        self, name: str, arch: str, device: str | None, build: str | None, ptx: str | None, disabled: str
    ) -> Resolution:
        if {"all", name} & {word.strip() for word in disabled.split(",")}:
            return Resolution(None, f"{name}: turned off by ACF_DISABLE={disabled}")
        fitting = [entry for entry in self._manifest() if entry["name"] == name]
        if not fitting:
            return Resolution(None, f"{name}: not in {self._directory / 'manifest.json'}")
        answers = [self._judge(entry, arch, device, build, ptx) for entry in fitting]
        return next((answer for answer in answers if answer.path), answers[0])

    def _judge(
        self, entry: Mapping[str, Any], arch: str, device: str | None, build: str | None, ptx: str | None
    ) -> Resolution:
        name = entry["name"]
        if arch not in entry["architectures"]:
            return Resolution(None, f"{name}: proven for {', '.join(entry['architectures'])}, not for {arch}")
        if entry["sha256"] is None:
            return Resolution(None, str(entry["reason"]))
        if device is not None and entry["devices"] and device not in entry["devices"]:
            return Resolution(None, f"{name}: proven on {', '.join(entry['devices'])}, not on {device}")
        for package in entry.get("packages", ()):
            if package != (here := _installed(package.partition(" ")[0])):
                return Resolution(None, f"{name}: proven with {package}, not with {here}")
        if build is not None and build != entry["compiler_build"]:
            return Resolution(None, f"{name}: proven with {entry['compiler_build']}, not with {build}")
        if ptx is not None and ptx not in entry["ptx_sha256"]:
            why = (
                "this PTX is not the one proven" if entry["ptx_sha256"] else "no PTX was exported to compare this with"
            )
            return Resolution(None, f"{name}: {why}")
        return self._verified(entry)

    def _verified(self, entry: Mapping[str, Any]) -> Resolution:
        path = self._directory.absolute() / "acfs" / f"{entry['sha256']}.acf"
        if entry["options"] and _SPLIT_BY_JITS.search(str(path)):
            return Resolution(None, f"{entry['name']}: {path} has a character that a JIT would split its options at")
        digest = hashlib.sha256(path.read_bytes()).hexdigest()
        if digest != entry["sha256"]:
            return Resolution(None, f"{entry['name']}: {path} was changed, its digest is {digest[:8]}…")
        options = tuple(word.replace("{path}", str(path)) for word in entry["options"])
        reason = f"{entry['name']}: {entry['target']}, as proven"
        return Resolution(str(path), reason, options, MappingProxyType(dict(entry["params"])))

    def _manifest(self) -> list[dict[str, Any]]:
        if self._artifacts is None:
            content = json.loads((self._directory / "manifest.json").read_text(encoding="utf-8"))
            if content["schema"] != SCHEMA:
                raise ValueError(f"manifest.json has schema {content['schema']}, this module reads {SCHEMA}")
            self._artifacts = list(content["artifacts"])
        return self._artifacts


def _installed(name: str) -> str:
    """A package and its version; ``python`` is Python's own line."""
    if name == "python":
        return f"python {sys.version_info.major}.{sys.version_info.minor}"
    try:
        return f"{name} {importlib.metadata.version(name)}"
    except importlib.metadata.PackageNotFoundError:
        return f"no {name}"


def _failed(name: object, error: Exception) -> Resolution:
    return Resolution(None, f"{name}: {type(error).__name__}: {error}")


_here = Runtime(Path(__file__).parent)
resolve = _here.resolve
params = _here.params
counts = _here.counts


def ptx_sha256(ptx: str) -> str:
    """The digest of what ``ptx`` does, without the comments, line numbers and debug data that name directories."""
    lines = (line.strip() for line in _ORIGIN.sub("", ptx).splitlines())
    return hashlib.sha256("\n".join(line for line in lines if line).encode()).hexdigest()


def ptxas_build(program: str) -> str | None:
    """The build that ``program --version`` reports, e.g. ``cuda_13.3.r13.3/compiler.38244171_0``; None without one."""
    try:
        output = subprocess.run([program, "--version"], capture_output=True, text=True, timeout=30, check=True).stdout
    except (OSError, subprocess.SubprocessError):
        return None
    build = re.search(r"^Build (\S+)", output, re.MULTILINE)
    return build[1] if build else None
