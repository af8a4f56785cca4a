"""The outputs of nvcc's commands before ptxas, made once for builds that differ only from there on.

nvcc says itself what it would run. Where two builds have the same commands before ptxas, their folders apart, the
second takes what those of the first have left, and begins with ptxas. It is ptxas's controls that are searched the
most, and where headers are large ptxas takes a hundredth of a build.
"""

from __future__ import annotations

import re
import shlex
import shutil
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path

import msgspec

from pytest_compileiq.errors import BuildError
from pytest_compileiq.model import CodeDigest, sha256_hex
from pytest_compileiq.system.process import TAIL_BYTES
from pytest_compileiq.toolchains.steps import Commands

CONTROLS = "controls.acf"
LISTS = ("--dryrun", "--threads=1")  # with several, in any order and with files of random names
_UNASKED = 2  # builds of a folder before nvcc is asked what it would run: a replay makes no more
_WHOLE = 2  # builds, after these, before a front end is kept: where a macro is searched, few are made twice
_LISTED = re.compile(r"^#\$ (.*)$", re.MULTILINE)
_VARIABLE = re.compile(r"(\w+)=(.*)")
HERE = "\0"  # stands for the folder of a build

Compiled = tuple[str, Mapping[str, CodeDigest]]  # what the commands printed, and the machine code by entry


@dataclass(frozen=True)
class Dryrun:
    """The commands that nvcc would run, with the folder of the build left open.

    Attributes:
        environment: what it sets for its programs.
        before, behind: the commands before ptxas of any architecture, and ptxas with those behind it.
    """

    environment: Mapping[str, str]
    before: tuple[str, ...]
    behind: tuple[str, ...]

    @classmethod
    def read(cls, text: str, folder: Path) -> Dryrun | None:
        """Read ``nvcc --dryrun`` of a build in ``folder``; None if some is missing, or no ptxas is run."""
        if len(text.encode()) >= TAIL_BYTES:
            return None
        environment: dict[str, str] = {}
        commands: list[str] = []
        for line in _LISTED.findall(text):
            if variable := _VARIABLE.fullmatch(line):
                environment[variable[1]] = variable[2]
            else:
                commands.append(line.replace(str(folder), HERE))
        ptxas = [command for command in commands if command.startswith("ptxas ")]
        if not ptxas:
            return None
        last = commands.index(ptxas[-1])
        before = [command for command in commands[:last] if command not in ptxas]
        return cls(environment, tuple(before), (*ptxas, *commands[last + 1 :]))

    @property
    def commands(self) -> tuple[str, ...]:
        """All of them."""
        return *self.before, *self.behind

    @property
    def name(self) -> str:
        """Equal for the same commands before ptxas, in the same environment."""
        return sha256_hex(repr((sorted(self.environment.items()), self.before)).encode())

    @property
    def reads_controls(self) -> bool:
        """Whether a controls file is read before ptxas: equal commands then say nothing of its content."""
        return any(CONTROLS in command for command in self.before)

    def left_in(self, folder: Path) -> list[Path]:
        """The files in ``folder`` that the commands before ptxas make for those behind: no preprocessed text."""
        text = "\n".join(command for command in self.before if not command.startswith("rm "))
        named = [path for path in folder.iterdir() if path.is_file() and f'"{HERE}/{path.name}"' in text]
        return [path for path in named if path.suffix != ".ii"]

    def script(self, commands: Iterable[str], folder: Path) -> str:
        """Some of the commands, for a shell, as of a build in ``folder``."""
        exports = [f"export {name}={shlex.quote(value)}" for name, value in self.environment.items()]
        return "\n".join([*exports, *(command.replace(HERE, str(folder)) for command in commands), ""])


@dataclass(frozen=True)
class NvccBuild:
    """One build by nvcc."""

    commands: Commands  # runs its commands, within its time
    command: Callable[[Path], Sequence[str]]  # all of it, by the folder to build in, where it writes what it names
    code: Callable[[Path, str], Mapping[str, CodeDigest]]  # the machine code in a folder, by what was printed
    what: str  # the source, for messages

    @property
    def folder(self) -> Path:
        return self.commands.out_dir

    def alone(self, folder: Path | None = None) -> NvccBuild:
        """The same build with a log of its own, in ``folder`` or where it was."""
        commands = msgspec.structs.replace(self.commands, out_dir=folder or self.folder, log="")
        return replace(self, commands=commands)

    def listing(self) -> Dryrun | None:
        """nvcc's dry run; None where it is of no use."""
        with suppress(BuildError):  # the whole command says why
            printed = self.alone().commands.run([*self.command(self.folder), *LISTS], self.what)
            listed = Dryrun.read(printed, self.folder)
            return None if listed is None or listed.reads_controls else listed
        return None

    def whole(self) -> Compiled:
        log = self.commands.run(self.command(self.folder), self.what)
        return log, self.code(self.folder, log)

    def behind(self, listing: Dryrun, kept: Path) -> Compiled:
        """Run it from ptxas on, with ``kept`` files of the commands before."""
        for path in kept.iterdir():  # not linked: a whole build after this one would write through the link
            shutil.copyfile(path, self.folder / path.name)
        script = self.folder / "from-ptxas.sh"
        script.write_text(listing.script(listing.behind, self.folder), encoding="utf-8")
        log = self.commands.run(["/bin/sh", "-e", str(script)], self.what)
        return log, self.code(self.folder, log)


@dataclass
class _FrontEnd:
    """One front end, as far as this run knows it."""

    builds: int = 0
    is_tried: bool = False  # it is kept, or is not to be
    kept: Path | None = None


@dataclass
class FrontEnds:
    """The front ends of a run, kept beside its builds. Safe to use from several threads."""

    _builds: Counter[Path] = field(default_factory=Counter)  # by the folder that they lie in
    _known: dict[tuple[Path, str], _FrontEnd] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def __reduce__(self) -> tuple[type[FrontEnds], tuple[()]]:
        return FrontEnds, ()  # another process has its own

    def build(self, compilation: NvccBuild) -> Compiled:
        """Compile; what fails from ptxas on is compiled as a whole, for nvcc's own words."""
        home = compilation.folder.parent
        with self._lock:
            self._builds[home] += 1
            is_asked = self._builds[home] > _UNASKED
        listing = compilation.listing() if is_asked else None
        if listing is None:
            return compilation.whole()
        with self._lock:
            front_end = self._known.setdefault((home, listing.name), _FrontEnd())
            front_end.builds += 1
            tries = front_end.builds >= _WHOLE and not front_end.is_tried
            front_end.is_tried |= tries
        if front_end.kept is not None:
            try:
                return compilation.alone().behind(listing, front_end.kept)
            except BuildError as error:
                if error.kind == "timeout":
                    raise
            except OSError:
                pass  # what is kept has been removed
        try:
            compiled = compilation.whole()
        except BuildError:
            front_end.is_tried &= not tries  # the next one tries
            raise
        if tries:
            front_end.kept = _kept(compilation, listing, compiled)
        return compiled


def _kept(compilation: NvccBuild, listing: Dryrun, compiled: Compiled) -> Path | None:
    """Keep the front end of a whole build; None if compiling from there makes other code."""
    home = compilation.folder.parent / f"front-end-{listing.name[:16]}"
    kept, trial = home / "kept", home / "trial"
    try:
        kept.mkdir(parents=True)
        trial.mkdir()
        for path in listing.left_in(compilation.folder):
            shutil.copy(path, kept)
        compilation.command(trial)  # for what it writes there
        _, code = compilation.alone(trial).behind(listing, kept)
    except (BuildError, OSError):
        return None
    return kept if code == compiled[1] else None
