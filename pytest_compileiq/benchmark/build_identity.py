"""What decides what a machine builds of a benchmark, wherever the project lies there: equal identities, equal builds.

These are the compiler, the resolved command, and for a toolchain that tells its inputs all that the key of the build
cache holds, and the contents of what is read, with the paths of the project relative. Where something was looked for in
vain, on ``PATH`` too, tells builds apart that are made at different times; here what was found is compared instead.
"""

from __future__ import annotations

import hashlib
import os
import shlex
from collections.abc import Iterable, Mapping
from pathlib import Path
from tempfile import TemporaryDirectory

from pytest_compileiq.errors import BuildError
from pytest_compileiq.model import BuildResult, Compiler
from pytest_compileiq.rules.build_key import Inputs, NotModelled
from pytest_compileiq.system.seen_files import SeenFiles
from pytest_compileiq.toolchains.base import Builder

_SHOWN = ("compiler", "command", "target", "inputs", "environment")  # as they are; of the others a digest
_FINDS = "PATH="
_IN_WORDS = {"installed": "content of the compiler's files", "project": "content of the project's files"}


def identity_of(builder: Builder, rootdir: Path) -> dict[str, str]:
    """What decides the builds of ``builder``, by name: words, or the digest of what is too long for words."""
    told = {
        "compiler": identity_of_compiler(builder.compiler),
        "command": shlex.join(builder.compiler.command),
        "target": str(builder.target),
    }
    if not builder.is_modelled:
        return told
    try:
        build = builder.cacheable(None)
        question, (own, installed) = build.question(), build.inputs()
    except NotModelled as reason:
        return told | {"inputs": _without(str(reason), rootdir)}
    told["inputs"] = "modelled"
    for name, words in question.items():
        text = " ".join(_without(word, rootdir) for word in words if not word.startswith(_FINDS))
        told[name] = text if name in _SHOWN else _digest([text])
    return told | {"installed": _content(installed, rootdir), "project": _content(own, rootdir)}


def identity_of_compiler(compiler: Compiler) -> str:
    """A compiler, so that another one is told by it."""
    return f"{compiler.name} {compiler.version} ({compiler.build})"


def why_other(there: Mapping[str, str], here: Mapping[str, str]) -> str | None:
    """What another machine builds with otherwise than this one, in words; None where nothing is."""
    for name in (*here, *there):
        if there.get(name) != here.get(name):
            if name in _SHOWN:
                return f"its {name}: {there.get(name, 'unknown')} (here {here.get(name, 'unknown')})"
            return f"it has another {_IN_WORDS.get(name, name)}"
    return None


def told_by_a_second(baseline: BuildResult, builder: Builder, timeout_s: float) -> str:
    """What building the baseline once more tells of inputs that no record names, in words."""
    with TemporaryDirectory() as directory:
        try:
            again = builder.build(None, Path(directory), timeout_s=timeout_s)
        except BuildError as error:
            return f"a second build of the baseline failed ({error})"
    if again.digest != baseline.digest:
        return "two builds of the baseline differ here, so that the build is not reproducible"
    return (
        "two builds of the baseline are equal here, so that something differs which no record names: an installed "
        "header or library, or a program that the compiler runs"
    )


def _content(inputs: Inputs, rootdir: Path) -> str:
    seen = SeenFiles()
    return _digest(sorted(f"{_without(path, rootdir)} {seen.digest(path)}" for path in inputs.files))


def _without(text: str, rootdir: Path) -> str:
    """``text`` with the project's own path as ``.``, however it is spelled."""
    for spelling in sorted({str(rootdir), os.path.realpath(rootdir)}, key=len, reverse=True):
        text = text.replace(spelling, ".")
    return text


def _digest(lines: Iterable[str]) -> str:
    return hashlib.sha256("\0".join(lines).encode(errors="surrogateescape")).hexdigest()
