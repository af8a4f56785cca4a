"""Which sources a captured function is built from, and how: found before its test is written, by building it.

Debug information tells the source of a function and its options. What it does not tell, the user may: sources, and a
compilation database. The source is built as the test will build it, and what it calls of the library's other sources
is added until nothing of the library is missing.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import lru_cache
from io import BytesIO
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

from pytest_compileiq.errors import CompileIQError
from pytest_compileiq.machine_code.symbols import defined_symbols, needed_libraries
from pytest_compileiq.toolchains.base import Place
from pytest_compileiq.toolchains.cc.builder import resolve
from pytest_compileiq.toolchains.cc.compilation_database import read_database
from pytest_compileiq.toolchains.cc.marker import Cc
from pytest_compileiq.toolchains.steps import ask
from pytest_compileiq.toolchains.trial_builds import NoSource, TrialBuild, trial_build, with_callees, with_flags

_GNU = re.compile(r"GNU (?P<language>C|C\+\+)\d* .*?(?: (?P<options>-.*))?")  # vendors add a date and their name
# What Cc gives itself, what chooses no code, and what gcc records although nobody asked for it.
_LEFT_OUT = re.compile(
    r"-g\w*|-f(?:PIC|pic|PIE|pie)|-fno-gnu-unique|-frandom-seed=.*|-f\w+-prefix-map=.*"
    r"|-mtune=generic|-fasynchronous-unwind-tables"
)
_SYSTEM = ("/usr/include", "/usr/lib/")  # what every compiler finds by itself


@dataclass(frozen=True)
class BuiltFrom:
    """A function's source, and the options of gcc that its code depends on, as a command line has them."""

    source: Path
    compiler: str | None  # ``gcc`` or ``g++``; None where another compiler built it, which does not tell its options
    flags: str
    directory: Path  # where the compiler ran
    # of headers of its code, without the system's, and what lies above; -I is not recorded
    include_directories: tuple[Path, ...]


def built_from(library: Path, symbol: str) -> BuiltFrom | None:
    """What a function or variable of ``library`` was built from, by its debug information (DWARF); None without."""
    from elftools.common.exceptions import DWARFError, ELFError  # heavy

    try:
        elf, debug = _opened(library, library.stat().st_mtime_ns)
        address = _address(elf, symbol)
        if address is None or debug is None:
            return None
        ranges = debug.get_aranges()
        offset = ranges.cu_offset_at_addr(address) if ranges else None
        unit = _unit_with(debug, symbol) if offset is None else debug.get_CU_at(offset)
        return None if unit is None else _told(unit.get_top_DIE(), debug.line_program_for_CU(unit))
    except (OSError, ELFError, DWARFError, ValueError, KeyError, UnicodeDecodeError):
        return None


@lru_cache(maxsize=1)  # of hundreds of questions on one library
def _opened(library: Path, _changed_ns: int) -> tuple[Any, Any]:
    from elftools.elf.elffile import ELFFile

    elf = ELFFile(BytesIO(library.read_bytes()))
    return elf, elf.get_dwarf_info() if elf.has_dwarf_info() else None


def _address(elf: Any, symbol: str) -> int | None:
    for section in (".dynsym", ".symtab"):
        symbols = elf.get_section_by_name(section)
        for found in (symbols.get_symbol_by_name(symbol) if symbols else None) or ():
            if found["st_shndx"] != "SHN_UNDEF":
                return int(found["st_value"])
    return None


def _unit_with(debug: Any, variable: str) -> Any:
    """The unit that defines a variable, of which no table of addresses tells."""
    for unit in debug.iter_CUs():
        for entry in unit.get_top_DIE().iter_children():
            if entry.tag == "DW_TAG_variable" and "DW_AT_location" in entry.attributes:
                specified = "DW_AT_specification" in entry.attributes
                named = entry.get_DIE_from_attribute("DW_AT_specification") if specified else entry
                name = named.attributes.get("DW_AT_name")
                if name is not None and name.value == variable.encode():
                    return unit
    return None


def _told(unit: Any, lines: Any) -> BuiltFrom:
    name, directory, producer = (
        unit.attributes[key].value.decode() if key in unit.attributes else ""
        for key in ("DW_AT_name", "DW_AT_comp_dir", "DW_AT_producer")
    )
    compiler, options = None, list[str]()
    if gnu := _GNU.fullmatch(producer):
        compiler = "g++" if gnu["language"] == "C++" else "gcc"
        options = [option for option in (gnu["options"] or "").split() if not _LEFT_OUT.fullmatch(option)]
    # Where the headers of a unit are, and what lies above them, as far as that belongs to the project.
    named = (Path(directory, os.fsdecode(each)) for each in (lines["include_directory"] if lines else ()))
    existing = [path for path in (Path(os.path.normpath(each)) for each in named) if path.is_dir()]
    own = [path for path in existing if not str(path).startswith(_SYSTEM)]
    root = os.path.commonpath([directory, *own]) if own else ""
    above = (parent for path in own for parent in path.parents if parent.is_relative_to(root))
    headers = tuple(dict.fromkeys([*own, *above]))
    return BuiltFrom(Path(directory, name), compiler, " ".join(options), Path(directory), headers)


