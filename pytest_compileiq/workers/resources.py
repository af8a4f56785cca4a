"""What a run holds while it goes on: its folder, its builds, its workers, its cluster. All of it ends with the run."""

from __future__ import annotations

import secrets
import tempfile
import threading
from collections.abc import Sequence
from contextlib import suppress
from functools import cached_property
from pathlib import Path

import pytest

from pytest_compileiq import rooms
from pytest_compileiq.benchmark.benchmark import TunedBenchmark, make_benchmark
from pytest_compileiq.benchmark.builds import HERE
from pytest_compileiq.benchmark.cached_builds import CachedBuilds
from pytest_compileiq.config import Settings
from pytest_compileiq.errors import CompileIQError
from pytest_compileiq.store.build_cache import BuildCache
from pytest_compileiq.system.printing import Terminal
from pytest_compileiq.system.process import Guard
from pytest_compileiq.system.wait import ToldWait
from pytest_compileiq.workers.local import LocalTransport
from pytest_compileiq.workers.messages import Start
from pytest_compileiq.workers.pool import Pool
from pytest_compileiq.workers.start import start_of
from pytest_compileiq.workers.transport import Transport, Transports


class Resources:
    """What one run holds; each part begins when it is first asked for."""

    def __init__(self, config: pytest.Config, settings: Settings) -> None:
        self.items: Sequence[pytest.Item] = ()  # the tuned tests of the run
        self._config = config
        self._settings = settings
        self._slots = threading.BoundedSemaphore(settings.jobs)
        self._remote: Transports | None = None

    @cached_property
    def pools(self) -> Sequence[Pool]:
        """A pool for each device of the run.

        Raises:
            EnvironmentFault, OSError: the cluster that was asked for is not there, or has no device to use.
        """
        start = start_of(self._config, [item.nodeid for item in self.items])
        return [Pool(start, transport, self._settings.lock_clocks) for transport in self._transports(start)]

    def first_pool(self) -> Pool:
        """The pool of the run's first device; raises as ``pools``."""
        return self.pools[0]

    def benchmark(self, item: pytest.Item) -> TunedBenchmark:
        """``item`` as it is built and measured in this run; raises as ``make_benchmark``."""
        afar = self._remote.afar(item.nodeid) if self._remote is not None else HERE
        return make_benchmark(
            item, rootdir=self._settings.rootdir, build_dir=self._guard.folder, cached=self._cached_builds,
            slots=self._slots, jobs=self._settings.jobs, afar=afar,
        )  # fmt: skip

    def close_transport(self) -> None:
        """End the cluster, and so what is under way on its devices."""
        if self._remote is not None:
            self._remote.close()

    def close(self) -> None:
        """End every worker, remove the run's builds, and trim what was kept of them."""
        held = vars(self)
        for pool in held.pop("pools", ()):
            pool.close()
        self.close_transport()
        self._remote = None
        if "_guard" in held:
            held.pop("_guard").close()
        if (cached := held.pop("_cached_builds", None)) is not None:
            cached.close()

    @cached_property
    def _guard(self) -> Guard:
        """It removes the run's own directory, however the run ends."""
        return Guard(Path(tempfile.gettempdir()) / f"compileiq-{secrets.token_hex(8)}")

    @cached_property
    def _cached_builds(self) -> CachedBuilds | None:
        """The build cache for a normal run; a search builds what no other run will ask for."""
        settings = self._settings
        if settings.tune or settings.calibrate or settings.check == "off":
            return None
        return CachedBuilds(BuildCache(settings.rootdir), rebuilds=settings.check == "rebuild")

    def _transports(self, start: Start) -> Sequence[Transport]:
        root, guard, where = self._config.rootpath, self._guard, self._settings.where
        say = Terminal(self._config).say
        if where is None:
            return [LocalTransport(root, guard, guard.folder, ToldWait(say))]
        transports: Transports = rooms.transport().open_transport(root, guard, where, say, start, self._kinds())
        self._remote = transports
        return transports.each

    def _kinds(self) -> frozenset[str]:
        """The kinds of devices that the run measures on, as far as its tests can be read."""
        kinds = set[str]()
        for item in self.items:
            with suppress(CompileIQError):
                benchmark = make_benchmark(item, rootdir=self._settings.rootdir, build_dir=self._guard.folder)
                timed = (objective for objective in benchmark.spec.objectives if not objective.exact)
                kinds |= {benchmark.device_kind(objective.metric) for objective in timed}
        return frozenset(kinds)
