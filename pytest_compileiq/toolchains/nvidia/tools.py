"""NVIDIA's compilers on this machine: where each one is, its version, which one is used, and which files nvcc reads.

The order is fixed: a path given in the marker, the ``cuda`` extra, ``CUDA_HOME`` or ``CUDA_PATH``, then ``PATH``. The
first one found is used, whatever its version, so that it does not depend on what else is installed.
"""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from functools import lru_cache
from pathlib import Path

from msgspec import Struct

from pytest_compileiq.errors import BuildError, EnvironmentFault, MarkerError, install
from pytest_compileiq.model import sha256_hex
from pytest_compileiq.timing.clock import capability
from pytest_compileiq.toolchains.base import Place
from pytest_compileiq.toolchains.inputs import is_installed, preprocessed
from pytest_compileiq.toolchains.steps import ask, telling_line

CONTROLS_SINCE = (13, 3)
INSTALL = install("cuda")
_TELLING = re.compile(r"\bfatal\b|\berror\b")
_ARCHITECTURE = re.compile(r"sm_[1-9][0-9]{1,2}[af]?")


class CudaTool(Struct, frozen=True):
    """One installed tool."""

    name: str  # ptxas or nvcc
    program: str  # its path
    version: str  # e.g. 13.3.73
    build: str  # e.g. cuda_13.3.r13.3/compiler.38244171_0; empty if it prints none
    origin: str  # how it was found, in words

    @property
    def line(self) -> str:
        """Name and minor version; an ACF of another line is refused."""
        return f"{self.name}{'.'.join(self.version.split('.')[:2])}"

    @property
    def takes_controls(self) -> bool:
        return tuple(int(part) for part in self.version.split(".")[:2]) >= CONTROLS_SINCE

    def __str__(self) -> str:
        return f"{self.name} {self.version} ({self.origin}: {self.program})"


def find_tool(name: str, given: str | None, place: Place) -> CudaTool:
    """The tool ``name`` that builds here: the marker's ``compiler``, else the first that is installed.

    Raises:
        EnvironmentFault: it is not installed, or does not report its version.
    """
    if given is not None:
        wanted = str(place.test_dir / given) if os.sep in given else given
        program = shutil.which(wanted)
        if program is None:
            raise EnvironmentFault(f"no {name} at {wanted}; leave compiler= out, or {INSTALL}")
        return identify(name, program, "named in the marker")
    if tool := next(installed(name), None):
        return tool
    raise EnvironmentFault(f"no {name} in the cuda extra, CUDA_HOME, CUDA_PATH or PATH: {INSTALL}")


def installed(name: str) -> Iterator[CudaTool]:
    """Every tool ``name`` on this machine, in the order of choice; raises as ``identify``."""
    seen = set()
    for origin, directory in _directories():
        program = shutil.which(name, path=directory)
        if program and Path(program).resolve() not in seen:
            seen.add(Path(program).resolve())
            yield identify(name, str(Path(program).absolute()), origin)


def pinned(minor_version: str) -> str:
    """The command that installs ``minor_version``, e.g. ``13.3``, of nvcc, ptxas and what they need."""
    return f"{INSTALL} 'nvidia-cuda-nvcc=={minor_version}.*'"


def check_architecture(arch: object, where: str) -> str:
    """``arch``, if it names one architecture such as ``sm_90a``; else MarkerError."""
    if not isinstance(arch, str) or not _ARCHITECTURE.fullmatch(arch):
        raise MarkerError(f"{where}(arch={arch!r}): expected an architecture such as 'sm_90a'")
    return arch


def several_architectures(given: object, check: Callable[[object], str], where: str) -> tuple[str, ...]:
    """``given``, one architecture or several, as ``check`` names them, in one order, since theirs has no meaning."""
    each = given if isinstance(given, Collection) and not isinstance(given, str) else [given]
    checked = [check(arch) for arch in each]
    if not checked or len(set(checked)) < len(checked):
        raise MarkerError(f"{where}(arch={given!r}): expected one architecture or several different ones")
    return tuple(sorted(checked, key=lambda arch: (capability(arch), arch)))