_MOST_HEADERS = 64
_LEAST_PARTS = 3  # of the path of a project: what lies right below / is none
_ALWAYS_THERE = ("libc.", "libm.", "libpthread.", "libdl.", "librt.", "libgcc_s.", "libgomp.", "libstdc++.", "ld-linux")
_UNDEFINED = re.compile(r"undefined symbol: (\w+)")


class NamedSources(NamedTuple):
    """What the user names, where a library does not tell: its sources, and a compilation database of its build."""

    sources: tuple[Path, ...] = ()
    like: Path | None = None


@dataclass(frozen=True)
class FunctionSources:
    """How a function is built."""

    paths: tuple[Path, ...]  # its source, then those of what it calls
    flags: str | None  # the options of all, where there is no ``like``; None where they are not known
    compiler: str | None = None
    like: Path | None = None  # the compilation database that has their commands
    libraries: tuple[str, ...] = ()  # options of the linker for those of the library's own libraries that it calls
    remark: str | None = None  # a sentence on what its test still lacks

    @property
    def every_flag(self) -> str | None:
        known = self.flags if self.flags or self.like or not self.libraries else "-O2"
        return " ".join([*(known or "").split(), *self.libraries]) if known or self.libraries else known

    def with_flags(self, more: Iterable[str]) -> FunctionSources:
        return replace(self, flags=" ".join([self.flags or "", *more]).strip()) if more else self


def sources_of(library: Path, function: str, given: NamedSources, place: Place) -> FunctionSources:
    """The sources and options of a function of ``library``."""
    built = built_from(library, function)
    with TemporaryDirectory(prefix="acf-sources-") as folder:
        search = _Search(library, given, place, Path(folder))
        source = search.source(function, built)
        if given.like is None and built is not None and built.compiler is None:
            raise NoSource(
                f"{library.name} does not tell how {source.name} was compiled, as gcc's does: write Captured(…), or "
                "give --like compile_commands.json"
            )
        known = built if given.like is None else None
        flags, compiler = (known.flags, known.compiler) if known else (None, None)
        return search.completed(FunctionSources((source,), flags, compiler, given.like), built)


