"""What compilers and other programs read besides their sources: by rules of ``-M``, by the loader, from packages."""

from __future__ import annotations

import os
import re
import sysconfig
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from posixpath import join
from typing import Any

from pytest_compileiq.errors import BuildError, EnvironmentFault
from pytest_compileiq.rules.build_key import Inputs, NotModelled, looked_for
from pytest_compileiq.system.process import Finished
from pytest_compileiq.toolchains.cc.flags import TAKES_A_PATH, joined_option
from pytest_compileiq.toolchains.steps import ask


def preprocessed(argv: Sequence[str], rootdir: Path) -> tuple[Finished, set[str]]:
    """How ``argv``, a compiler's command with one source and e.g. ``-M``, ended, and the files that it read.

    Raises:
        EnvironmentFault: it did not answer in time, or wrote no rules.
    """
    with tempfile.TemporaryDirectory() as folder:
        rules = Path(folder) / "rules"
        # In a file of their own, since among what is printed may be warnings, of controls too.
        finished = ask([*argv, "-MF", str(rules)], cwd=rootdir)
        if finished.returncode != 0:
            return finished, set()
        if not rules.is_file():
            raise EnvironmentFault(f"{argv[0]} writes no file for -MF: it is a wrapper that leaves options out")
        return finished, prerequisites(rules.read_text(encoding="utf-8", errors="replace"))


def read_source(path: Path) -> bytes:
    """The content of a file that a build reads; BuildError where it cannot be read."""
    try:
        return path.read_bytes()
    except OSError as error:
        raise BuildError(f"{error.filename}: cannot be read: {error.strerror}", kind="compile") from error


def prerequisites(rules: str) -> set[str]:
    """The files that ``rules`` depend on, without the quoting of GNU cpp."""
    names: set[str] = set()
    for rule in rules.replace("\\\n", " ").splitlines():
        words = re.findall(r"(?:\\[ #]|[^\s])+", rule.partition(": ")[2])
        names |= {re.sub(r"\\([ #])", r"\1", word).replace("$$", "$") for word in words}
    return names


_FILES = ("etc/ld.so.cache", "etc/ld.so.preload", "etc/ld.so.conf")
_BY_PROCESSOR = ("glibc-hwcaps", "tls")  # directories of libraries for some processors


def loaded(programs: Sequence[str], environment: Mapping[str, str], rootdir: str) -> Inputs:
    """Shared libraries of ``programs`` as ``environment`` and ``rootdir`` have them, and the loader's other files.

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


# Like the system's headers, those of packages are in no fingerprint: the machine code shows a change of them. And a
# recorded command leaves their place out, so that an artifact means the same in everybody's environment.
_PLACE = r"(?:(?:site|dist)-packages|include/python3\.\d+t?)(?:/|$)"
_INSTALLED = re.compile(rf"(?:^|/){_PLACE}")
_BEFORE_IN_A_PATH = re.compile(rf"^(=?)[^,:]*?(?<=/)(?={_PLACE})")
_BEFORE_IN_A_WORD = re.compile(rf"(?<!\.)/(?:[^,=:]*?/)?(?={_PLACE})")


def is_installed(path: str) -> bool:
    """Whether a file, named relative to the project where it lies inside, belongs to a package or to Python itself."""
    return _INSTALLED.search(path) is not None


def located(word: str) -> str:
    """A recorded word with the places of this environment's packages and this Python's headers."""
    for home in (sysconfig.get_path("purelib"), sysconfig.get_path("include")):
        if found := _INSTALLED.search(home):
            place = found[0].strip("/")
            word = word.replace(f".../{place}", f"{home[: found.start()]}/{place}")
    return word


def portable(word: str) -> str:
    """``word`` as a command is recorded: ``-I.../site-packages/torch/include``, wherever packages lie here."""
    option = joined_option(word, TAKES_A_PATH)
    if option is None:
        return _BEFORE_IN_A_WORD.sub(".../", word)
    return option + _BEFORE_IN_A_PATH.sub(r"\1.../", word.removeprefix(option))
