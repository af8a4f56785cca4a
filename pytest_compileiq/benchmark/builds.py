"""The builds of one benchmark: each set of controls is built once, here or on another machine; workers find them."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from queue import LifoQueue
from typing import Protocol
from weakref import WeakValueDictionary

import msgspec
from msgspec import Struct

from pytest_compileiq.benchmark.cached_builds import CACHED_METRICS, CachedBuild, CachedBuilds, Missed
from pytest_compileiq.errors import BuildError, Signal
from pytest_compileiq.model import BuildResult, CodeDigest, ControlsFile
from pytest_compileiq.system.files import Unfit, inside
from pytest_compileiq.timing.clock import Measures
from pytest_compileiq.toolchains.base import Builder, HostFlags


class MakerLost(Signal):
    """Who was to make a build is gone, or sends what is none: another one makes it, since a build is pure."""


class MadeElsewhere(Struct, frozen=True):
    """A build as it travels, with the fields of a ``BuildResult``."""

    path: str  # of the library, executable or cubin, relative to the build's folder
    code: dict[str, CodeDigest]
    metrics: dict[str, int]
    log: str
    seconds: float
    files: dict[str, bytes]  # relative path → content of all in the folder: more than one may be loaded


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
    """Lay a build that was made elsewhere into the folder ``home``, as if it had been made there."""
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


_RECORD = "result.json"


class Builds(Struct, frozen=True):
    """Builds of one benchmark under ``directory``, which lives as long as the run and is never shared between runs.

    Raises:
        BuildError: of ``get``, ``look`` and ``sources``: the build fails, now or when it was first tried.
    """

    builder: Builder  # the compiler on the kernel
    directory: Path  # where builds go, a subdirectory for each set of controls
    timeout_s: float  # bound on one build
    metrics: frozenset[str]  # the exact metrics that objectives take; what is slow to count is counted only for these
    cached: CachedBuilds | None = None  # the builds of other runs that may be taken instead; None where each is made
    makers: Callable[[Builds], Sequence[Maker]] | None = None  # who makes these builds elsewhere, just as here
    slots: AbstractContextManager[object] = msgspec.field(default_factory=nullcontext)  # shared by all searches
    _sources: dict[str, Mapping[str, str]] = msgspec.field(default_factory=dict)
    _found: dict[str, CachedBuild | Missed] = msgspec.field(default_factory=dict)
    _not_kept: dict[str, str] = msgspec.field(default_factory=dict)

    def get(self, controls: ControlsFile | None) -> BuildResult:
        """Build, or read what was built before."""
        return self._kept(controls, lambda home: self._found_or_made(controls, home))

    def _kept(self, controls: ControlsFile | None, make: Callable[[Path], BuildResult]) -> BuildResult:
        """What ``make`` made in the build's folder; its failure is kept, too."""
        home = self._home(controls)
        record = home / _RECORD
        if record.exists():
            return _read(record)
        try:
            built = make(home)
        except BuildError as error:
            _write(record, {"error": str(error), "kind": error.kind, "log": error.log, "refused": error.refused})
            raise
        _write(record, {"built": replace(built, path=Path(os.path.relpath(built.path, home)))})
        return built

    def made(self, controls: ControlsFile | None) -> Path:
        """The folder of this build, made now if it was not before; of a build that fails it says how.

        It holds no absolute path, so a copy of it is the build on another machine.
        """
        self.attempt(controls)
        return self._home(controls)

    def copied(self, controls: Iterable[ControlsFile | None], directory: Path) -> Builds:
        """These builds, of each of ``controls``, in ``directory``: files that no process has loaded."""
        for each in controls:
            shutil.copytree(self.made(each), directory / _name(each), dirs_exist_ok=True)
        return msgspec.structs.replace(self, directory=directory)

    def look(self, controls: ControlsFile | None) -> BuildResult:
        """As ``get``, but the built file of what the build cache has need not be there: most are not opened."""
        found = self._find(controls, self._home(controls))
        return found.built if isinstance(found, CachedBuild) else self.get(controls)

    @property
    def why_not_kept(self) -> str | None:
        """Why the build cache does not keep a build that was made, by a compiler that it knows; else None."""
        return next(iter(self._not_kept.values()), None)

    def is_cached(self, controls: ControlsFile | None) -> bool:
        """Whether the build cache has it."""
        return isinstance(self._find(controls, self._home(controls)), CachedBuild)

    def can_be_loaded(self) -> bool:
        """Whether the baseline's objects can be; if not, its place is free for a build that stands in."""
        failure = self.attempt(None)
        if not (isinstance(failure, BuildError) and failure.refused):
            return True
        shutil.rmtree(self._home(None))
        return False

    def sources(self, controls: ControlsFile | None) -> Mapping[str, str]:
        """Path → SHA-256 of every project file that the compiler reads with ``controls``."""
        known = self._sources.get(_name(controls))
        if known is not None:
            return known
        return self.builder.sources() if controls is None else self.builder.sources_with(controls)

    @property
    def _is_all_cached(self) -> bool:
        """Whether the build cache holds all metrics that objectives take."""
        return not self.builder.counts or self.metrics <= CACHED_METRICS

    def _home(self, controls: ControlsFile | None) -> Path:
        return self.directory / _name(controls)

    def _find(self, controls: ControlsFile | None, home: Path) -> CachedBuild | Missed:
        """What the build cache has; it is asked once."""
        name = _name(controls)
        if name not in self._found:
            found = self.cached.find(self.builder, controls, home) if self.cached and self._is_all_cached else None
            self._found[name] = found
            if isinstance(found, CachedBuild):
                self._sources[name] = found.entry.sources
                self._note(controls, None)
        return self._found[name]

    def _found_or_made(self, controls: ControlsFile | None, home: Path) -> BuildResult:
        found = self._find(controls, home)
        if isinstance(found, CachedBuild):
            return found.put()

        def make() -> BuildResult:
            return self.builder.build_together(controls, home, timeout_s=self.timeout_s)

        if self.cached is None or not self._is_all_cached:
            built = make()
        else:
            made = self.cached.make(self.builder, controls, found, make)
            if made.sources is not None:
                self._sources[_name(controls)] = made.sources
            if self.builder.is_modelled:  # of others it is no news
                self._note(controls, made.why_not_kept)
            built = made.built
        return built if self.metrics <= built.metrics.keys() else self.builder.count(built)

    def _note(self, controls: ControlsFile | None, why_not_kept: str | None) -> None:
        if self.cached is not None:
            self.cached.cache.note(f"{self.directory.name}-{'tuned' if controls else 'baseline'}", why_not_kept)
        if why_not_kept is not None:
            self._not_kept[_name(controls)] = why_not_kept

    def attempt(self, controls: ControlsFile | None) -> BuildResult | BuildError:
        """As ``get``, but a failure is returned."""
        try:
            return self.get(controls)
        except BuildError as error:
            return error

    def attempt_by(self, maker: Maker, controls: ControlsFile) -> BuildResult | BuildError:
        """As ``attempt``, of a build that ``maker`` makes where it was not made before.

        Raises:
            MakerLost: it is not made.
        """
        try:
            return self._kept(controls, lambda home: put(maker.make(controls), home))
        except BuildError as error:
            return error


