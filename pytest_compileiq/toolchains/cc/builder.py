"""Builds with gcc and clang: one installed compiler on one kernel, its inputs, its builds and their machine code."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import chain
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, Literal, Self, TypeVar

from pytest_compileiq.errors import BuildError, MarkerError
from pytest_compileiq.machine_code.shared_library import load_by_table, load_library
from pytest_compileiq.model import (
    ArchitectureFrom,
    BuildResult,
    Candidate,
    CodeDigest,
    Compiler,
    ControlClass,
    ControlsFile,
    Knobs,
    KnobValue,
    Licence,
    LoadChange,
    Target,
    sha256_hex,
)
from pytest_compileiq.rules.classes import SAFE
from pytest_compileiq.space import Space
from pytest_compileiq.toolchains.base import BaseSpace, Builder, HostFlags, Place
from pytest_compileiq.toolchains.cc.address_table import TABLE, changes, explained, table_of
from pytest_compileiq.toolchains.cc.cacheable import CcBuild
from pytest_compileiq.toolchains.cc.compiler import (
    CcCompiler,
    first_error,
    is_cplusplus,
    naming_the_cplusplus_compiler,
    without_native,
)
from pytest_compileiq.toolchains.cc.flags import BaselineFlags, Flags, find_file, who_chooses
from pytest_compileiq.toolchains.cc.includes import Read, Reader, named_by
from pytest_compileiq.toolchains.cc.known_options import render_options
from pytest_compileiq.toolchains.cc.marker import Cc
from pytest_compileiq.toolchains.cc.production import command_line, recorded_command
from pytest_compileiq.toolchains.cc.space import cc_classes, cc_space, is_in_effect, refused
from pytest_compileiq.toolchains.functions import FunctionSelection
from pytest_compileiq.toolchains.inputs import is_installed
from pytest_compileiq.toolchains.macros import baseline_macros, why_idle, without_replaced
from pytest_compileiq.toolchains.options import options_of
from pytest_compileiq.toolchains.steps import Commands, Links, ParallelCommands, ask

if TYPE_CHECKING:
    from pytest_compileiq.machine_code.elf import MachineCode

_NO_DATES = "-Werror=date-time"  # a build that holds its own date or time could never be replayed
NO_KNOBS: Knobs = {}
# A process has one copy of a unique symbol, so the two arms would share the static data of inline functions.
_LOADABLE: tuple[str, ...] = ("-fPIC", "-fno-gnu-unique")
Kind = TypeVar("Kind", bound="CcBuilder")
Compilation = tuple[Sequence[str], str, Path]  # the command of a source, what it is for, and the object
# Of sources whose architectures are chosen differently, the one that depends most on this machine decides.
_RANK: Mapping[ArchitectureFrom, int] = {"machine": 0, "test": 1, "default": 2}


def resolve(cc: Cc, place: Place) -> CcBuilder:
    """Implements ``pytest_compileiq.toolchains.cc.marker.Cc.resolve``."""
    return resolve_as(CcBuilder, cc, place)


def resolve_as(kind: type[Kind], cc: Cc, place: Place) -> Kind:
    """As ``resolve``, for a ``kind`` of builder that goes by the same arguments."""
    functions = _checked(cc)
    sources = tuple(find_file(source, place, f"Cc({source!r})", "a source") for source in cc.sources)
    line = command_line(cc, sources, place)
    program = line.program
    deciding = min(sources, key=lambda source: _RANK[who_chooses(line.flags_of(source))])
    host_flags = line.host_flags(place.host_flags)
    link = without_native(line.flags.link, host_flags)
    compiles = without_native(line.flags.compile, host_flags)
    every_flag = [*chain(*(command.flags for command in reversed([*line.own.values()]))), *compiles]
    defines, params = baseline_macros(cc.defines, every_flag, "Cc")
    compiles = (*compiles, *defines)
    own = {source: command.resolved(host_flags) for source, command in line.own.items()}
    by_table = cc.output == "library" and cc.like is not None
    several: tuple[tuple[str, ...], ...] = ((),)
    if cc.output == "library":
        more = _LOADABLE if program.name == "gcc" else _LOADABLE[:1]
        if by_table:
            several = changes(program.name, {each: (*own.get(each, (program.program,)), *compiles) for each in sources})
            more = several[0]
        compiles, link = (*compiles, *more), ("-shared", *link)
    flags = Flags(compiles, link, line.flags.libraries)
    everywhere = {source: (*own.get(source, ())[1:], *compiles) for source in sources}
    architecture = program.architecture(everywhere[deciding])
    return kind(
        compiler=Compiler(
            name=program.name,
            version=program.version,
            build=program.build,
            command=recorded_command(program, flags, sources, own),
            architecture_from=who_chooses(line.flags_of(deciding)),
        ),
        architecture=architecture,
        target=Target.of(architecture, program.line),
        native=next(filter(None, map(program.unrunnable, everywhere.values())), None),
        program=program,
        flags=flags,
        source_paths=sources,
        output=cc.output,
        functions=functions,
        rootdir=place.rootdir,
        baseline_params=params,
        own=own,
        left_out=line.remarks,
        host_flags=host_flags,
        by_table=by_table,
        added=several[0],
        larger=several[1:],
        parallel=ParallelCommands(place.jobs),
    )


def _checked(cc: Cc) -> FunctionSelection:
    if not cc.sources or not all(isinstance(source, str) and source for source in cc.sources):
        given = ", ".join(map(repr, cc.sources))
        raise MarkerError(f"Cc({given}): expected one or more sources, as in Cc('a.c', 'b.c') or Cc(*SOURCES)")
    if not isinstance(cc.flags, str):
        raise MarkerError(f"Cc(flags={cc.flags!r}): expected one string, as in flags='-O3 -march=native'")
    if cc.like is not None and (not isinstance(cc.like, str) or not cc.like):
        raise MarkerError(f"Cc(like={cc.like!r}): expected a path, as in like='build/compile_commands.json'")
    if cc.compiler is not None and (not isinstance(cc.compiler, str) or not cc.compiler):
        raise MarkerError(f"Cc(compiler={cc.compiler!r}): expected a program or a path, as in compiler='clang'")
    if cc.output not in ("library", "executable"):
        raise MarkerError(f"Cc(output={cc.output!r}): expected 'library' or 'executable'")
    functions = FunctionSelection.of("Cc", cc.functions, cc.neighbours)
    if functions.are_given and cc.output == "executable":
        raise MarkerError(
            "Cc(output='executable'): a program is measured and compared as one whole, so functions= and neighbours= "
            "say nothing about it: leave them out, or tune the function in a library"
        )
    return functions


@dataclass(frozen=True)
class CcBuilder(Builder):
    """The compiler runs in ``rootdir`` on relative paths, so that ``__FILE__`` and diagnostics hold none of a checkout.

    Attributes:
        own: source → the compiler and the flags in front of ``flags`` for it alone.
        left_out: differences from production's command, in sentences.
        by_table: whether a library's functions are reached by a table of their addresses: see ``address_table``.
        added: the last of ``flags.compile``, which have production's objects loaded.
        larger: what to add instead where the linker refuses these, the least change first.
    """

    is_modelled = counts = True
    compiler: Compiler
    architecture: str
    target: str
    native: str | None
    program: CcCompiler
    flags: Flags
    source_paths: tuple[str, ...]
    output: Literal["library", "executable"]
    functions: FunctionSelection
    rootdir: Path
    baseline_params: Mapping[str, KnobValue]
    own: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    left_out: tuple[str, ...] = ()
    host_flags: HostFlags = field(default_factory=dict)
    by_table: bool = False
    added: tuple[str, ...] = ()
    larger: tuple[tuple[str, ...], ...] = ()
    links: Links = field(default_factory=Links, compare=False, repr=False)
    parallel: ParallelCommands = field(default_factory=ParallelCommands, compare=False, repr=False)
    clock: str = "cpu"
    knobs_taken: frozenset[str] = frozenset()

    @property
    def language(self) -> str:
        """The language of the sources, as ``-x`` names it; C++ if one of them is, or its compiler is."""
        of_flags = [flag.removeprefix("-x") for flag in self.flags.compile if flag.startswith("-x")]
        is_any = self.program.links_cplusplus or any(map(is_cplusplus, self.source_paths))
        return of_flags[-1] if of_flags else "c++" if is_any else "c"

    def default_space(self) -> Space:
        return self.space_with("default", ())

    def option_space(self) -> Space:
        return self.default_space()

    def space_with(self, base: BaseSpace | None, classes: Collection[ControlClass]) -> Space:
        asked = frozenset((*(SAFE if base else ()), *classes))
        looks = "environment" in asked and "environment" not in classes
        without = self._environment_in_use if looks else frozenset[str]()
        return cc_space(self.program, self._baseline, asked, without)

    @property
    def option_classes(self) -> Sequence[ControlClass]:
        return cc_classes(self.program, self._baseline)

    def says(self, option: str, beside: Sequence[str] = ()) -> bool:
        sources = tuple((*flags, *sorted(beside)) for flags in self._baseline.sources)
        baseline = BaselineFlags(self._baseline.compiler, sources)
        return baseline.says(option) or (
            self.program.name == "gcc"
            and all(
                is_in_effect(self.program.program, each, flags)
                for flags in baseline.sources
                for each in baseline.meant_by(option)
            )
        )

    def refused_option(self, options: Sequence[str]) -> str | None:
        first = refused([self.program.program, *self.flags.compile], options, self.language, self.rootdir)
        if first is None:
            return None
        option, output = first
        return f"{self.compiler.name} {self.compiler.version} does not take {option!r}: {first_error(output)}"

    def render(self, candidate: Candidate) -> ControlsFile:
        return render_options(candidate)

    def sources(self) -> Mapping[str, str]:
        return self._sources

    @cached_property
    def _sources(self) -> Mapping[str, str]:
        return self._digests()

    def sources_with(self, controls: ControlsFile) -> Mapping[str, str]:
        return self._digests(controls.data.decode("ascii").splitlines(), controls.knobs)

    def why_without_effect(self, *probes: Knobs) -> str | None:
        everything = self._read().everything
        own = {name for name in everything if self._reader.inside_rootdir(name) is not None}
        contents, others = map(self._reader.content, own), map(self._reader.content, everything - own)

        def at_the_end(macros: Knobs) -> list[str]:
            return [
                ask([*words, *options_of(macros), "-E", "-dM", source], cwd=self.rootdir).output
                for words, source in self._commands(macros)
            ]

        return why_idle(probes, contents, others, at_the_end)

    def build(self, controls: ControlsFile | None, out_dir: Path, *, timeout_s: float) -> BuildResult:
        return self._build(controls, out_dir, timeout_s, Links(), ParallelCommands())

    def build_together(self, controls: ControlsFile | None, out_dir: Path, *, timeout_s: float) -> BuildResult:
        return self._build(controls, out_dir, timeout_s, self.links, self.parallel)

    def _build(
        self, controls: ControlsFile | None, out_dir: Path, timeout_s: float, links: Links, parallel: ParallelCommands
    ) -> BuildResult:
        from pytest_compileiq.machine_code.elf import machine_code  # heavy, and workers need not build

        out_dir = out_dir.absolute()
        out_dir.mkdir(parents=True, exist_ok=True)
        commands = Commands(self.compiler.name, self.rootdir, out_dir, timeout_s, first_error)
        compilations = self._compilations(controls, out_dir)
        parallel.run(commands, [(argv, what) for argv, what, _ in compilations])
        objects = [made for _, _, made in compilations]
        output = out_dir / ("kernel.so" if self.output == "library" else "program")
        compiled_s = commands.seconds
        # A table of addresses reaches what production's own objects reach.
        code = machine_code(objects, self.functions.among, frozenset if self.by_table else lambda _names: ())
        entries, began_s = self._entries(code), commands.seconds
        table, words = table_of(commands, self.program.program, sorted(entries), objects) if self.by_table else ([], ())
        linked = [*objects, *table]
        argv = [self.program.program, *self.flags.link, *words, *map(str, linked), *self.flags.libraries]
        with naming_the_cplusplus_compiler(self.source_paths, self.program):
            try:
                links.link(linked, output, lambda: commands.run([*argv, "-o", str(output)], "the link"))
            except BuildError as error:
                raise explained(error, self.added) if self.by_table else error from None
        seconds = compiled_s + commands.seconds - began_s  # reading is no part of the compiler's time
        return BuildResult(output, entries, code.program.metrics, commands.log, seconds)

    def cacheable(self, controls: ControlsFile | None) -> CcBuild:
        options = (_NO_DATES, *(controls.data.decode("ascii").splitlines() if controls else ()))
        each = self._commands(controls.knobs if controls else NO_KNOBS)
        compilations = tuple(((*words, *options), source) for words, source in each)
        output = " ".join((TABLE, *self.added)) if self.by_table else self.output
        return CcBuild(self.program, compilations, self.flags, output, self.functions.patterns, self.rootdir)

    @property
    def versions(self) -> Sequence[Builder]:
        return (self, *map(self._with, self.larger))

    def _with(self, added: tuple[str, ...]) -> Self:
        """This builder, with these words added to production's command instead of its own."""
        unchanged = self.flags.compile[: len(self.flags.compile) - len(self.added)]
        flags = Flags((*unchanged, *added), self.flags.link, self.flags.libraries)
        compiler = replace(self.compiler, command=recorded_command(self.program, flags, self.source_paths, self.own))
        return replace(self, flags=flags, compiler=compiler, added=added, larger=(), links=Links())

    @property
    def loaded_with(self) -> Sequence[str]:
        is_own = self.output == "library" and not self.by_table
        return [word for word in _LOADABLE if is_own and word in self.flags.compile]

    def changed(self, timeout_s: float) -> LoadChange | None:
        if not self.added:
            return None
        from pytest_compileiq.machine_code.elf import altered_functions  # heavy

        with TemporaryDirectory() as name:
            folders = Path(name, "plain"), Path(name, "changed")
            because = "its code is bound to one address"
            for builder, folder in zip((self._with(()), self), folders, strict=True):
                try:
                    builder.build(None, folder, timeout_s=timeout_s)
                except BuildError as error:
                    because = error.refused
            altered, functions = altered_functions(*(sorted(folder.glob("*.o")) for folder in folders))
        return LoadChange(self.added, because, altered, functions)

    def count(self, built: BuildResult) -> BuildResult:
        from pytest_compileiq.toolchains.cc.instructions import with_instructions  # heavy: elftools

        return with_instructions(built, is_program=self.output == "executable")

    def licences(self) -> tuple[Licence, ...]:
        from pytest_compileiq.toolchains.cc.licences import licences_of_sources  # a plain run does without

        return licences_of_sources(self.program.name, self._commands(), self.rootdir)

    def remarks(self, _built: BuildResult) -> Sequence[str]:
        return self.left_out

    def options(self, controls: ControlsFile, path: Path) -> tuple[str, ...]:
        return (f"@{path}",)

    def load(self, built: BuildResult, used: set[str]) -> Any:
        if self.output == "executable":
            used.add("main")
            return built.path
        with naming_the_cplusplus_compiler(self.source_paths, self.program):
            return load_by_table(built, used, TABLE) if self.by_table else load_library(built, used)

    @cached_property
    def _baseline(self) -> BaselineFlags:
        return BaselineFlags.of(self.program.name, self.compiler.command)

    @cached_property
    def _environment_in_use(self) -> frozenset[str]:
        """The options that change what a source of the project names; a source that cannot be read never builds."""
        try:
            return named_by(map(self._reader.content, self._sources))
        except BuildError:
            return frozenset()

    def _compilations(self, controls: ControlsFile | None, out_dir: Path) -> Sequence[Compilation]:
        response: tuple[str, ...] = ()
        if controls is not None:
            response = self.options(controls, out_dir / "controls.rsp")
            (out_dir / "controls.rsp").write_bytes(controls.data)
        commands = self._commands(controls.knobs if controls else NO_KNOBS)
        compilations = []
        for number, (words, source) in enumerate(commands, start=1):
            made = out_dir / f"{number}-{Path(source).stem}.o"
            several = f" (source {number} of {len(commands)})" if len(commands) > 1 else ""
            argv = (*words, _NO_DATES, *response, "-c", source, "-o", str(made))
            compilations.append((argv, f"{source}{several}", made))
        return compilations

    def _entries(self, code: MachineCode) -> Mapping[str, CodeDigest]:
        if self.output == "executable":
            return {"main": code.program}
        if not code.entries:
            names, hides = ", ".join(self.source_paths), "-fvisibility=hidden" in self.compiler.command
            mend = " (flags='-fvisibility=default' shows what -fvisibility=hidden hides)" if hides else ""
            raise BuildError(
                f"{names}: exports no function; a kernel is neither static nor hidden{mend}", kind="compile"
            )
        return code.entries

    def _digests(self, words: Sequence[str] = (), knobs: Knobs = NO_KNOBS) -> dict[str, str]:
        own = sorted(self._read(words, knobs).own)
        return {name: sha256_hex(self._reader.content(name)) for name in own if not is_installed(name)}

    @cached_property
    def _reader(self) -> Reader:
        return Reader(self.compiler.name, self.rootdir)

    def _read(self, words: Sequence[str] = (), knobs: Knobs = NO_KNOBS) -> Read:
        return self._reader.read_by([(*command, *words, source) for command, source in self._commands(knobs)])

    def _commands(self, knobs: Knobs = NO_KNOBS) -> list[tuple[tuple[str, ...], str]]:
        """(the baseline's command without the macros that ``knobs`` define, source) of each source."""
        own = list(self.own.items()) or [(source, (self.program.program,)) for source in self.source_paths]
        return [(without_replaced((*begin, *self.flags.compile), knobs), source) for source, begin in own]
