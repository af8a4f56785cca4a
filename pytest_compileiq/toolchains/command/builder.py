"""Builds with any compiler: runs the programs of a command template on one kernel."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatch
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal

from pytest_compileiq.errors import BuildError, EnvironmentFault, MarkerError
from pytest_compileiq.machine_code.elf import MachineCode, machine_code
from pytest_compileiq.machine_code.shared_library import load_library
from pytest_compileiq.machine_code.symbols import defined_functions, opened
from pytest_compileiq.model import (
    BuildResult,
    Candidate,
    CodeDigest,
    Compiler,
    ControlsFile,
    KnobValue,
    Target,
    sha256_hex,
)
from pytest_compileiq.system.cpu import this_architecture
from pytest_compileiq.toolchains.base import Builder, Place
from pytest_compileiq.toolchains.cc.flags import find_file
from pytest_compileiq.toolchains.command.marker import OPTIONS, Command, Template, read_template
from pytest_compileiq.toolchains.environment import deciding, set_here
from pytest_compileiq.toolchains.inputs import read_source
from pytest_compileiq.toolchains.macros import baseline_macros
from pytest_compileiq.toolchains.marker_values import named_values
from pytest_compileiq.toolchains.options import options_of
from pytest_compileiq.toolchains.steps import Commands, ask, find_program, telling_line

WHOLE = "output"
OutputKind = Literal["library", "executable", "file"]

# The C runtime's own functions, which every link adds. Missing one here makes replay stricter, never wrong.
_STARTUP = frozenset(
    {"_init", "_fini", "_start", "frame_dummy", "register_tm_clones", "deregister_tm_clones", "__do_global_dtors_aux",
     "_dl_relocate_static_pie", "__libc_csu_init", "__libc_csu_fini"}
)  # fmt: skip


def code_of(path: Path, output: OutputKind, pattern: str) -> MachineCode:
    """The machine code in objects beside ``path`` that match ``pattern``; its bytes if they do not hold all of it."""
    beside = sorted(file for file in path.parent.iterdir() if file.is_file() and fnmatch(file.name, pattern))
    objects = [path] if output == "file" else beside
    if not objects or not all(map(_is_object, objects)) or not _is_wholly_of(path, objects):
        data = path.read_bytes()
        whole = CodeDigest(sha256_hex(data), {"code_bytes": len(data)})
        return MachineCode({WHOLE: whole}, whole)
    code = machine_code(objects)
    if output == "library" and not code.entries:
        names = ", ".join(file.name for file in objects)
        raise BuildError(f"{names}: exports no function; a kernel is neither static nor hidden", kind="compile")
    if output == "executable":
        return MachineCode({"main": code.program}, code.program)
    return code if code.entries else MachineCode({WHOLE: code.program}, code.program)


def _is_object(path: Path) -> bool:
    try:
        with opened(path) as elf:
            return bool(elf["e_type"] == "ET_REL")
    except BuildError:
        return False


def _is_wholly_of(path: Path, objects: Sequence[Path]) -> bool:
    """Whether every function of ``path`` is in ``objects``: no digest would cover what the link adds from elsewhere."""
    try:
        known = _STARTUP.union(*(defined_functions(file, local=True) for file in objects))
        return defined_functions(path, local=True) <= known
    except BuildError:
        return False


_OUTPUTS = {"library": "kernel.so", "executable": "program", "file": "output"}
_RECORDED_CHARACTERS = 1500  # of a word; the metadata has room for 2000

_VERSION = re.compile(r"\d+(?:\.\d+)+")
_ARCHITECTURE = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,99}")
# The most telling pattern comes first. Many tools write no "error:", and LLVM's end with a guess at what was meant.
_TELLING = (re.compile(r"(?i)error:|fatal|undefined reference|cannot find"), re.compile(r"(?i)unknown|invalid|cannot"))


def resolve(command: Command, place: Place) -> CommandBuilder:
    """Implements ``pytest_compileiq.toolchains.command.marker.Command.resolve``."""
    _check_arguments(command)
    sources = tuple(find_file(name, place, f"Command(sources={name!r})") for name in command.sources)
    depends = tuple(find_file(name, place, f"Command(depends={name!r})") for name in command.depends)
    defines, macros = baseline_macros(command.defines, [], "Command")
    template = read_template(command.steps, dict(command.defaults or ()), len(sources), defines)
    programs = tuple(_find_program(step[0], place) for step in template.steps)
    version_command = _version_command(command, place) or (programs[0], "--version")
    name = re.sub(r"-\d[\d.]*$", "", Path(version_command[0]).name)  # opt-14 is opt
    handed_on = set_here(command.environment)
    version, build = _identify(version_command, place.rootdir, tuple(handed_on.items()))
    here = this_architecture()
    architecture = command.target or here
    runs_here = architecture == here or architecture.startswith(f"{here}-")
    line = re.sub(r"[^A-Za-z0-9.]", "_", name) + version.partition(".")[0]
    return CommandBuilder(
        compiler=Compiler(
            name=name,
            version=version,
            build=build,
            command=_recorded(template, sources),
            architecture_from="test" if command.target else "machine",
        ),
        architecture=architecture,
        target=Target.of(architecture, line),
        native=None if runs_here else f"it is compiled for {architecture}; this machine is {here}",
        template=template,
        programs=programs,
        source_paths=sources,
        depends=depends,
        output=command.output,
        objects=command.objects,
        rootdir=place.rootdir,
        baseline_params=macros,
        handed_on=handed_on,
    )


@dataclass(frozen=True)
class CommandBuilder(Builder):
    """A ``pytest_compileiq.toolchains.base.Builder``. The steps run in ``rootdir`` on relative sources."""

    compiler: Compiler
    architecture: str
    target: str
    native: str | None
    template: Template
    programs: tuple[str, ...]
    source_paths: tuple[str, ...]
    depends: tuple[str, ...]
    output: OutputKind
    objects: str
    rootdir: Path
    baseline_params: Mapping[str, KnobValue]
    handed_on: Mapping[str, str]
    clock: str = "cpu"

    @property
    def environment(self) -> Mapping[str, str]:
        return deciding(self.compiler.name, self.handed_on)

    @property
    def knobs_taken(self) -> frozenset[str]:
        return frozenset(self.template.defaults)

    def render(self, candidate: Candidate) -> ControlsFile:
        return self.template.render(candidate)

    def sources(self) -> Mapping[str, str]:
        names = sorted({*self.source_paths, *self.depends})
        return {name: sha256_hex(read_source(self.rootdir / name)) for name in names}

    def build(self, controls: ControlsFile | None, out_dir: Path, *, timeout_s: float) -> BuildResult:
        out_dir = out_dir.absolute()
        out_dir.mkdir(parents=True, exist_ok=True)
        out = out_dir / _OUTPUTS[self.output]
        places = {**_source_places(self.source_paths), "out_dir": (str(out_dir),), "out": (str(out),)}
        steps = self.template.words(controls.knobs if controls else {}, places)
        commands = Commands(self.compiler.name, self.rootdir, out_dir, timeout_s, _first_error, self.handed_on)
        for number, (program, words) in enumerate(zip(self.programs, steps, strict=True), start=1):
            commands.name = Path(program).name
            commands.run([program, *words[1:]], f"step {number}")
        seconds = commands.seconds
        if not out.is_file():
            raise BuildError(f"the steps end well and make no {{out}}: {out}", kind="compile", log=commands.log)
        code = code_of(out, self.output, self.objects)
        return BuildResult(out, code.entries, code.program.metrics, commands.log, seconds)

    def options(self, controls: ControlsFile, path: Path) -> tuple[str, ...]:
        return tuple(options_of(controls.knobs))

    def load(self, built: BuildResult, used: set[str]) -> Any:
        if self.output != "library" or set(built.code) == {WHOLE}:
            used.update(built.code)
        return load_library(built, used) if self.output == "library" else built.path


def _check_arguments(command: Command) -> None:
    for key, least in (("steps", 1), ("sources", 1), ("depends", 0), ("environment", 0)):
        value = getattr(command, key)
        if (
            not isinstance(value, tuple)
            or len(value) < least
            or not all(isinstance(text, str) and text for text in value)
        ):
            raise MarkerError(f"Command({key}={value!r}): expected a text or a list of texts")
    if named_values(command.defaults) is None:
        raise MarkerError(
            f"Command(defaults={command.defaults!r}): expected a dict, as in {{'pipeline': 'default<O2>'}}"
        )
    if command.output not in tuple(_OUTPUTS):
        raise MarkerError(f"Command(output={command.output!r}): expected 'library', 'executable' or 'file'")
    if not isinstance(command.objects, str) or "/" in command.objects:
        raise MarkerError(f"Command(objects={command.objects!r}): expected a pattern of names in {{out_dir}}: '*.o'")
    target = command.target
    if target is not None and (not isinstance(target, str) or not _ARCHITECTURE.fullmatch(target)):
        raise MarkerError(f"Command(target={target!r}): expected an architecture, as in 'x86-64-v3'")


def _find_program(program: str, place: Place) -> str:
    remedy = "install it (Debian has opt and llc in the package llvm), or name another in Command's steps"
    return find_program(program, place.test_dir, "program", remedy)


def _version_command(command: Command, place: Place) -> tuple[str, ...] | None:
    if command.version is None:
        return None
    try:
        words = shlex.split(command.version) if isinstance(command.version, str) else []
    except ValueError:
        words = []
    if not words:
        raise MarkerError(f"Command(version={command.version!r}): expected a command, as in 'opt --version'")
    return (_find_program(words[0], place), *words[1:])


@lru_cache(maxsize=64)
def _identify(argv: tuple[str, ...], rootdir: Path, environment: tuple[tuple[str, str], ...]) -> tuple[str, str]:
    """Version and build: the first number with a dot that ``argv`` prints, and the line that holds it."""
    answer = ask(argv, cwd=rootdir, environment=dict(environment))
    lines = (line.strip() for line in answer.output.splitlines())
    build = next((line for line in lines if _VERSION.search(line)), "")
    version = _VERSION.search(build)
    if answer.returncode != 0 or version is None:
        reply = _first_error(answer.output)
        raise EnvironmentFault(
            f"{shlex.join(argv)} does not say a version: it says {reply!r}; give Command(version='PROGRAM --version')"
        )
    return version[0], build[:_RECORDED_CHARACTERS]


def _recorded(template: Template, sources: tuple[str, ...]) -> tuple[str, ...]:
    """The baseline's steps as the metadata records them, with the places that each build fills left open."""
    still_open = {name: (f"{{{name}}}",) for name in ("out_dir", "out")} | {OPTIONS: (*template.defines, "{options}")}
    words: list[str] = []
    for step in template.words({}, {**_source_places(sources), **still_open}):
        words += [*(("&&",) if words else ()), Path(step[0]).name, *step[1:]]
    # A pass pipeline may be longer than the metadata can hold.
    return tuple(
        f"{word[:_RECORDED_CHARACTERS]}… (sha256 {sha256_hex(word.encode())})"
        if len(word) > _RECORDED_CHARACTERS
        else word
        for word in words
    )


def _source_places(sources: tuple[str, ...]) -> dict[str, tuple[str, ...]]:
    return {"source": sources[:1], "sources": sources}


def _first_error(output: str) -> str:
    return telling_line(output, *_TELLING)
