"""The inputs of builds by gcc and clang, for the build cache: commands, files read, names looked for in vain."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import tempfile
from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import lru_cache, partial
from pathlib import Path
from posixpath import join

from msgspec import Struct

from pytest_compileiq.errors import EnvironmentFault
from pytest_compileiq.rules.build_key import Inputs, NotModelled, looked_for
from pytest_compileiq.toolchains.base import CacheableBuild
from pytest_compileiq.toolchains.cc.compiler import CcCompiler, identify, is_cplusplus
from pytest_compileiq.toolchains.cc.flags import Flags
from pytest_compileiq.toolchains.cc.includes import (
    expect_modelled,
    included_by,
    may_branch_by_pragma,
    named_in,
    other_names_in,
    why_it_may_read_a_file,
)
from pytest_compileiq.toolchains.environment import keyed_environment
from pytest_compileiq.toolchains.inputs import listed, loaded, looked_for_in, preprocessed
from pytest_compileiq.toolchains.steps import ask, asked_everywhere

_DRIVER = re.compile(r"(?:[\w.]+-)*(?:gcc|g\+\+|cc|c\+\+|clang|clang\+\+)(?:-[\d.]+)?")
_WRAPPERS = (b"CCACHE_", b"DISTCC_", b"ICECC_", b"SCCACHE_")
_COMPILERS_PROPER = ("cc1", "cc1plus")
_PROGRAMS = (*_COMPILERS_PROPER, "collect2", "as", "ld", "real-ld", "collect-ld")
_DATA = ("specs", "libgomp.spec", "liblto_plugin.so")
_ELF = b"\x7fELF"


class Installation(Struct, frozen=True):
    """One compiler with the flags and libraries that it links with, and what it sees of the environment as pairs."""

    program: str
    flags: tuple[str, ...]
    libraries: tuple[str, ...]
    environment: tuple[tuple[str, str], ...]
    rootdir: str

    def listed(self, variable: str) -> list[str]:
        return listed(variable, dict(self.environment), self.rootdir)


@lru_cache(maxsize=16)
def expect_driver(program: str) -> None:
    """Have ``program`` be a gcc or a clang itself."""
    driver = os.path.realpath(program)
    if not _DRIVER.fullmatch(Path(driver).name):
        raise NotModelled(f"{driver} is not named as gcc or clang is, and may be a wrapper")
    expect_a_binary(driver)


@lru_cache(maxsize=16)
def _expanded(program: str, language: str, _environment: tuple[tuple[str, str], ...], rootdir: str) -> str:
    """The commands that clang would run; they name the installation of gcc whose headers and start files it takes."""
    expanded = ask([program, "-###", "-x", language, "-c", os.devnull], cwd=Path(rootdir)).output
    if "Configuration file:" in expanded:
        raise NotModelled(f"{program} reads a configuration file")
    return expanded


@lru_cache(maxsize=64)
def installed_inputs(of: Installation) -> Inputs:
    """All that it reads and looks for, whatever the source."""
    answer = ask([of.program, *of.flags, "-print-search-dirs"], cwd=Path(of.rootdir)).output
    told = {
        kind: [join(of.rootdir, part) for part in listed.split(":")]
        for kind, listed in re.findall(r"^(programs|libraries): =(.*)$", answer, re.MULTILINE)
    }
    if len(told) != 2:
        raise NotModelled(f"{of.program} does not say where it looks for its programs")
    programs, libraries = told["programs"], told["libraries"]
    driver = os.path.realpath(of.program)
    own = looked_for_in([*programs, *of.listed("PATH")], _PROGRAMS) | looked_for_in([*programs, *libraries], _DATA)
    executed = [driver, *sorted(name for name in own.files if Path(name).name in _PROGRAMS)]
    for program in executed:
        expect_a_binary(program)
    started = loaded(executed, dict(of.environment), of.rootdir)
    return own | Inputs(frozenset({driver, of.program})) | started | _linked(of, libraries)


def expect_a_binary(program: str) -> None:
    """Have ``program`` be one by itself."""
    try:
        with Path(program).open("rb") as stream:
            if stream.read(len(_ELF)) != _ELF:
                raise NotModelled(f"{program} is a script around another program")
            # A wrapper stands in for what is called by name; drivers alone know where the compilers proper are.
            content = b"" if Path(program).name in _COMPILERS_PROPER else stream.read()
    except OSError as error:
        raise NotModelled(f"{program} cannot be read") from error
    if any(sign in content for sign in _WRAPPERS):
        raise NotModelled(f"{program} is a wrapper around another compiler")


def _linked(of: Installation, libraries: Sequence[str]) -> Inputs:
    """What the linker reads beside objects, as it says itself, and every directory where it would find that first."""
    with tempfile.TemporaryDirectory() as folder:
        empty, output = Path(folder) / "empty.o", Path(folder) / "linked"
        main = Path(folder) / "main.c"
        main.write_text("int main(void) { return 0; }\n")
        made = ask([of.program, "-fPIC", "-xc", "-c", str(main), "-o", str(empty)], cwd=Path(of.rootdir))
        argv = [of.program, *of.flags, str(empty), *of.libraries, "-Wl,--trace", "-o", str(output)]
        traced = ask(argv, cwd=Path(of.rootdir))
    if made.returncode or traced.returncode:
        raise NotModelled("the linker does not list its inputs")
    read = {line for line in traced.output.splitlines() if line != str(empty)}
    present = frozenset(join(of.rootdir, line) for line in read)
    if not all(Path(path).is_file() for path in present):
        raise NotModelled("the linker does not list its inputs")
    names = {Path(line).name for line in read}
    names |= {f"{name.removesuffix('.a')}.so" for name in names if name.endswith(".a")}
    names |= {f"lib{word[2:]}.{suffix}" for word in of.libraries if word.startswith("-l") for suffix in ("so", "a")}
    own = [join(of.rootdir, word[2:]) for word in of.libraries if word.startswith("-L")]
    more = [part for name in ("LD_LIBRARY_PATH", "LD_RUN_PATH", "LIBRARY_PATH") for part in of.listed(name)]
    linker = shutil.which("ld", path=dict(of.environment).get("PATH"))
    built_in = ask([linker, "--verbose"]).output if linker else ""
    own_directories = re.findall(r'SEARCH_DIR\("=?([^"]+)"\)', built_in)
    return Inputs(present) | looked_for_in([*own, *more, *libraries, *own_directories], names)


_ALWAYS_INCLUDED = "stdc-predef.h"
_DIRECTORY = re.compile(r"-(?:I|L|iquote|isystem|idirafter)(.+)", re.DOTALL)
_LISTS_OF_DIRECTORIES = ("CPATH", "C_INCLUDE_PATH", "CPLUS_INCLUDE_PATH", "LIBRARY_PATH", "LD_LIBRARY_PATH")


class CcBuild(CacheableBuild, frozen=True):
    """Each source with its program and options, linked by ``compiler``.

    Attributes:
        output: ``library`` or ``executable``, or the name of the table by which a library's functions are reached.
        patterns: of the functions whose code is read from the objects.
    """

    compiler: CcCompiler
    compilations: tuple[tuple[tuple[str, ...], str], ...]
    flags: Flags
    output: str
    patterns: tuple[str, ...]
    rootdir: Path

    def question(self) -> Mapping[str, Sequence[str]]:
        expect_driver(self.compiler.program)
        for words, source in self.compilations:
            if Path(source).suffix != ".c" and not is_cplusplus(source):
                raise NotModelled(f"{source} is neither C nor C++")
            expect_driver(words[0])
            expect_modelled(words[1:])
        expect_modelled([*self.flags.link, *self.flags.libraries])
        return {
            **{f"compile {number}": [*words, source] for number, (words, source) in enumerate(self.compilations)},
            "link": [self.compiler.program, *self.flags.link],
            "libraries": self.flags.libraries,
            "output": [self.output],
            "functions": self.patterns,
            "expanded": [
                _expanded(words[0], _language(source), _environment(), str(self.rootdir))
                for words, source in self.compilations
                if identify(words[0]).name == "clang"
            ],
            **asked_everywhere(self.rootdir, "cc", keyed_environment()),
        }

    def inputs(self) -> tuple[Inputs, Inputs]:
        environment = _environment()
        own_directories = tuple(self._own_directories())
        own, installed = Inputs(), Inputs()
        for program in dict.fromkeys([self.compiler.program, *(words[0] for words, _ in self.compilations)]):
            here = Installation(program, self.flags.link, self.flags.libraries, environment, str(self.rootdir))
            asked_for, others = installed_inputs(here).parted(partial(_is_below, directories=own_directories))
            own, installed = own | asked_for, installed | others
        for words, source in self.compilations:
            standard = _standard_directories(words[0], _language(source))
            system, others = self._of_source(words, source, standard).parted(partial(_is_below, directories=standard))
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

    def _of_source(self, words: Sequence[str], source: str, standard: tuple[str, ...]) -> Inputs:
        read, directories = self._read(words, source, "-M")
        if any(may_branch_by_pragma(_text_of(path)) for path in read if not _is_below(path, standard)):
            read, directories = self._read(words, source, "-fsyntax-only", "-MD")
        included = included_by(words)
        quoted, angled = {*included, *(f"{name}.pch" for name in included)}, {_ALWAYS_INCLUDED}
        beside: list[tuple[str, str]] = [(str(self.rootdir), name) for name in quoted]
        assembled, content = None, hashlib.sha256()
        texts = {path: _text_of(path) for path in sorted(read)}
        other_names = _other_names(words, texts.values())
        for path, text in texts.items():
            content.update(text)
            try:
                named = named_in(text, is_the_compilers=_is_below(path, standard), other_names=other_names)
            except NotModelled as reason:
                raise NotModelled(f"{path}: {reason}") from None
            assembled = path if named.to_the_assembler else assembled
            quoted |= named.quoted
            angled |= named.angled
            beside += ((path.rpartition("/")[0], name) for name in named.quoted)
        inputs = looked_for(_with_precompiled(quoted | angled), directories, os.path.lexists)
        for directory, name in beside:
            inputs |= looked_for(_with_precompiled({name}), [directory], os.path.lexists)
        if precompiled := next((path for path in inputs.files if path.endswith((".gch", ".pch"))), None):
            raise NotModelled(f"{precompiled} is a precompiled header")
        if assembled is not None:
            if self.compiler.machine != "x86-64":
                raise NotModelled(f"{assembled} may hold assembly, which is only followed for x86-64")
            # clang's own assembler has read the files by the time it writes text.
            as_text = (*words, "-fno-integrated-as") if identify(words[0]).name == "clang" else tuple(words)
            if why := _why_assembler_may_read(as_text, source, self.rootdir, content.hexdigest()):
                raise NotModelled(f"{assembled} may hold assembly, and {why}")
        return inputs | Inputs(frozenset(read))

    def _read(self, words: Sequence[str], source: str, *options: str) -> tuple[set[str], list[str]]:
        """The files that are read, and the directories that are searched or would be if they were there."""
        answer, read = preprocessed([*words, *options, "-v", source], self.rootdir)
        if answer.returncode != 0:
            raise NotModelled(f"the compiler refuses {source}")
        if "(headermap)" in answer.output:
            raise NotModelled("clang reads a header map")
        return {self._located(name) for name in read}, [self._located(name) for name in _searched(answer.output)]

    def _located(self, name: str) -> str:
        return join(self.rootdir, name)


def _environment() -> tuple[tuple[str, str], ...]:
    return tuple(sorted(keyed_environment().items()))


def _language(source: str) -> str:
    return "c++" if is_cplusplus(source) else "c"


def _with_precompiled(names: set[str]) -> Iterator[str]:
    for name in names:
        yield name
        yield f"{name}.gch"


def _searched(shown: str) -> list[str]:
    """The directories in what ``gcc -v`` shows: those in its list, and those that it leaves out."""
    listed = shown.partition('#include "..." search starts here:')[2].partition("End of search list.")[0]
    ignored = re.findall(r'^ignoring (?:nonexistent|duplicate) directory "(.*)"$', shown, re.MULTILINE)
    return [*ignored, *re.findall(r"^ (.+)$", listed, re.MULTILINE)]


@lru_cache(maxsize=16)
def _standard_directories(program: str, language: str) -> tuple[str, ...]:
    """Where a compiler looks for headers by itself, whatever the environment asks for."""
    shown = ask([program, "-E", "-v", "-x", language, os.devnull], without=_LISTS_OF_DIRECTORIES).output
    return tuple(directory for directory in _searched(shown) if directory.startswith("/"))


def _is_below(path: str, directories: tuple[str, ...]) -> bool:
    return f"{path}/".startswith(tuple(f"{directory}/" for directory in directories))


@lru_cache(maxsize=256)
def _why_assembler_may_read(words: tuple[str, ...], source: str, rootdir: Path, _content: str) -> str | None:
    """Why the assembly of a source, all of it digested as ``_content``, may name a file; None if it names none."""
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
    """What ``texts`` call ``__has_include`` besides."""
    names: frozenset[str] = frozenset()
    while more := frozenset[str]().union(*(other_names_in(text, names) for text in texts)) - names:
        names |= more
    for word in words:
        if word.startswith("-D") and not names.isdisjoint(re.findall(r"\w+", word.removeprefix("-D"))):
            raise NotModelled(f"{word[:100]} may ask for files")
    return names
