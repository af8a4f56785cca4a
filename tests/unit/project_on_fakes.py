"""A project of one benchmark that is tuned and replayed on fakes: what tests of several rooms share."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from pytest_compileiq import choice, literal
from pytest_compileiq.config import Budget
from pytest_compileiq.outcome import ItemReport
from pytest_compileiq.replay.committed import Integrity
from pytest_compileiq.replay.run import Replay
from pytest_compileiq.store.store import Store
from pytest_compileiq.testing.fakes import (
    FakeBuilder,
    FakePool,
    FakeProgress,
    by_options,
    fake_benchmark,
    fake_settings,
)
from pytest_compileiq.tuning.run import tune

FAKE = "fake-fake1"
SPACE = {"-O": choice([2, 3], knockout_prob=0.5), "-fast": literal("", knockout_prob=0.5)}
GAIN = by_options({"-fast": 8e-4})
GCC = replace(FakeBuilder.compiler, name="gcc")


class WithoutLicences(FakeBuilder):
    """One that tells that neither its baseline nor its source lets it change bits."""

    def licences(self):
        return ()


def measuring(acf) -> None:
    acf.build().load()
    acf.measure(lambda: None)


class ProjectOnFakes:
    """A project of one benchmark."""

    def __init__(self, root: Path, **marker) -> None:
        self.root = root
        self.marker = {"space": SPACE, **marker}
        self.store = Store(root / "acf")
        self.runs = 0
        (root / "kernel.src").write_text(FakeBuilder().source)

    def benchmark(self, builder=None, **marker):
        self.runs += 1
        builds = self.root.parent / f"{self.root.name}-builds-{self.runs}"
        return fake_benchmark(self.root, builder or FakeBuilder(), builds_in=builds, **(self.marker | marker))

    def tune(self, pool=None, builder=None, evaluations=12) -> ItemReport:
        settings = fake_settings(self.root, budget=Budget(evaluations=evaluations))
        pool = pool or FakePool(seconds=GAIN)
        return tune(self.benchmark(builder), settings=settings, store=self.store, pool=pool, progress=FakeProgress())

    def replay(self, pool=None, builder=None, *, body=measuring, marker=None, **settings):
        benchmark = self.benchmark(builder, **(marker or {}))
        pool = pool or FakePool(seconds=GAIN)
        run = Replay(
            benchmark, fake_settings(self.root, **settings), Integrity(benchmark, self.store), body, lambda: pool
        )
        return run.run()
