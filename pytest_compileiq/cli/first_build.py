"""Builds what a first benchmark is of, as its test will: the compiler tells the prototype and what is lacking."""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from pytest_compileiq.cli.first_benchmark import AuthorKnows, Building
from pytest_compileiq.cli.kernels import CPLUSPLUS, HEADERS, Found, Kernel
from pytest_compileiq.errors import BuildError, CompileIQError
from pytest_compileiq.toolchains.base import Place
from pytest_compileiq.toolchains.cc.marker import Cc
from pytest_compileiq.toolchains.machine_code.names import matching
from pytest_compileiq.toolchains.machine_code.prototypes import Prototype, prototypes_of
from pytest_compileiq.toolchains.nvidia.nvcc import Nvcc

_BUILD_S = 120.0
_MOST_TRIED = 32  # sources and directories of headers, added one after the other
_TOLD_WITH = "-g -Wl,--no-undefined"  # of the build here: prototypes, and what no source defines
_NO_HEADER = re.compile(r"fatal error: '?([^\s':]+)'?(?:: No such file| file not found)")
_UNDEFINED = re.compile(r"undefined reference to [`'](\w+)")


@dataclass
class _Attempt:
    """What a build is tried with: sources and directories of headers, relative to the project."""

    sources: list[Path]
    headers: list[Path]
    libraries: list[str]


def source_of(kernel: Kernel, found: Found, project: Path) -> Path:
    """The source that has a function: its own file, or for a header the only source that includes it.

    Raises:
        AuthorKnows: there is none, or there are several.
    """
    if kernel.file.suffix.lower() not in HEADERS:
        return kernel.file
    including = re.compile(rf'(?m)^\s*#\s*include\s*[<"](?:[^>"\n]*/)?{re.escape(kernel.file.name)}[>"]')
    texts = ((path, (project / path).read_text(encoding="utf-8", errors="replace")) for path in found.sources)
    sources = [path for path, text in texts if including.search(text)]
    own = [path for path in sources if path.stem == kernel.file.stem] or sources
    if len(own) == 1:
        return own[0]
    listed = f"several include it: {', '.join(map(str, own))}" if own else "no source includes it"
    raise AuthorKnows(f"{kernel.spelled} is in a header, and {listed}: name FILE::{kernel.name}")


def c_build(kernel: Kernel, found: Found, place: Place, like: str | None) -> tuple[Prototype, Building]:
    """Build a C or C++ function; what it lacks is looked for in the project.

    Raises:
        AuthorKnows: it does not build, or has no code of its own.
        CompileIQError: the compiler is not there, or ``like`` has no command for it.
    """
    source = source_of(kernel, found, place.rootdir)
    compiler = "g++" if like is None and source.suffix.lower() in CPLUSPLUS else None
    attempt = _Attempt([source], [], [])
    with TemporaryDirectory(prefix="acf-init-") as folder:
        for number in range(_MOST_TRIED):
            paths = tuple(_seen(path, place) for path in attempt.sources)
            flags = shlex.join([*(["-O2"] if like is None else []), *_flags(attempt, place)])
            cc = Cc(*paths, flags=f"{flags} {_TOLD_WITH}", compiler=compiler, like=like)
            try:
                built = cc.resolve(place).build(None, Path(folder, str(number)), timeout_s=_BUILD_S)
            except BuildError as error:
                if not _helped(attempt, str(error), found, like):
                    raise AuthorKnows(_unbuilt(kernel, error, found)) from error
                continue
            named = matching(kernel.name, built.code) or matching(kernel.name.rpartition("::")[2], built.code)
            prototypes = prototypes_of(built.path, kernel.name.rpartition("::")[2])
            if len(named) != 1 or len(prototypes) != 1:
                what = "several functions of that name" if prototypes else "no code of its own for it"
                raise AuthorKnows(f"{kernel.spelled}: the build of {source} has {what}")
            return prototypes[0], Building(paths, kernel.name, len(built.code) > 1, flags or None, compiler, like)
    raise AuthorKnows(f"{kernel.spelled} needs more than {_MOST_TRIED} sources and directories of headers")


def cuda_build(kernel: Kernel, found: Found, place: Place) -> tuple[str, str, bool]:
    """Build a CUDA kernel: its source, as its test sees it, its flags, and whether there are other kernels.

    Raises:
        AuthorKnows: it does not build.
        CompileIQError: there is no nvcc.
    """
    source = source_of(kernel, found, place.rootdir)
    attempt = _Attempt([source], [], [])
    with TemporaryDirectory(prefix="acf-init-") as folder:
        for number in range(_MOST_TRIED):
            flags = shlex.join(["-O3", *_flags(attempt, place)])
            builder = Nvcc(_seen(source, place), arch="sm_90a", flags=flags).resolve(place)
            try:
                built = builder.build(None, Path(folder, str(number)), timeout_s=_BUILD_S)
            except BuildError as error:
                if not _helped(attempt, str(error), found, None):
                    raise AuthorKnows(_unbuilt(kernel, error, found)) from error
                continue
            if not matching(kernel.name, built.code):
                raise AuthorKnows(f"{kernel.spelled}: the build of {source} has no code of its own for it")
            return _seen(source, place), flags, len(built.code) > 1
    raise AuthorKnows(f"{kernel.spelled} needs more than {_MOST_TRIED} directories of headers")


def _helped(attempt: _Attempt, said: str, found: Found, like: str | None) -> bool:
    """Add what the compiler lacks, where the project has it once."""
    if (lacking := _NO_HEADER.search(said)) and like is None:
        ends = f"/{lacking[1]}"
        roots = {
            f"/{path.as_posix()}".removesuffix(ends).lstrip("/")
            for path in found.headers
            if f"/{path.as_posix()}".endswith(ends)
        }
        new = [Path(root or ".") for root in roots if Path(root or ".") not in attempt.headers]
        attempt.headers += new[:1]
        return len(new) == 1
    undefined = set(_UNDEFINED.findall(said))
    defining = {
        name: [each.file for each in found.kernels if each.name == name and each.language == "c"] for name in undefined
    }
    sources = {files[0] for files in defining.values() if len(files) == 1 and files[0].suffix.lower() not in HEADERS}
    if new_sources := sorted(sources - set(attempt.sources)):
        attempt.sources += new_sources
        return True
    if undefined and "-lm" not in attempt.libraries:
        attempt.libraries.append("-lm")
        return True
    return False


def _flags(attempt: _Attempt, place: Place) -> Sequence[str]:
    return [*(f"-I{_seen(path, place)}" for path in attempt.headers), *attempt.libraries]


def _seen(path: Path, place: Place) -> str:
    return Path(os.path.relpath(place.rootdir / path, place.test_dir)).as_posix()


def _unbuilt(kernel: Kernel, error: CompileIQError, found: Found) -> str:
    if kernel.language == "cuda":
        remedy = "its author knows the options, for flags= of Nvcc, or the library whose header is not here"
    else:
        remedy = f"name the build that does, by --like {found.databases[0].parent if found.databases else 'BUILD'}"
    lines = str(error).splitlines()
    said = next((line for line in lines if "error" in line or "undefined reference" in line), lines[0])
    return f"{kernel.spelled} does not build as it is ({said.strip()[:200]}): {remedy}"