@lru_cache(maxsize=32)
def identify(name: str, program: str, origin: str) -> CudaTool:
    """The tool at ``program``.

    Raises:
        EnvironmentFault: it does not report its version.
    """
    answer = ask([program, "--version"]).output
    version = re.search(r"\bV(\d+\.\d+\.\d+)", answer)
    build = re.search(r"^Build (\S+)", answer, re.MULTILINE)
    if version is None:
        first = answer.strip().partition("\n")[0]
        raise EnvironmentFault(f"{program} does not say which {name} it is; it says {first[:200]!r}: {INSTALL}")
    return CudaTool(name, program, version[1], build[1] if build else "", origin)


def first_error(output: str) -> str:
    """The line of a tool's output that says what is wrong."""
    return telling_line(output, _TELLING)


def _directories() -> Iterator[tuple[str, str]]:
    """(how found, directory) in the order of choice."""
    yield from (("the cuda extra", str(directory)) for directory in _extra_directories())
    for variable in ("CUDA_HOME", "CUDA_PATH"):
        if home := os.environ.get(variable):
            yield variable, str(Path(home) / "bin")
    yield from (("PATH", directory) for directory in os.environ.get("PATH", "").split(os.pathsep) if directory)


def _extra_directories() -> list[Path]:
    """The ``bin`` directory of every toolkit that wheels installed, the newest major version first."""
    spec = importlib.util.find_spec("nvidia")
    homes = (spec.submodule_search_locations or ()) if spec else ()
    toolkits = [path for home in homes for path in Path(home).glob("cu[0-9]*/bin")]
    return sorted(toolkits, key=lambda path: int(re.sub(r"\D", "", path.parent.name)), reverse=True)


# ── which files of a project nvcc reads: what is installed is none, though it may lie inside ─────────────────────────

OF_A_TEMPLATE = "--instantiate="  # in a recorded command


class NvccReader(Struct, frozen=True):
    """nvcc on one source, relative to ``rootdir``, where it runs."""

    program: str
    source: str
    rootdir: Path

    def everything(self, words: Sequence[str]) -> set[Path]:
        """All that nvcc reads with ``words``; BuildError where it refuses the source."""
        finished, read = preprocessed([self.program, "-M", *words], self.rootdir)
        if finished.returncode != 0:
            message = f"nvcc cannot read {self.source}: {first_error(finished.output)}"
            raise BuildError(message, kind="compile", log=finished.output)
        paths = {(self.rootdir / name).resolve() for name in read}
        return {path for path in paths if path.is_file()}

    def own(self, words: Sequence[str]) -> Mapping[str, str]:
        """Path relative to rootdir → SHA-256 of every file of the project; raises as ``everything``."""
        root = self.rootdir.resolve()
        own = sorted(filter(self.is_own, self.everything(words)))
        return {Path(os.path.relpath(path, root)).as_posix(): sha256_hex(path.read_bytes()) for path in own}

    def is_own(self, path: Path) -> bool:
        if path == (self.rootdir / self.source).resolve():
            return True  # wherever it lies
        toolkit, root = Path(self.program).resolve().parents[1] / "include", self.rootdir.resolve()
        if not path.is_relative_to(root) or path.is_relative_to(toolkit.resolve()):
            return False
        return not is_installed(path.relative_to(root).as_posix())


def words_to_read(source: str, *, as_template: bool) -> tuple[str, ...]:
    """nvcc's words for what a build reads; of templates that our own file instantiates, that file is left out."""
    return ("-include", source, "-x", "cu", os.devnull) if as_template else (source,)


def read_again(command: Sequence[str], program: str, options: Sequence[str], rootdir: Path) -> frozenset[str]:
    """The files of the project that a recorded command, with ``options`` of controls, reads by the nvcc ``program``.

    Raises:
        BuildError: it refuses the source.
    """
    *words, source = command[1:]
    as_template = any(word.startswith(OF_A_TEMPLATE) for word in words)
    ours = (OF_A_TEMPLATE, "--controls=", "--cubin", "--library", "--executable")
    flags = [word for word in words if not word.startswith(ours)]
    asked = [*flags, *options, *words_to_read(source, as_template=as_template)]
    return frozenset(NvccReader(program, source, rootdir).own(asked))
