"""Which files gcc and clang read: the preprocessor's answer or, where that differs, the compiler's."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from msgspec import Struct

from pytest_compileiq.errors import BuildError
from pytest_compileiq.system.files import Unfit, inside
from pytest_compileiq.system.process import TAIL_BYTES
from pytest_compileiq.toolchains.cc.compiler import first_error
from pytest_compileiq.toolchains.cc.flags import recorded_compilations
from pytest_compileiq.toolchains.cc.includes import may_branch_by_pragma
from pytest_compileiq.toolchains.inputs import is_installed, preprocessed, read_source


class Read(Struct, frozen=True):
    """Files by the compiler's names; ``own`` are those inside rootdir, and outside it all but system headers."""

    everything: frozenset[str]
    own: frozenset[str]


def read_again(command: Sequence[str], program: str, options: Sequence[str], rootdir: Path) -> frozenset[str]:
    """The files of the project that a recorded command of gcc or clang reads here.

    Args:
        program: the compiler to ask; of a command with several, whatever ``PATH`` calls as they are called.
        options: of the controls, behind the command's own.

    Raises:
        BuildError: it refuses a source, or a file cannot be read.
    """
    compilations = [
        [program if compiler == command[0] else compiler, *flags, *options, source]
        for compiler, flags, source in recorded_compilations(command)
    ]
    own = Reader(command[0], rootdir).read_by(compilations).own
    return frozenset(name for name in own if not is_installed(name))


class Reader(Struct, frozen=True):
    """One compiler in one directory, by its name in messages."""

    name: str
    rootdir: Path

    def read_by(self, compilations: Sequence[Sequence[str]]) -> Read:
        read = self._read(self._by_rules(compilations, "-M"), self._by_rules(compilations, "-MM"))
        if not any(may_branch_by_pragma(self.content(name)) for name in read.own):
            return read
        # The compiler takes twenty times as long as its preprocessor for a source of templates.
        by_compiler = [(*command[:-1], "-fsyntax-only", command[-1]) for command in compilations]
        return self._read(self._by_rules(by_compiler, "-MD"), self._by_rules(by_compiler, "-MMD"))

    def content(self, name: str) -> bytes:
        return read_source(self.rootdir / name)

    def inside_rootdir(self, name: str) -> str | None:
        try:
            return inside(self.rootdir, name).relative_to(self.rootdir.resolve()).as_posix()
        except Unfit:
            return None

    def _read(self, everything: frozenset[str], not_system: frozenset[str]) -> Read:
        inside_it = frozenset(name for name in map(self.inside_rootdir, everything) if name is not None)
        return Read(everything, inside_it | {name for name in not_system if self.inside_rootdir(name) is None})

    def _by_rules(self, compilations: Sequence[Sequence[str]], option: str) -> frozenset[str]:
        everything = set[str]()
        for command in compilations:
            finished, read = preprocessed((*command[:-1], option, command[-1]), self.rootdir)
            if finished.returncode != 0:
                raise BuildError(
                    f"{self.name} cannot read the sources: {first_error(finished.output)}",
                    kind="compile",
                    log=finished.output[-TAIL_BYTES:],
                )
            everything |= read
        return frozenset(everything)