def loadable(several: Sequence[Builds]) -> Builds:
    """The first of ``several`` whose baseline can be loaded, or fails for another reason; else the first."""
    if len(several) == 1:
        return several[0]
    # Of the same inputs, an earlier run has found out.
    known = next((builds for builds in several if builds.is_cached(None)), None)
    return known or next((builds for builds in several if builds.can_be_loaded()), several[0])


class BuildQueue:
    """Builds under way, in the order they were begun; equal controls are built once.

    They are made on ``jobs`` threads here, and by everybody who makes builds of this benchmark elsewhere.
    """

    def __init__(self, builds: Builds, jobs: int) -> None:
        self._builds = builds
        makers = builds.makers(builds) if builds.makers else ()
        self._free: LifoQueue[Maker | None] = LifoQueue()
        for maker in (*makers, *(None,) * jobs):
            self._free.put(maker)
        self._pool = ThreadPoolExecutor(jobs + len(makers))
        self._under_way: WeakValueDictionary[str, Future[BuildResult | BuildError]] = WeakValueDictionary()

    def begin(self, controls: ControlsFile) -> Future[BuildResult | BuildError]:
        """Build as soon as a thread is free."""
        if (future := self._under_way.get(controls.key)) is None:
            future = self._pool.submit(self._attempt, controls)
            self._under_way[controls.key] = future
        return future

    def close(self) -> None:
        """Forget what has not begun, wait for what has."""
        self._pool.shutdown(cancel_futures=True)

    def _attempt(self, controls: ControlsFile) -> BuildResult | BuildError:
        """Have it built by whoever is free; what is lost with its maker is made by another one."""
        while True:
            maker = self._free.get()
            try:
                if maker is None:
                    with self._builds.slots:
                        built = self._builds.attempt(controls)
                else:
                    built = self._builds.attempt_by(maker, controls)
            except MakerLost:
                continue  # and its place is not given to anyone again
            except BaseException:
                self._free.put(maker)
                raise
            self._free.put(maker)
            return built


def _name(controls: ControlsFile | None) -> str:
    return controls.key[:32] if controls else "baseline"


def _write(record: Path, content: object) -> None:
    record.parent.mkdir(parents=True, exist_ok=True)
    partial = record.with_suffix(".tmp")
    partial.write_bytes(msgspec.json.encode(content, enc_hook=str))
    partial.replace(record)


@lru_cache(maxsize=64)  # a record is written once, and that of the baseline is read for every candidate
def _read(record: Path) -> BuildResult:
    content = json.loads(record.read_text(encoding="utf-8"))
    if "error" in content:
        raise BuildError(content["error"], kind=content["kind"], log=content["log"], refused=content["refused"])
    built = content["built"]
    code = {entry: CodeDigest(**digest) for entry, digest in built["code"].items()}
    return BuildResult(**{**built, "path": record.parent / built["path"], "code": code})


class Afar(Struct, frozen=True):
    """What is not done on this machine."""

    # Gives those who make a benchmark's builds elsewhere too; None where nobody does.
    makers: Callable[[Builds], Sequence[Maker]] | None = None
    # What flags that name the host mean on the machine of the device; None where that is this one.
    host_flags: HostFlags | None = None
    # Kind → what is measured on; empty where that is this machine.
    measures: Mapping[str, Measures] = msgspec.field(default_factory=dict)


HERE = Afar()
