"""Which compiler builds the sources of a ``Cc``, and with which flags: the marker's, or those of production."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import chain
from pathlib import Path

import msgspec
from msgspec import Struct

from pytest_compileiq.errors import EnvironmentFault, MarkerError
from pytest_compileiq.toolchains.base import HostFlags, Place
from pytest_compileiq.toolchains.cc.compiler import CcCompiler, expect_machine_flags, find_compiler, without_native
from pytest_compileiq.toolchains.cc.flags import Flags, by_stage, split_flags
from pytest_compileiq.toolchains.cc.marker import Cc
from pytest_compileiq.toolchains.cc.production import NO_LTO, Production, production_commands
from pytest_compileiq.toolchains.installed import portable


class OwnCommand(Struct, frozen=True):
    """What one source is compiled by, and with which flags in front of those of all."""

    program: CcCompiler
    flags: tuple[str, ...]

    def resolved(self, host_flags: HostFlags) -> tuple[str, ...]:
        """The beginning of its command, with ``native`` replaced by what it means."""
        return (self.program.program, *without_native(self.flags, host_flags))


class CommandLine(Struct, frozen=True):
    """How the baseline is built.

    Attributes:
        program: the compiler of all sources that have none of their own; it links.
        flags: of all sources.
        own: source → its own command, if production compiles them in different ways.
        remarks: what of production's command was left out, in sentences.
    """

    program: CcCompiler
    flags: Flags
    own: Mapping[str, OwnCommand] = msgspec.field(default_factory=dict)
    remarks: tuple[str, ...] = ()

    def host_flags(self, told: HostFlags | None) -> HostFlags:
        """What each flag that names the host means: here, or as another machine has ``told``.

        Raises:
            EnvironmentFault: what it has told chooses no processor.
            MarkerError: a compiler has no ``native`` here.
        """
        if told is not None:
            return expect_machine_flags(told)
        meant = self.program.host_flags((*self.flags.compile, *self.flags.link))
        for command in self.own.values():
            meant |= command.program.host_flags(command.flags)
        return meant

    def flags_of(self, source: str) -> tuple[str, ...]:
        """All that ``source`` is compiled with."""
        return (*(self.own[source].flags if source in self.own else ()), *self.flags.compile)


def command_line(cc: Cc, sources: Sequence[str], place: Place) -> CommandLine:
    """How ``sources``, which are relative to rootdir, are built.

    Raises:
        EnvironmentFault: the compiler is not installed or does not answer.
        MarkerError: a flag cannot be used, or production's commands cannot be taken.
    """
    flags = split_flags(cc.flags, place)
    if cc.like is None:
        return CommandLine(find_compiler(cc.compiler or "gcc", place), flags)
    commands = production_commands(cc.like, sources, place, without_lto=NO_LTO in flags.compile)
    staged = [by_stage(command.flags, f"like={cc.like!r}") for command in commands]
    programs = [_program(cc, command, place) for command in commands]
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
    return CommandLine(_linker(cc, programs), together, {} if is_one else own, remarks)


def recorded_command(
    program: CcCompiler, flags: Flags, sources: Sequence[str], own: Mapping[str, Sequence[str]]
) -> tuple[str, ...]:
    """The command as an artifact records it."""
    name = Path(program.program).name
    each = [(Path(begin[0]).name, *begin[1:], source) for source, begin in own.items()]
    compiles = [*chain.from_iterable(each), "--then", *flags.compile] if own else [name, *flags.compile, *sources]
    return tuple(map(portable, (*compiles, "--link", *flags.link, *flags.libraries)))


def _program(cc: Cc, command: Production, place: Place) -> CcCompiler:
    try:
        return find_compiler(cc.compiler or command.compiler, place)
    except EnvironmentFault as error:
        raise EnvironmentFault(f"like={cc.like!r}: {error}") from error


def _linker(cc: Cc, programs: Sequence[CcCompiler]) -> CcCompiler:
    """The compiler that links: the one for C++, if there is one."""
    if len({(program.name, program.version) for program in programs}) > 1:
        listed = ", ".join(sorted({f"{program.program} ({program.version})" for program in programs}))
        raise MarkerError(f"like={cc.like!r} compiles the sources by {listed}: name one, as in compiler='gcc'")
    return next((program for program in programs if program.links_cplusplus), programs[0])


def _united(groups: Iterable[Sequence[str]]) -> tuple[str, ...]:
    """All words in order, each once."""
    return tuple(dict.fromkeys(chain.from_iterable(groups)))
