"""What the start of a program reads: its shared libraries, and the places where others would be found before them."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from posixpath import join
from typing import Any

from pytest_compileiq.rules.build_key import Inputs, NotModelled, looked_for
from pytest_compileiq.toolchains.commands import ask

_FILES = ("etc/ld.so.cache", "etc/ld.so.preload", "etc/ld.so.conf")
_BY_PROCESSOR = ("glibc-hwcaps", "tls")  # directories of libraries for some processors


def loaded(programs: Sequence[str], environment: Mapping[str, str], rootdir: str) -> Inputs:
    """The shared libraries of ``programs``, where the loader looks for them first, and the loader's own files.

    Args:
        environment: what the programs are started with, in ``rootdir``.

    Raises:
        NotModelled: this is not a system with glibc, or a library is missing.
    """
    libraries: set[str] = set()
    for program in programs:
        answer = ask(["ldd", program], cwd=Path(rootdir))
        if "not a dynamic executable" in answer.output or "statically linked" in answer.output:
            continue
        libraries |= set(re.findall(r"(?:=>\s+|^\s+)(/\S+) \(0x", answer.output, re.MULTILINE))
        if answer.returncode != 0 or "not found" in answer.output or "/ld-linux" not in answer.output:
            raise NotModelled(f"ldd does not say which libraries {program} loads")
    first = listed("LD_LIBRARY_PATH", environment, rootdir)
    own = [directory for program in (*programs, *libraries) for directory in _run_paths(program)]
    names = {Path(library).name for library in libraries}
    searched = looked_for_in([*first, *own], [*names, *_BY_PROCESSOR])
    if special := next((path for path in searched.files if Path(path).name in _BY_PROCESSOR), None):
        raise NotModelled(f"{special} holds libraries for some processors")
    return searched | Inputs(frozenset(libraries)) | looked_for_in(["/"], _FILES)


def listed(variable: str, environment: Mapping[str, str], rootdir: str) -> list[str]:
    """The directories that a variable of ``environment`` names; an empty part is the working directory."""
    value = environment.get(variable)
    return [join(rootdir, part) for part in re.split("[:;]", value)] if value else []


def looked_for_in(directories: Iterable[str], names: Iterable[str]) -> Inputs:
    """All of ``names`` in all of ``directories``; links are followed."""
    return looked_for(names, [directory.rstrip("/") or "/" for directory in directories if directory], os.path.exists)


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
            found = [getattr(tag, "runpath", None) or getattr(tag, "rpath", None) for tag in tags]
    except (OSError, ELFError) as error:
        raise NotModelled(f"{program} cannot be read") from error
    for paths in filter(None, found):
        for path in paths.split(":"):
            yield re.sub(r"\$\{?ORIGIN\}?", lambda _: str(Path(os.path.realpath(program)).parent), path)
