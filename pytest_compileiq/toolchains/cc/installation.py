"""What an installed gcc reads of itself: its programs with their libraries, its specs, and what it links to everything.

It is found out by asking the compiler, once in a process for each set of flags.
"""

from __future__ import annotations

import os
import re
import shutil
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from posixpath import join
from typing import Any

from pytest_compileiq.rules.build_key import Inputs, NotModelled, looked_for
from pytest_compileiq.toolchains.commands import ask

_GCC = re.compile(r"(?:[\w.]+-)*(?:gcc|g\+\+|cc|c\+\+)(?:-[\d.]+)?")
_WRAPPERS = (b"CCACHE_", b"DISTCC_", b"ICECC_", b"SCCACHE_")
_COMPILERS_PROPER = ("cc1", "cc1plus")
_PROGRAMS = (*_COMPILERS_PROPER, "collect2", "as", "ld", "real-ld", "collect-ld")
_DATA = ("specs", "libgomp.spec", "liblto_plugin.so")
_LOADER = ("/etc/ld.so.cache", "/etc/ld.so.preload", "/etc/ld.so.conf")
_LOADED_BY_PROCESSOR = ("glibc-hwcaps", "tls")  # directories of libraries for some processors
_ELF = b"\x7fELF"


@dataclass(frozen=True)
class Installation:
    """One gcc as it answers with some flags.

    Attributes:
        program: its path.
        flags: that it links with, sorted.
        environment: name → value, as pairs: what it looks at of this process's environment.
        rootdir: where it runs.
    """

    program: str
    flags: tuple[str, ...]
    libraries: tuple[str, ...]
    environment: tuple[tuple[str, str], ...]
    rootdir: str

    def inputs(self) -> Inputs:
        """All that it reads and looks for, whatever the source.

        Raises:
            NotModelled: it is a wrapper around a compiler, or not the plain gcc of a system with glibc.
        """
        return _inputs(self)


@lru_cache(maxsize=16)
def expect_gcc(program: str) -> None:
    """Have ``program`` be a gcc itself.

    Raises:
        NotModelled: it may be a wrapper around one.
    """
    driver = os.path.realpath(program)
    if not _GCC.fullmatch(Path(driver).name):
        raise NotModelled(f"{driver} is not named as a gcc is, and may be a wrapper")
    _expect_a_binary(driver)


@lru_cache(maxsize=64)
def _inputs(of: Installation) -> Inputs:
    driver = os.path.realpath(of.program)
    programs, libraries = _search_directories(of)
    own = _looked_for_in([*programs, *_listed("PATH", of)], _PROGRAMS) | _looked_for_in([*programs, *libraries], _DATA)
    executed = [driver, *sorted(name for name in own.files if Path(name).name in _PROGRAMS)]
    for program in executed:
        _expect_a_binary(program)
    return (
        own
        | Inputs(frozenset({driver, of.program}))
        | _loaded(executed, of)
        | _linked(of, libraries)
        | _looked_for_in(["/"], [name[1:] for name in _LOADER])
    )


def _search_directories(of: Installation) -> tuple[list[str], list[str]]:
    answer = ask([of.program, *of.flags, "-print-search-dirs"], cwd=Path(of.rootdir)).output
    told = {kind: listed.split(":") for kind, listed in re.findall(r"^(programs|libraries): =(.*)$", answer, re.M)}
    if len(told) != 2:
        raise NotModelled(f"{of.program} does not say where it looks for its programs")
    among = {kind: [join(of.rootdir, part) for part in listed] for kind, listed in told.items()}
    return among["programs"], among["libraries"]


def _expect_a_binary(program: str) -> None:
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


def _loaded(programs: Sequence[str], of: Installation) -> Inputs:
    """The shared libraries of ``programs``, and where the loader looks for them first."""
    loaded: set[str] = set()
    for program in programs:
        answer = ask(["ldd", program], cwd=Path(of.rootdir))
        if "not a dynamic executable" in answer.output or "statically linked" in answer.output:
            continue
        loaded |= set(re.findall(r"(?:=>\s+|^\s+)(/\S+) \(0x", answer.output, re.MULTILINE))
        if answer.returncode != 0 or "not found" in answer.output or "/ld-linux" not in answer.output:
            raise NotModelled(f"ldd does not say which libraries {program} loads")
    first = _listed("LD_LIBRARY_PATH", of)
    own = [directory for program in (*programs, *loaded) for directory in _run_paths(program)]
    names = {Path(library).name for library in loaded}
    searched = _looked_for_in([*first, *own], [*names, *_LOADED_BY_PROCESSOR])
    if special := next((path for path in searched.files if Path(path).name in _LOADED_BY_PROCESSOR), None):
        raise NotModelled(f"{special} holds libraries for some processors")
    return searched | Inputs(frozenset(loaded))


def _run_paths(program: str) -> Iterator[str]:
    """Directories that an ELF file names for the loader to look in."""
    from elftools.common.exceptions import ELFError
    from elftools.elf.elffile import ELFFile

    try:
        with Path(program).open("rb") as stream:
            elf: Any = ELFFile(stream)
            elf.header["e_shoff"] = 0  # else it reads all sections, and a compiler has hundreds, for one string table
            dynamic = next(iter(elf.iter_segments("PT_DYNAMIC")), None)
            tags = list(dynamic.iter_tags()) if dynamic else []
            listed = [getattr(tag, "runpath", None) or getattr(tag, "rpath", None) for tag in tags]
    except (OSError, ELFError) as error:
        raise NotModelled(f"{program} cannot be read") from error
    for paths in filter(None, listed):
        for path in paths.split(":"):
            yield re.sub(r"\$\{?ORIGIN\}?", lambda _: str(Path(os.path.realpath(program)).parent), path)


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
        raise NotModelled("the linker does not say what it reads")
    read = {line for line in traced.output.splitlines() if line != str(empty)}
    present = frozenset(join(of.rootdir, line) for line in read)
    if not all(Path(path).is_file() for path in present):
        raise NotModelled("the linker does not say what it reads")
    names = {Path(line).name for line in read}
    names |= {f"{name.removesuffix('.a')}.so" for name in names if name.endswith(".a")}
    names |= {f"lib{word[2:]}.{suffix}" for word in of.libraries if word.startswith("-l") for suffix in ("so", "a")}
    own = [join(of.rootdir, word[2:]) for word in of.libraries if word.startswith("-L")]
    more = [part for name in ("LD_LIBRARY_PATH", "LD_RUN_PATH", "LIBRARY_PATH") for part in _listed(name, of)]
    linker = shutil.which("ld", path=dict(of.environment).get("PATH"))
    built_in = ask([linker, "--verbose"]).output if linker else ""
    own_directories = re.findall(r'SEARCH_DIR\("=?([^"]+)"\)', built_in)
    return Inputs(present) | _looked_for_in([*own, *more, *libraries, *own_directories], names)


def _listed(variable: str, of: Installation) -> list[str]:
    """The directories that a variable of the environment names; an empty part is the working directory."""
    value = dict(of.environment).get(variable)
    return [join(of.rootdir, part) for part in re.split("[:;]", value)] if value else []


def _looked_for_in(directories: Iterable[str], names: Iterable[str]) -> Inputs:
    return looked_for(names, [directory.rstrip("/") or "/" for directory in directories if directory], os.path.exists)
