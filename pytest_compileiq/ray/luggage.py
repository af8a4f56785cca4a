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

from pytest_compileiq.ray.device_actor import BUILDS
from pytest_compileiq.ray.remote_files import FileSet, expect_own_code, pack_project, packed
from pytest_compileiq.system.process import Guard
from pytest_compileiq.workers.start import LIBRARIES


class Ask(Protocol):
    """Calls a method of an actor."""

    def __call__(self, method: str, *arguments: object) -> object: ...


@dataclass
class RemoteFiles:
    """The files of one run."""

    root: Path  # of the project
    guard: Guard  # of the run, which holds its builds
    say: Callable[[str], None]  # tells the user one line
    _project: FileSet | None = None
    _packing: threading.Lock = field(default_factory=threading.Lock)

    def project(self) -> FileSet:
        """The project as it was when it was first asked for, so that all nodes have the same."""
        with self._packing:
            if self._project is None:
                expect_own_code(self.root, LIBRARIES)
                self._project = pack_project(self.root, self.guard.folder / "project", self.say)
            return self._project

    @contextmanager
    def build(self, folder: Path) -> Iterator[tuple[FileSet, str]]:
        """A build, and its folder's path below that of all builds."""
        names = sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file())
        contents = Path(tempfile.mkdtemp(dir=self.guard.folder, prefix="sent-"))
        try:
            yield packed(folder, names, contents), folder.relative_to(self.guard.folder).as_posix()
        finally:
            shutil.rmtree(contents, ignore_errors=True)


@dataclass
class SentFiles:
    """What one actor has been given of it, each thing once, however many threads ask for it."""

    luggage: RemoteFiles
    ask: Ask  # calls a method of the actor, a workers.device.DeviceActor; what it raises is raised here
    _is_settled: bool = False
    _brought: set[Path] = field(default_factory=set)
    _delivering: threading.Lock = field(default_factory=threading.Lock)

    def settle(self) -> None:
        """Bring the project."""
        with self._delivering:
            if not self._is_settled:
                self._deliver(self.luggage.project(), "settle")
                self._is_settled = True

    def bring(self, build: Path) -> None:
        """Bring a build, a folder of the run's."""
        with self._delivering:
            if build not in self._brought:
                with self.luggage.build(build) as (parcel, place):
                    self._deliver(parcel, "unpack", f"{BUILDS}/{place}")
                self._brought.add(build)

    def _deliver(self, parcel: FileSet, method: str, *arguments: object) -> None:
        for message in parcel.messages():
            self.ask("take", message)
        self.ask(method, parcel.manifest(), *arguments)
