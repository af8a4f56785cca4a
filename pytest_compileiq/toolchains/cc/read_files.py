"""Which files gcc and clang read: the preprocessor's answer or, where that differs, the compiler's."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from msgspec import Struct

from pytest_compileiq.errors import BuildError
from pytest_compileiq.system.files import Unfit, inside
from pytest_compileiq.system.process import TAIL_BYTES
from pytest_compileiq.toolchains.cc.compiler import first_error
from pytest_compileiq.toolchains.cc.flags import ONLY_COMPILES_WITH_VALUE
from pytest_compileiq.toolchains.cc.includes import may_branch_by_pragma
from pytest_compileiq.toolchains.inputs import is_installed, preprocessed


class Read(Struct, frozen=True):
    """What some compilations read.

    Attributes:
        everything: files, by the names that the compiler gives them.
        own: relative to rootdir all that lies inside it; and of what lies outside, what is no system header.
    """

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
    read = Reader(command[0], rootdir).read_by(list(_recorded_compilations(command, program, options))).own
    return frozenset(name for name in read if not is_installed(name))


def _recorded_compilations(command: Sequence[str], program: str, options: Sequence[str]) -> Iterator[Sequence[str]]:
    """The command of each source, which ends in it: all have one, or each its own and ``--then`` what all have."""
    compiles = list(command[: command.index("--link")] if "--link" in command else command)
    border = compiles.index("--then") if "--then" in compiles else len(compiles)
    begin, behind = compiles[:border], compiles[border + 1 :]
    named = [place for place in range(1, border) if not begin[place].startswith("-") and not _is_value(begin, place)]
    if not behind:
        flags = [word for place, word in enumerate(begin) if place not in (0, *named)]
        yield from ([program, *flags, *options, begin[place]] for place in named)
        return
    for compiler, source in zip([0, *named[1::2]], named[::2], strict=False):
        called = program if begin[compiler] == begin[0] else begin[compiler]
        yield [called, *begin[compiler + 1 : source], *behind, *options, begin[source]]


def _is_value(words: Sequence[str], place: int) -> bool:
    return words[place - 1] in (*ONLY_COMPILES_WITH_VALUE, "--param")


class Reader(Struct, frozen=True):
    """One compiler in one directory.

    Attributes:
        name: how it is called in messages.
    """

    name: str
    rootdir: Path

    def read_by(self, compilations: Sequence[Sequence[str]]) -> Read:
        """What ``compilations`` read.

        Args:
            compilations: of each source, the command that ends in it.

        Raises:
            BuildError: the compiler refuses a source, or a file cannot be read.
        """
        read = self._read(self._by_rules(compilations, "-M"), self._by_rules(compilations, "-MM"))
        if not any(may_branch_by_pragma(self.content(name)) for name in read.own):
            return read
        # The compiler takes twenty times as long as its preprocessor for a source of templates.
        by_compiler = [(*command[:-1], "-fsyntax-only", command[-1]) for command in compilations]
        return self._read(self._by_rules(by_compiler, "-MD"), self._by_rules(by_compiler, "-MMD"))

    def content(self, name: str) -> bytes:
        """The content of a file.

        Raises:
            BuildError: it cannot be read.
        """
        try:
            return (self.rootdir / name).read_bytes()
        except OSError as error:
            raise BuildError(f"{error.filename}: cannot be read: {error.strerror}", kind="compile") from error

    def inside_rootdir(self, name: str) -> str | None:
        """``name`` relative to rootdir; None if the file lies outside."""
        try:
            return inside(self.rootdir, name).relative_to(self.rootdir.resolve()).as_posix()
        except Unfit:
            return None

    def _read(self, everything: frozenset[str], not_system: frozenset[str]) -> Read:
        inside_it = frozenset(name for name in map(self.inside_rootdir, everything) if name is not None)
        return Read(everything, inside_it | {name for name in not_system if self.inside_rootdir(name) is None})

    def _by_rules(self, compilations: Sequence[Sequence[str]], option: str) -> frozenset[str]:
        return frozenset[str]().union(
            *(self._by_rule((*command[:-1], option, command[-1])) for command in compilations)
        )

    def _by_rule(self, argv: Sequence[str]) -> set[str]:
        finished, read = preprocessed(argv, self.rootdir)
        if finished.returncode != 0:
            raise BuildError(
                f"{self.name} cannot read the sources: {first_error(finished.output)}",
                kind="compile",
                log=finished.output[-TAIL_BYTES:],
            )
        return read
