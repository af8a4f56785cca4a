"""Which files of a project nvcc reads; what is installed is none of them, though its environment may lie inside."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path

from msgspec import Struct

from pytest_compileiq.errors import BuildError
from pytest_compileiq.model import sha256_hex
from pytest_compileiq.toolchains.inputs import is_installed, preprocessed
from pytest_compileiq.toolchains.nvidia.tools import first_error

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
