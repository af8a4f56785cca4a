"""What a build by gcc depends on, for the build cache: what it is asked with, what it reads, what it looks for in vain.

Builds by clang are not modelled: which installation of gcc it takes its headers from, and which configuration files it
reads, depends on directories that it does not name.
"""

from __future__ import annotations

import hashlib
import os
import re
import tempfile
from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import lru_cache, partial
from pathlib import Path
from posixpath import join

from msgspec import Struct

from pytest_compileiq.errors import EnvironmentFault
from pytest_compileiq.model import BuildResult
from pytest_compileiq.rules.build_key import Inputs, NotModelled, looked_for
from pytest_compileiq.toolchains.cc.assembly import why_it_may_read_a_file
from pytest_compileiq.toolchains.cc.compiler import CcCompiler
from pytest_compileiq.toolchains.cc.cplusplus import is_cplusplus
from pytest_compileiq.toolchains.cc.flags import Flags
from pytest_compileiq.toolchains.cc.includes import (
    Named,
    expect_modelled,
    included_by,
    may_branch_by_pragma,
    named_in,
    other_names_in,
)
from pytest_compileiq.toolchains.cc.installation import Installation, expect_gcc
from pytest_compileiq.toolchains.commands import ask, code_of
from pytest_compileiq.toolchains.environment import keyed_environment
from pytest_compileiq.toolchains.make_rules import preprocessed

_ALWAYS_INCLUDED = "stdc-predef.h"
_DIRECTORY = re.compile(r"-(?:I|L|iquote|isystem|idirafter)(.+)", re.DOTALL)
_LISTS_OF_DIRECTORIES = ("CPATH", "C_INCLUDE_PATH", "CPLUS_INCLUDE_PATH", "LIBRARY_PATH", "LD_LIBRARY_PATH")


class GccBuild(Struct, frozen=True):
    """One build: of some sources, with some controls, into one file.

    Attributes:
        compiler: links.
        compilations: of each source, the program with its options, the controls' behind them.
        flags: those that link.
        output: ``library`` or ``executable``, or the name of the table by which a library's functions are reached.
        patterns: of the functions whose code is read from the objects.
    """

    compiler: CcCompiler
    compilations: tuple[tuple[tuple[str, ...], str], ...]
    flags: Flags
    output: str
    patterns: tuple[str, ...]
    rootdir: Path

    def is_of(self, _built: BuildResult) -> bool:
        """As of ``CacheableBuild``: the question holds nothing that was read."""
        return True

    def question(self) -> Mapping[str, Sequence[str]]:
        """All words that the build is asked with, for its key.

        Raises:
            NotModelled: one of them may let it depend on something else.
        """
        if self.compiler.name != "gcc":
            raise NotModelled(f"builds by {self.compiler.name} are not modelled")
        expect_gcc(self.compiler.program)
        for words, source in self.compilations:
            if Path(source).suffix != ".c" and not is_cplusplus(source):
                raise NotModelled(f"{source} is neither C nor C++")
            expect_gcc(words[0])
            expect_modelled(words[1:])
        expect_modelled([*self.flags.link, *self.flags.libraries])
        return {
            **{f"compile {number}": [*words, source] for number, (words, source) in enumerate(self.compilations)},
            "link": [self.compiler.program, *self.flags.link],
            "libraries": self.flags.libraries,
            "output": [self.output],
            "functions": self.patterns,
            "directory": [str(self.rootdir), os.path.realpath(self.rootdir)],
            "environment": [f"{name}={value}" for name, value in sorted(keyed_environment().items())],
            "reader": [code_of("cc")],
        }

    def inputs(self) -> tuple[Inputs, Inputs]:
        """What it reads and looks for: of the project or of anyone, and of what is installed.

        Raises:
            NotModelled: it may depend on something else.
            BuildError: the preprocessor refuses a source.
        """
        environment = tuple(sorted(keyed_environment().items()))
        own_directories = tuple(self._own_directories())
        own, installed = Inputs(), Inputs()
        for program in dict.fromkeys([self.compiler.program, *(words[0] for words, _ in self.compilations)]):
            here = Installation(program, self.flags.link, self.flags.libraries, environment, str(self.rootdir))
            asked_for, others = here.inputs().parted(partial(_is_below, directories=own_directories))
            own, installed = own | asked_for, installed | others
        for words, source in self.compilations:
            looked_at, standard = self._of_source(words, source), _standard(words[0], source)
            system, others = looked_at.parted(partial(_is_below, directories=standard))
            asked_for, system = system.parted(partial(_is_below, directories=own_directories))
            own, installed = own | others | asked_for, installed | system
        return own, installed

    def _own_directories(self) -> Iterator[str]:
        """The project's, and those that its options and the environment name: they may change while tests run."""
        yield str(self.rootdir)
        words = [*self.flags.link, *self.flags.libraries, *(word for words, _ in self.compilations for word in words)]
        listed = filter(None, (keyed_environment().get(name) for name in _LISTS_OF_DIRECTORIES))
        asked_for = (match[1] for word in words if (match := _DIRECTORY.fullmatch(word)))
        yield from map(self._located, (*asked_for, *":".join(listed).split(":")))

    def _of_source(self, words: Sequence[str], source: str) -> Inputs:
        standard = _standard(words[0], source)
        read, directories = self._read(words, source, "-M")
        if any(may_branch_by_pragma(_text_of(path)) for path in read if not _is_below(path, standard)):
            read, directories = self._read(words, source, "-fsyntax-only", "-MD")
        quoted, angled = set(included_by(words)), {_ALWAYS_INCLUDED}
        beside: list[tuple[str, str]] = [(str(self.rootdir), name) for name in quoted]
        assembled, content = None, hashlib.sha256()
        texts = {path: _text_of(path) for path in sorted(read)}
        other_names = _other_names(words, texts.values())
        for path, text in texts.items():
            content.update(text)
            named = _named_in(path, text, _is_below(path, standard), other_names)
            assembled = path if named.to_the_assembler else assembled
            quoted |= named.quoted
            angled |= named.angled
            beside += ((path.rpartition("/")[0], name) for name in named.quoted)
        inputs = looked_for(_with_precompiled(quoted | angled), directories, os.path.lexists)
        for directory, name in beside:
            inputs |= looked_for(_with_precompiled({name}), [directory], os.path.lexists)
        if precompiled := next((path for path in inputs.files if path.endswith(".gch")), None):
            raise NotModelled(f"{precompiled} is a precompiled header")
        if assembled is not None:
            self._expect_no_file_of_the_assembler(words, source, assembled, content.hexdigest())
        return inputs | Inputs(frozenset(read))

    def _expect_no_file_of_the_assembler(self, words: Sequence[str], source: str, path: str, content: str) -> None:
        if self.compiler.machine != "x86-64":
            raise NotModelled(f"{path} may hold assembly, which is only followed for x86-64")
        if reason := _why_assembler_may_read(tuple(words), source, self.rootdir, content):
            raise NotModelled(f"{path} may hold assembly, and {reason}")

    def _read(self, words: Sequence[str], source: str, *options: str) -> tuple[set[str], list[str]]:
        """The files that are read, and the directories that are searched or would be if they were there."""
        answer, read = preprocessed([*words, *options, "-v", source], self.rootdir)
        if answer.returncode != 0:
            raise NotModelled(f"the compiler refuses {source}")
        return {self._located(name) for name in read}, [self._located(name) for name in _searched(answer.output)]

    def _located(self, name: str) -> str:
        return join(self.rootdir, name)


