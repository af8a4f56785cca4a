"""What an installed gcc reads of itself: its programs with their libraries, its specs, and what it links to everything.

It is found out by asking the compiler, once in a process for each set of flags.
"""

from __future__ import annotations

import os
import re
import shutil
import tempfile
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from posixpath import join

from msgspec import Struct

from pytest_compileiq.rules.build_key import Inputs, NotModelled
from pytest_compileiq.toolchains.commands import ask
from pytest_compileiq.toolchains.loader import listed, loaded, looked_for_in

_GCC = re.compile(r"(?:[\w.]+-)*(?:gcc|g\+\+|cc|c\+\+)(?:-[\d.]+)?")
_WRAPPERS = (b"CCACHE_", b"DISTCC_", b"ICECC_", b"SCCACHE_")
_COMPILERS_PROPER = ("cc1", "cc1plus")
_PROGRAMS = (*_COMPILERS_PROPER, "collect2", "as", "ld", "real-ld", "collect-ld")
_DATA = ("specs", "libgomp.spec", "liblto_plugin.so")
_ELF = b"\x7fELF"


class Installation(Struct, frozen=True):
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

    def listed(self, variable: str) -> list[str]:
        """The directories that a variable of its environment names."""
        return listed(variable, dict(self.environment), self.rootdir)


@lru_cache(maxsize=16)
def expect_gcc(program: str) -> None:
    """Have ``program`` be a gcc itself.

    Raises:
        NotModelled: it may be a wrapper around one.
    """
    driver = os.path.realpath(program)
    if not _GCC.fullmatch(Path(driver).name):
        raise NotModelled(f"{driver} is not named as a gcc is, and may be a wrapper")
    expect_a_binary(driver)


@lru_cache(maxsize=64)
def _inputs(of: Installation) -> Inputs:
    driver = os.path.realpath(of.program)
    programs, libraries = _search_directories(of)
    own = looked_for_in([*programs, *of.listed("PATH")], _PROGRAMS) | looked_for_in([*programs, *libraries], _DATA)
    executed = [driver, *sorted(name for name in own.files if Path(name).name in _PROGRAMS)]
    for program in executed:
        expect_a_binary(program)
    return (
        own
        | Inputs(frozenset({driver, of.program}))
        | loaded(executed, dict(of.environment), of.rootdir)
        | _linked(of, libraries)
    )


def _search_directories(of: Installation) -> tuple[list[str], list[str]]:
    answer = ask([of.program, *of.flags, "-print-search-dirs"], cwd=Path(of.rootdir)).output
    told = {kind: listed.split(":") for kind, listed in re.findall(r"^(programs|libraries): =(.*)$", answer, re.M)}
    if len(told) != 2:
        raise NotModelled(f"{of.program} does not say where it looks for its programs")
    among = {kind: [join(of.rootdir, part) for part in listed] for kind, listed in told.items()}
    return among["programs"], among["libraries"]


def expect_a_binary(program: str) -> None:
    """Have ``program`` be one by itself.

    Raises:
        NotModelled: it is a script, or a wrapper around a compiler.
    """
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
