"""What actors on nodes that do not see this machine's files are given of them: the project, and builds."""

from __future__ import annotations

import shutil
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from pytest_compileiq.ray.device import BUILDS
from pytest_compileiq.ray.parcel import Parcel, packed
from pytest_compileiq.ray.project import expect_own_code, pack_project
from pytest_compileiq.system.process import Guard
from pytest_compileiq.workers.start import LIBRARIES


class Ask(Protocol):
    """Calls a method of an actor."""

    def __call__(self, method: str, *arguments: object) -> object: ...


@dataclass
class Luggage:
    """The files of one run.

    Attributes:
        root: of the project.
        guard: of the run, which holds its builds.
        say: tells the user one line.
    """

    root: Path
    guard: Guard
    say: Callable[[str], None]
    _project: Parcel | None = None
    _packing: threading.Lock = field(default_factory=threading.Lock)

    def project(self) -> Parcel:
        """The project as it was when it was first asked for, so that all nodes have the same.

        Raises:
            EnvironmentFault: it cannot travel, or what its tests import would not.
        """
        with self._packing:
            if self._project is None:
                expect_own_code(self.root, LIBRARIES)
                self._project = pack_project(self.root, self.guard.folder / "project", self.say)
            return self._project

    @contextmanager
    def build(self, folder: Path) -> Iterator[tuple[Parcel, str]]:
        """A build, and its folder's path below that of all builds.

        Raises:
            OSError: it cannot be read, or copied.
        """
        names = sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file())
        contents = Path(tempfile.mkdtemp(dir=self.guard.folder, prefix="sent-"))
        try:
            yield packed(folder, names, contents), folder.relative_to(self.guard.folder).as_posix()
        finally:
            shutil.rmtree(contents, ignore_errors=True)


@dataclass
class Deliveries:
    """What one actor has been given of it, each thing once, however many threads ask for it.

    Attributes:
        ask: calls a method of the actor, a ``workers.device.Device``; what it raises is raised here.
    """

    luggage: Luggage
    ask: Ask
    _is_settled: bool = False
    _brought: set[Path] = field(default_factory=set)
    _delivering: threading.Lock = field(default_factory=threading.Lock)

    def settle(self) -> None:
        """Bring the project.

        Raises:
            EnvironmentFault: it cannot travel.
        """
        with self._delivering:
            if not self._is_settled:
                self._deliver(self.luggage.project(), "settle")
                self._is_settled = True

    def bring(self, build: Path) -> None:
        """Bring a build, a folder of the run's.

        Raises:
            OSError: it cannot be read.
        """
        with self._delivering:
            if build not in self._brought:
                with self.luggage.build(build) as (parcel, place):
                    self._deliver(parcel, "unpack", f"{BUILDS}/{place}")
                self._brought.add(build)

    def _deliver(self, parcel: Parcel, method: str, *arguments: object) -> None:
        for message in parcel.messages():
            self.ask("take", message)
        self.ask(method, parcel.manifest(), *arguments)
