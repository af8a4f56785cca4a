"""Builds that another machine makes: who makes them, and how one comes back, by content and by relative paths."""

from __future__ import annotations

from pathlib import Path
from typing import Protocol

from msgspec import Struct

from pytest_compileiq.errors import Signal
from pytest_compileiq.model import BuildResult, CodeDigest, ControlsFile
from pytest_compileiq.system.files import Unfit, inside


class MakerLost(Signal):
    """Who was to make a build is gone, or sends what is none: another one makes it, since a build is pure."""


class MadeElsewhere(Struct, frozen=True):
    """A build as it travels.

    Attributes:
        path: of the library, executable or cubin, relative to the build's folder.
        code, metrics, log, seconds: as in ``BuildResult``.
        files: relative path → content of all that lies in the folder: what is loaded may be more than one file.
    """

    path: str
    code: dict[str, CodeDigest]
    metrics: dict[str, int]
    log: str
    seconds: float
    files: dict[str, bytes]


class Maker(Protocol):
    """Makes builds of one benchmark somewhere else, one at a time."""

    def make(self, controls: ControlsFile) -> MadeElsewhere:
        """The build with ``controls``.

        Raises:
            BuildError: the compiler there refuses it, as the one here would.
            MakerLost: there will be no answer.
        """


def collected(built: BuildResult, home: Path) -> MadeElsewhere:
    """The build in the folder ``home``, to be sent."""
    files = {path.relative_to(home).as_posix(): path.read_bytes() for path in home.rglob("*") if path.is_file()}
    return MadeElsewhere(
        built.path.relative_to(home).as_posix(), dict(built.code), dict(built.metrics), built.log, built.seconds, files
    )


def put(made: MadeElsewhere, home: Path) -> BuildResult:
    """Lay a build that was made elsewhere into the folder ``home``, as if it had been made there.

    Raises:
        MakerLost: a path in it leads out of ``home``, or its own file is missing.
    """
    home.mkdir(parents=True, exist_ok=True)
    try:
        places = {inside(home, name): data for name, data in made.files.items()}
        path = inside(home, made.path)
    except Unfit as reason:
        raise MakerLost(f"a path of its build {reason}") from reason
    if path not in places:
        raise MakerLost("its build is not among the files that it sent")
    for place, data in places.items():
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(data)
        place.chmod(0o755)
    return BuildResult(home / made.path, made.code, made.metrics, made.log, made.seconds)
