"""The command that production compiles a source with, as this package can run it: relocated, without its outputs."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import chain
from pathlib import Path

import msgspec
from msgspec import Struct

from pytest_compileiq.errors import EnvironmentFault, MarkerError
from pytest_compileiq.spelling import first_of
from pytest_compileiq.system.files import exists
from pytest_compileiq.toolchains.base import HostFlags, Place
from pytest_compileiq.toolchains.cc.compilation_database import (
    Checkout,
    Database,
    RecordedCommand,
    expanded,
    read_database,
)
from pytest_compileiq.toolchains.cc.compiler import CcCompiler, expect_machine_flags, find_compiler, without_native
from pytest_compileiq.toolchains.cc.flags import (
    MAY_BE_A_NAME,
    ONLY_COMPILES_WITH_VALUE,
    Flags,
    by_stage,
    joined_option,
    split_flags,
)
from pytest_compileiq.toolchains.cc.marker import Cc
from pytest_compileiq.toolchains.inputs import portable

NO_LTO = "-fno-lto"
_LAUNCHERS = frozenset({"ccache", "sccache", "distcc", "icecc", "buildcache"})
_MOST_LISTED = 6

# The options of gcc and clang whose value may be, or is, the next word.
_PATHS = (
    "-I", "-L", "-F", "-iquote", "-isystem", "-idirafter", "-include", "-imacros", "-isysroot", "-iprefix",
    "-iwithprefix", "-iwithprefixbefore", "-cxx-isystem", "-ivfsoverlay",
)  # fmt: skip
_PATHS_BEHIND_EQUALS = (
    "--sysroot=", "--gcc-toolchain=", "-fprofile-use=", "-fprofile-instr-use=", "-fprofile-sample-use=",
    "-fauto-profile=",
)  # fmt: skip
_JOINED = (*_PATHS, *_PATHS_BEHIND_EQUALS)
_VALUES = {"--sysroot": "--sysroot=", "--param": "--param=", "-target": "--target=", "--target": "--target="} | {
    option: option for option in ("-D", "-U", "-l", "-x", "-A")
}
_LEFT_OUT_WITH_VALUE = (
    "-o", "-MF", "-MT", "-MQ", "-MJ", "-aux-info", "-dumpbase", "-dumpbase-ext", "-dumpdir", "-serialize-diagnostics",
    "--serialize-diagnostics", "-index-store-path", "-T", "-u", "-z", "-e", "-rpath", "-Xlinker",
)  # fmt: skip

_FOR_ONE_TOOL = {"-Xpreprocessor": "-Wp,", "-Xassembler": "-Wa,"}

# Which stage runs, what is written beside the object, how messages look, and how a program is linked.
_LEFT_OUT = re.compile(
    r"-[cSEvQs]|-###|-pipe|--verbose|-save-temps.*|-M(?:M|D|MD|P|G|V|NO-MODULES)?|-M[FTQJ].+|-o.+|-Wp,-M.*|"
    r"-gsplit-dwarf|-fdeps-.*|-fdiagnostics-.*|-f(?:no-)?color-diagnostics|-fansi-escape-codes|-fdump-.*|"
    r"-fstack-usage|-fcallgraph-info.*|-ftime-report.*|-ftime-trace.*|-fsave-optimization-record.*|-Winvalid-pch|"
    r"-Wl,.*|-shared|-static|-pie|-no-pie|-static-pie|-rdynamic|-nostdlib|-nostartfiles|-nodefaultlibs"
)
_MAKES_ERRORS = re.compile(r"-Werror(?:=.*)?")  # a warning must not refuse a candidate
_LTO = re.compile(
    r"-flto(?:[-=].*)?|-f(?:no-)?fat-lto-objects|-fuse-linker-plugin|-fsplit-lto-unit|-fwhole-program-vtables"
)
_SWITCHES_LTO = re.compile(rf"{NO_LTO}|-flto(?:=.*)?")

_OTHER_PROGRAM = "it has other programs run than the compiler"
_PRECOMPILED = (
    "a precompiled header holds the code of one set of options; configure with "
    "-DCMAKE_DISABLE_PRECOMPILE_HEADERS=ON, or Meson's -Db_pch=false"
)
_UNUSABLE: Mapping[str, str] = {
    "-flto": "candidate options would not reach the code generation at link time; flags='-fno-lto' beside like= "
    "takes it out",
    "-include-pch": _PRECOMPILED,
    "-emit-pch": _PRECOMPILED,
    "-fmodule": "other commands build the modules; configure with -DCMAKE_CXX_SCAN_FOR_MODULES=OFF where the sources "
    "use none",
    "-fcxx-modules": "other commands build the modules",
    "-fplugin": _OTHER_PROGRAM,
    "-fpass-plugin": _OTHER_PROGRAM,
    "-load": _OTHER_PROGRAM,
    "-add-plugin": _OTHER_PROGRAM,
    "-plugin": _OTHER_PROGRAM,
    "-wrapper": _OTHER_PROGRAM,
    "--wrapper": _OTHER_PROGRAM,
    "-B": _OTHER_PROGRAM,
    "-specs": _OTHER_PROGRAM,
    "--specs": _OTHER_PROGRAM,
    "-cc1": "it is internal to the compiler",
}


class Production(Struct, frozen=True):
    """How production compiles one source; ``left_out`` are dropped words that say something, for a note."""

    compiler: str
    flags: tuple[str, ...]
    left_out: tuple[str, ...] = ()
    architectures: tuple[str, ...] = ()  # of CUDA: all that it compiles for


def production_commands(like: str, sources: Sequence[str], place: Place, *, without_lto: bool) -> list[Production]:
    """The command of each of ``sources``, which are relative to rootdir, from the database that ``like`` names."""

    def read(entry: RecordedCommand, checkout: Checkout) -> Production:
        return _read(entry, checkout, place.rootdir, without_lto)

    return [production_command(like, source, place, read) for source in sources]


def production_command(
    like: str, source: str, place: Place, read: Callable[[RecordedCommand, Checkout], Production]
) -> Production:
    """The one command of ``source`` among those that ``like`` names, as ``read`` takes it."""
    database = read_database(like, place)
    recorded = database.commands_of(source, place.rootdir)
    chosen = [(entry, checkout) for entry, checkout in recorded if database.choice in entry.text]
    try:
        taken = [(read(entry, checkout), entry) for entry, checkout in chosen]
    except MarkerError as error:
        raise MarkerError(f"like={database.like!r}: {source}: {error}") from error
    distinct: dict[object, tuple[Production, RecordedCommand]] = {}
    for production, entry in taken:
        distinct.setdefault((production.compiler, production.flags), (production, entry))
    if len(distinct) != 1:
        everything = [entry for entry, _ in recorded]
        raise MarkerError(_choose_one(database, source, list(distinct.values()), everything))
    return taken[0][0]


def _choose_one(
    database: Database,
    source: str,
    fitting: Sequence[tuple[Production, RecordedCommand]],
    recorded: Sequence[RecordedCommand],
) -> str:
    """The sentence for a source with no command of the chosen text, or several: what tells them apart."""
    if fitting:
        what = f"it is compiled in {len(fitting)} ways"
        common = set.intersection(*(set(production.flags) for production, _ in fitting))
        listed = [
            " ".join([_output(entry), *(flag for flag in production.flags if flag not in common)])
            for production, entry in fitting
        ]
    else:
        what = f"none of its commands holds {database.choice!r}"
        listed = list(map(_output, recorded))
    entries = [entry for _, entry in fitting] or recorded
    example = f"{database.like.removesuffix(f'#{database.choice}')}#{_telling(entries[0], entries[1:])}"
    return (
        f"like={database.like!r}: {source}: {what}: {'; '.join(first_of(listed, _MOST_LISTED))}. "
        f"Choose by a text that one command alone holds, as in like={example!r}"
    )


def _telling(entry: RecordedCommand, others: Sequence[RecordedCommand]) -> str:
    """A short text that the command of ``entry`` holds, and none of ``others`` if there is one."""
    parts = _output(entry).split("/")
    return next((part for part in parts if part and not any(part in other.text for other in others)), parts[0])


def output_of(entry: RecordedCommand) -> str:
    """The output that a command names, relative to its directory, if any."""
    return entry.output or dict(zip(entry.words, entry.words[1:], strict=False)).get("-o", "")


def _output(entry: RecordedCommand) -> str:
    return output_of(entry) or entry.directory


def _read(entry: RecordedCommand, checkout: Checkout, rootdir: Path, without_lto: bool) -> Production:
    launcher, (compiler, *words) = launched(expanded(entry, checkout, rootdir))
    if "/" in compiler:
        compiler = str(rootdir / checkout.path(compiler, entry.directory))
    options = list(_options(words))
    switches = [option for option, _ in options if _SWITCHES_LTO.fullmatch(option)]
    without_lto = without_lto or switches[-1:] == [NO_LTO]
    flags: list[str] = []
    left_out = [*launcher, *(checkout.text(word) for word in words if word.startswith("@"))]
    for option, value in options:
        if _LTO.fullmatch(option + value) and without_lto:
            left_out.append(option + value)
        elif _MAKES_ERRORS.fullmatch(option):
            left_out.append(option)
        elif not (option in _LEFT_OUT_WITH_VALUE or _LEFT_OUT.fullmatch(option)):
            flags += _here(option, value, entry, checkout, rootdir)
    for flag in flags:
        reason = next((reason for beginning, reason in _UNUSABLE.items() if flag.startswith(beginning)), None)
        if flag.startswith("-include") and exists(rootdir / f"{flag.removeprefix('-include')}.gch"):
            reason = reason or _PRECOMPILED
        if reason:
            raise MarkerError(f"its command has {flag!r}, which cannot be used: {reason}")
    return Production(compiler, tuple(flags), tuple(left_out))


def launched(words: Iterable[str]) -> tuple[list[str], list[str]]:
    """The words before the compiler, and the command from the compiler on."""
    command = list(words)
    known = next((n for n, word in enumerate(command) if Path(word).name not in _LAUNCHERS), len(command))
    if known == len(command):
        raise MarkerError("its command names no compiler")
    return [Path(word).name for word in command[:known]], command[known:]


def _options(words: Iterable[str]) -> Iterator[tuple[str, str]]:
    """(option as it is joined with its value, value) of each option; inputs are left out."""
    left = iter(words)
    for word in left:
        if word == "--":
            return
        if word in (*_PATHS, *_VALUES, *_LEFT_OUT_WITH_VALUE, *ONLY_COMPILES_WITH_VALUE, *_FOR_ONE_TOOL):
            value = next(left, None)
            if value is None:
                raise MarkerError(f"its command ends with {word}, which needs a value")
            yield _VALUES.get(word, word), value
        elif not word.startswith("-include-pch") and (joined := joined_option(word, _JOINED)):
            yield joined, word.removeprefix(joined)
        elif word.startswith("-") and word != "-":
            yield word, ""


def _here(option: str, value: str, entry: RecordedCommand, checkout: Checkout, rootdir: Path) -> list[str]:
    """An option with its value as this package writes them, paths relative to rootdir."""
    if option in (*_JOINED, "--sysroot="):
        path = checkout.path(value, entry.directory)
        by_name = option in MAY_BE_A_NAME and not exists(rootdir / path)
        return [option + (value if by_name and not value.startswith("/") else path)]
    value = checkout.text(value)
    if option in ONLY_COMPILES_WITH_VALUE:
        return [option, value]
    return [_FOR_ONE_TOOL.get(option, checkout.text(option)) + value]


class OwnCommand(Struct, frozen=True):
    """What one source is compiled by, and with which flags in front of those of all."""

    program: CcCompiler
    flags: tuple[str, ...]

    def resolved(self, host_flags: HostFlags) -> tuple[str, ...]:
        return (self.program.program, *without_native(self.flags, host_flags))


class CommandLine(Struct, frozen=True):
    """How the baseline is built: by ``program``, which links, with ``flags``, or each source by its ``own`` command."""

    program: CcCompiler
    flags: Flags
    own: Mapping[str, OwnCommand] = msgspec.field(default_factory=dict)
    remarks: tuple[str, ...] = ()

    def host_flags(self, told: HostFlags | None) -> HostFlags:
        """The meaning of each flag that names the host: here, or as another machine has ``told``."""
        if told is not None:
            return expect_machine_flags(told)
        meant = self.program.host_flags((*self.flags.compile, *self.flags.link))
        for command in self.own.values():
            meant |= command.program.host_flags(command.flags)
        return meant

    def flags_of(self, source: str) -> tuple[str, ...]:
        return (*(self.own[source].flags if source in self.own else ()), *self.flags.compile)


def command_line(cc: Cc, sources: Sequence[str], place: Place) -> CommandLine:
    """How ``sources``, which are relative to rootdir, are built."""
    flags = split_flags(cc.flags, place)
    if cc.like is None:
        return CommandLine(find_compiler(cc.compiler or "gcc", place), flags)
    commands = production_commands(cc.like, sources, place, without_lto=NO_LTO in flags.compile)
    staged = [by_stage(command.flags, f"like={cc.like!r}") for command in commands]
    try:
        programs = [find_compiler(cc.compiler or command.compiler, place) for command in commands]
    except EnvironmentFault as error:
        raise EnvironmentFault(f"like={cc.like!r}: {error}") from error
    if len({(program.name, program.version) for program in programs}) > 1:
        listed = ", ".join(sorted({f"{program.program} ({program.version})" for program in programs}))
        raise MarkerError(f"like={cc.like!r} compiles the sources by {listed}: name one, as in compiler='gcc'")
    linker = next((program for program in programs if program.links_cplusplus), programs[0])
    own = {
        source: OwnCommand(program, stage.compile)
        for source, program, stage in zip(sources, programs, staged, strict=True)
    }
    is_one = len(set(own.values())) == 1
    together = Flags(
        (*(staged[0].compile if is_one else ()), *flags.compile),
        _united(stage.link for stage in [*staged, flags]),
        _united(stage.libraries for stage in [*staged, flags]),
    )
    left_out = _united(command.left_out for command in commands)
    remarks = (f"like={cc.like!r}: taken without {', '.join(left_out)}",) if left_out else ()
    return CommandLine(linker, together, {} if is_one else own, remarks)


def recorded_command(
    program: CcCompiler, flags: Flags, sources: Sequence[str], own: Mapping[str, Sequence[str]]
) -> tuple[str, ...]:
    """The command as an artifact records it."""
    name = Path(program.program).name
    each = [(Path(begin[0]).name, *begin[1:], source) for source, begin in own.items()]
    compiles = [*chain.from_iterable(each), "--then", *flags.compile] if own else [name, *flags.compile, *sources]
    return tuple(map(portable, (*compiles, "--link", *flags.link, *flags.libraries)))


def _united(groups: Iterable[Sequence[str]]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(chain.from_iterable(groups)))
