"""The inputs of host code in libraries and programs by nvcc, for the build cache.

nvcc generates sources for gcc. Behind preprocessed text they include only CUDA's headers of launches. A stand-in for
each source includes these too, so that they are known before the source exists. The finished build is compiled once
more to assembly, which shows that gcc has read no other file, and its assembler none.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path
from posixpath import join

from pytest_compileiq.rules.build_key import Inputs, NotModelled
from pytest_compileiq.toolchains.cc.cacheable import Installation, expect_driver, installed_inputs
from pytest_compileiq.toolchains.cc.compiler import identify
from pytest_compileiq.toolchains.cc.includes import why_it_may_read_a_file
from pytest_compileiq.toolchains.inputs import listed, looked_for_in, prerequisites
from pytest_compileiq.toolchains.nvidia.front_end import HERE, Dryrun
from pytest_compileiq.toolchains.steps import Commands

STAND_IN = ".stand-in.ii"  # behind the name of an object, the text of its source's stand-in
_COMPILES = re.compile(r"(\S+ .*)-c -x c\+\+ (.*) -o \"([^\"]+)\" *")
_GROUP = "-Wl,--start-group"  # nvcc puts all that it links into one
_GENERATED = re.compile(HERE + r'/([^"\\]+(?:\.cudafe1\.cpp|\.reg\.c|\.fatbin\.c))')
# The first defines a macro by which the second includes more.
_INCLUDES = """\
#define __CUDA_INCLUDE_COMPILER_INTERNAL_HEADERS__
#include "crt/host_runtime.h"
#include "crt/host_runtime.h"
#include "fatbinary_section.h"
"""


def preprocessing(command: str) -> str | None:
    """gcc's command for an object as one that preprocesses the stand-in for its source; None for another command."""
    compiles = _COMPILES.fullmatch(command)
    return f'{compiles[1]}-E -x c++ {compiles[2]} -o "{compiles[3]}{STAND_IN}"' if compiles else None


def is_of_host(command: str) -> bool:
    """Whether a command is one of the host's compiler or linker."""
    return f" {_GROUP} " in command or _COMPILES.fullmatch(command) is not None


def write_stand_ins(commands: Iterable[str], folder: Path) -> None:
    """Write a stand-in for every source that the ``commands`` name in the ``folder`` of a build."""
    for name in {name for command in commands for name in _GENERATED.findall(command)}:
        (folder / name).write_text(_INCLUDES if name.endswith(".cpp") else "", encoding="utf-8")


def host_inputs(commands: Iterable[str], environment: Mapping[str, str], rootdir: Path) -> Inputs:
    """Files of this machine that gcc, its linker and nvlink read for ``commands``, whatever the source.

    Raises:
        NotModelled: the host's compiler is not gcc for x86-64, or is not found.
    """
    inputs = Inputs()
    for words in map(shlex.split, filter(is_of_host, commands)):
        program = shutil.which(words[0], path=environment.get("PATH"))
        if program is None:
            raise NotModelled(f"{words[0]}, nvcc's host compiler, is not found")
        expect_driver(program)
        if (found := identify(program)).name != "gcc" or found.machine != "x86-64":
            raise NotModelled(f"{program} is nvcc's host compiler: only gcc for x86-64 is modelled")
        flags, libraries = _linked_with(words)
        installation = Installation(program, flags, libraries, tuple(sorted(environment.items())), str(rootdir))
        archives = {f"lib{word[2:]}.a" for word in libraries if word.startswith("-l")}  # nvlink reads no others
        directories = [join(rootdir, word[2:]) for word in libraries if word.startswith("-L")]
        inputs |= installed_inputs(installation) | looked_for_in(directories, archives)
        inputs |= looked_for_in(listed("PATH", environment, str(rootdir)), {words[0]})
    return inputs


def _linked_with(words: Sequence[str]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Flags and libraries of a command that links; of one that compiles, none."""
    if _GROUP not in words:
        return (), ()
    flags = words[1 : words.index(_GROUP)]
    more = ("-shared",) if "-shared" in words else ()
    return (*flags, *more), tuple(word for word in words if word.startswith(("-L", "-l")))


def expect_no_more_read(listing: Dryrun, commands: Commands, known: Collection[str]) -> None:
    """Have gcc read, of the sources in a build's folder, only ``known`` files, and its assembler no file.

    Raises:
        NotModelled: it reads another file, which the message names.
        BuildError: it refuses a source.
    """
    folder, place = commands.out_dir, os.path.realpath(commands.out_dir)
    for number, compiles in enumerate(filter(None, map(_COMPILES.fullmatch, listing.commands))):
        assembly, rules, script = (folder / f"host-{number}.{suffix}" for suffix in ("s", "d", "sh"))
        line = f'{compiles[1]}-S -MD -MF "{HERE}/{rules.name}" -x c++ {compiles[2]} -o "{HERE}/{assembly.name}"'
        script.write_text(listing.script([line], folder), encoding="utf-8")
        commands.run(["/bin/sh", "-e", str(script)], "the host code")
        for path in files_of(rules, commands.rootdir):
            if path not in known and not Path(path).is_relative_to(place):
                raise NotModelled(f"the host code reads {path}")
        if said := why_it_may_read_a_file(assembly.read_bytes()):
            raise NotModelled(f"the assembler of the host code gets {said}")


def files_of(rules: Path, rootdir: Path) -> set[str]:
    """The files that gcc's ``rules`` for make name."""
    names = prerequisites(rules.read_text("utf-8", "surrogateescape"))
    return {os.path.realpath(join(rootdir, name)) for name in names}