class _Search:
    """Finds the sources of one library's function, which it builds in ``folder``."""

    def __init__(self, library: Path, given: NamedSources, place: Place, folder: Path) -> None:
        self._library = library
        self._given = given
        self._place = place
        self._folder = folder

    def source(self, function: str, built: BuiltFrom | None) -> Path:
        if built is not None and built.source.is_file():
            return built.source
        candidates = self._candidates
        if built is not None:
            if (alike := _most_alike(built.source, candidates)) is None:
                raise NoSource(f"its source {built.source} is not here: name it with --source FILE")
            return alike
        if not candidates:
            raise NoSource(
                f"{self._library.name} does not tell its source: compile it with -g, or name it with --source FILE"
            )
        if (defining := self._defining(function, candidates)) is None:
            raise NoSource(f"none of the {len(candidates)} sources that were named defines it")
        return defining

    def completed(self, sources: FunctionSources, by: BuiltFrom | None) -> FunctionSources:
        """``sources`` with those of what they call, and the directories of headers that they do not build without."""
        of_the_library = defined_symbols(self._library)

        def build(path: Path) -> TrialBuild:
            nonlocal sources
            of_one = replace(sources, paths=(path,))
            flags, trial = with_flags(
                lambda flags: self._built(of_one.with_flags(flags)), lambda trial: self._directory(trial, of_one, by)
            )
            sources = sources.with_flags(flags)
            return trial

        def source_of(symbol: str) -> Path | None:
            if symbol not in of_the_library:
                return None
            try:
                return self.source(symbol, built_from(self._library, symbol))
            except NoSource:
                return None

        paths, undefined = with_callees(sources.paths[0], build, source_of)
        sources, missing = replace(sources, paths=paths), undefined & of_the_library
        whole = self._built(sources)
        lacking = _lacking(whole.result.path) if whole.result else None
        if missing and (whole.result is None or lacking in missing):  # the compiler's own library may define some
            if lacking is None:
                first, *rest = sorted(missing)
                lacking = f"{first} and {len(rest)} more" if rest else first
            return replace(sources, remark=f"it calls {lacking}, whose source is not known")
        if whole.result is None:
            return replace(sources, remark=f"it cannot be built as far as is known: {whole.why_not}")
        return sources if lacking is None else self._linked(sources, lacking)

    def _directory(self, trial: TrialBuild, sources: FunctionSources, by: BuiltFrom | None) -> str | None:
        lacking = trial.lacking_header
        directory = _directory_of(lacking, by) if by and lacking and sources.like is None else None
        if directory is None:
            return None
        flag = f"-I{Path(os.path.relpath(directory, self._place.test_dir)).as_posix()}"
        return None if flag in (sources.flags or "").split() else flag

    def _linked(self, sources: FunctionSources, lacking: str) -> FunctionSources:
        """``sources`` with the libraries that they need to be loaded, which are among those of the library."""
        libraries = [f"-l:{name}" for name in needed_libraries(self._library) if not name.startswith(_ALWAYS_THERE)]
        with_them = replace(sources, libraries=tuple(libraries))
        linked = self._built(with_them).result if libraries else None  # None: they are not where the linker looks
        if linked is not None and _lacking(linked.path) is None:
            return with_them
        of = f" of {', '.join(name.removeprefix('-l:') for name in libraries)}" if libraries else ""
        return replace(sources, remark=f"it calls {lacking} of another library{of}: add -l… to its flags")

    def _built(self, sources: FunctionSources) -> TrialBuild:
        test_dir = self._place.test_dir
        paths = (Path(os.path.relpath(path, test_dir)).as_posix() for path in sources.paths)
        like = None if sources.like is None else os.path.relpath(sources.like, test_dir)
        cc = Cc(*paths, flags=sources.every_flag, compiler=sources.compiler, like=like)
        return trial_build(lambda: resolve(cc, self._place), self._folder, CompileIQError)

    @property
    def _candidates(self) -> list[Path]:
        """What the user names, or all that the compilation database has."""
        if self._given.sources or self._given.like is None:
            return list(self._given.sources)
        entries = read_database(str(self._given.like.absolute()), self._place).entries
        return [path for path in dict.fromkeys(Path(entry.file) for entry in entries) if path.is_file()]

    def _defining(self, symbol: str, candidates: Iterable[Path]) -> Path | None:
        """The candidate whose object defines a symbol; the only one that names it, where that does not compile yet."""
        word = re.compile(rf"\b{re.escape(symbol)}\b".encode())
        naming = [path for path in candidates if word.search(path.read_bytes())]
        objects = [self._built(FunctionSources((path,), None, like=self._given.like)).objects for path in naming]
        for path, built in zip(naming, objects, strict=True):
            if any(symbol in defined_symbols(each) for each in built):
                return path
        return naming[0] if len(naming) == 1 and not objects[0] else None


def _directory_of(header: str, by: BuiltFrom) -> Path | None:
    """Where a header lies: in a directory of other headers of the unit, or else the nearest one of its project."""
    for directory in by.include_directories:
        if (directory / header).is_file():
            return directory
    root = Path(os.path.commonpath([by.directory, by.source.parent]))
    if len(root.parts) < _LEAST_PARTS or ".." in Path(header).parts:
        return None
    named = islice(root.rglob(Path(header).name), _MOST_HEADERS)
    found = [path for path in named if path.as_posix().endswith(f"/{header}")]
    near = sorted((len(Path(os.path.commonpath([path, by.source])).parts), path) for path in found)
    is_clear = len(near) == 1 or (len(near) > 1 and near[-1][0] > near[-2][0])
    return near[-1][1].parents[len(Path(header).parts) - 1] if is_clear else None


def _most_alike(recorded: Path, candidates: Iterable[Path]) -> Path | None:
    """The candidate whose path ends as ``recorded`` does, in as many parts as no other."""
    alike = []
    for path in candidates:
        pairs = zip(reversed(recorded.parts), reversed(path.absolute().parts), strict=False)
        alike.append((next((count for count, (a, b) in enumerate(pairs) if a != b), 1), path))
    alike.sort()
    if not alike or not alike[-1][0] or (len(alike) > 1 and alike[-2][0] == alike[-1][0]):
        return None
    return alike[-1][1]


def _lacking(output: Path) -> str | None:
    """A function that a process of Python lacks to load it."""
    loading = "import ctypes, sys; ctypes.CDLL(sys.argv[1])"
    lacking = _UNDEFINED.search(ask([sys.executable, "-c", loading, str(output)]).output)
    return lacking[1] if lacking else None