def _with_precompiled(names: set[str]) -> Iterator[str]:
    for name in names:
        yield name
        yield f"{name}.gch"


def _searched(shown: str) -> list[str]:
    """The directories in what ``gcc -v`` shows: those in its list, and those that it leaves out."""
    listed = shown.partition('#include "..." search starts here:')[2].partition("End of search list.")[0]
    ignored = re.findall(r'^ignoring (?:nonexistent|duplicate) directory "(.*)"$', shown, re.MULTILINE)
    return [*ignored, *re.findall(r"^ (.+)$", listed, re.MULTILINE)]


def _standard(program: str, source: str) -> tuple[str, ...]:
    return _standard_directories(program, "c++" if is_cplusplus(source) else "c")


@lru_cache(maxsize=16)
def _standard_directories(program: str, language: str) -> tuple[str, ...]:
    """Where a compiler looks for headers by itself, whatever the environment asks for."""
    shown = ask([program, "-E", "-v", "-x", language, os.devnull], without=_LISTS_OF_DIRECTORIES).output
    return tuple(directory for directory in _searched(shown) if directory.startswith("/"))


def _is_below(path: str, directories: tuple[str, ...]) -> bool:
    return f"{path}/".startswith(tuple(f"{directory}/" for directory in directories))


@lru_cache(maxsize=256)
def _why_assembler_may_read(words: tuple[str, ...], source: str, rootdir: Path, _content: str) -> str | None:
    """Why what the compiler makes of a source may name a file to the assembler; None if it names none.

    Args:
        _content: the digest of all that the compiler reads.
    """
    with tempfile.TemporaryDirectory() as folder:
        assembly = Path(folder) / "assembly.s"
        try:
            answer = ask([*words, "-S", source, "-o", str(assembly)], cwd=rootdir)
        except EnvironmentFault:
            return "takes too long to compile for a look at what the assembler gets"
        if answer.returncode != 0:
            return f"the compiler refuses {source}"
        said = why_it_may_read_a_file(assembly.read_bytes())
    return f"the assembler gets {said}" if said else None


def _text_of(path: str) -> bytes:
    try:
        return Path(path).read_bytes()
    except OSError as error:
        raise NotModelled(f"{path} cannot be read") from error


def _other_names(words: Sequence[str], texts: Collection[bytes]) -> frozenset[str]:
    """What ``texts`` call ``__has_include`` besides.

    Raises:
        NotModelled: an option says something of one of these macros.
    """
    names: frozenset[str] = frozenset()
    while more := frozenset[str]().union(*(_other_names_in(text, names) for text in texts)) - names:
        names |= more
    for word in words:
        if word.startswith("-D") and not names.isdisjoint(re.findall(r"\w+", word.removeprefix("-D"))):
            raise NotModelled(f"{word[:100]} may ask for files")
    return names


def _named_in(path: str, text: bytes, is_the_compilers: bool, other_names: frozenset[str]) -> Named:
    try:
        return _scanned(text, is_the_compilers, other_names)
    except NotModelled as reason:
        raise NotModelled(f"{path}: {reason}") from None


_other_names_in = lru_cache(maxsize=4096)(other_names_in)


@lru_cache(maxsize=4096)
def _scanned(text: bytes, is_the_compilers: bool, other_names: frozenset[str]) -> Named:
    return named_in(text, is_the_compilers=is_the_compilers, other_names=other_names)
