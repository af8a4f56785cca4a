"""Fakes for tests of order and failure: a compiler that compiles nothing, workers that run nothing.

They replace ``Builder`` and ``Pool`` in tests of which calls are made, in what order, and how failures are handled.
Real machine code and real times need tests with real compilers and workers.
"""

from __future__ import annotations

import signal
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

import msgspec
import pytest

from pytest_compileiq.benchmark.benchmark import TunedBenchmark
from pytest_compileiq.benchmark.body import Touched
from pytest_compileiq.benchmark.builds import Builds
from pytest_compileiq.benchmark.marker import read_marker
from pytest_compileiq.config import Budget, Settings
from pytest_compileiq.errors import BuildError, MarkerError
from pytest_compileiq.model import (
    Arm,
    BuildResult,
    Candidate,
    CodeDigest,
    Compiler,
    ControlsFile,
    Knobs,
    Workload,
    sha256_hex,
)
from pytest_compileiq.progress import SearchCounts
from pytest_compileiq.rules.calls import CallTimes, FirstCalls
from pytest_compileiq.rules.stress import Draw
from pytest_compileiq.samples import Conditions, SampleRow
from pytest_compileiq.space import Space, choice, literal
from pytest_compileiq.system.wait import Timer
from pytest_compileiq.timing.sampler import BlockPlan, sample_values
from pytest_compileiq.toolchains.base import Builder, Place
from pytest_compileiq.toolchains.options import parse_rendered
from pytest_compileiq.workers.messages import CheckTask, DrawTask, FirstCallsTask, LookTask, Task
from pytest_compileiq.workers.pool import EvaluationFailed, MeasuredBlock

FAKE_SPACE = Space.from_mapping({"-O": choice([1, 2, 3], knockout_prob=0.5), "-fast": literal("", knockout_prob=0.5)})
_COMPILER = Compiler("fake", "1.0.0", "fake 1.0.0", ("fake", "kernel.src"))
_TOUCHED = Touched(frozenset({"kernel"}), frozenset())
_CALLED = {CheckTask: "check", LookTask: "look", DrawTask: "draw", FirstCallsTask: "first_calls"}


def _text_of(controls: ControlsFile | None) -> str:
    return controls.data.decode("latin-1") if controls else ""


@dataclass(frozen=True)
class FakeBuilder(Builder):
    """A ``Builder`` with the machine code that ``code`` gives."""

    # Knobs → entry function → the text that stands for its machine code; its length is its `code_bytes`.
    code: Callable[[Knobs], Mapping[str, str]] = lambda knobs: {"kernel": repr(sorted(knobs.items()))}
    refusals: Mapping[str, str] = field(default_factory=dict)  # rendered options → the compiler's reason to refuse them
    # The rendered options of every build, in order; `""` is the baseline.
    built: list[str] = field(default_factory=list)
    source: str = "one"  # what the one source file holds
    compiler: Compiler = _COMPILER
    architecture: str = "fake"
    target: str = "fake-fake1"
    clock: str = "cpu"
    acf_line: str | None = None
    native: str | None = None
    knobs_taken: frozenset[str] = frozenset()

    def default_space(self) -> Space:
        return FAKE_SPACE

    def option_space(self) -> Space:
        return FAKE_SPACE

    def render(self, candidate: Candidate) -> ControlsFile:
        if any(isinstance(value, bool) for value in candidate.knobs.values()):
            raise MarkerError("a fake compiler's knob is no boolean")
        if candidate.blob is not None:
            return ControlsFile("blob", candidate.blob, dict(candidate.knobs))
        options = sorted(f"{name}{value}\n" for name, value in candidate.knobs.items() if name.startswith("-"))
        return ControlsFile("options", "".join(options).encode(), dict(candidate.knobs))

    def parse(self, kind: str, data: bytes, knobs: Knobs) -> ControlsFile:
        if kind == "blob":
            return ControlsFile("blob", data, dict(knobs))
        return parse_rendered(data, knobs, self.render)

    def sources(self) -> Mapping[str, str]:
        return {"kernel.src": sha256_hex(self.source.encode())}

    def build(self, controls: ControlsFile | None, out_dir: Path, *, timeout_s: float) -> BuildResult:
        text = _text_of(controls)
        self.built.append(text)
        if reason := self.refusals.get(text):
            raise BuildError(reason, kind="compile")
        blob = {"blob": text} if controls and controls.kind == "blob" else {}
        bodies = self.code({**controls.knobs, **blob} if controls else {})
        code = {name: CodeDigest(sha256_hex(body.encode()), {"code_bytes": len(body)}) for name, body in bodies.items()}
        return BuildResult(out_dir / "kernel", code, {"code_bytes": sum(map(len, bodies.values()))}, "", 0.001)

    def options(self, controls: ControlsFile, path: Path) -> tuple[str, ...]:
        return (f"@{path}",)

    def load(self, built: BuildResult, used: set[str]) -> Any:
        used |= built.code.keys()
        return built.path


@dataclass(frozen=True)
class FakeToolchain:
    """A marker's toolchain that resolves to ``builder``."""

    builder: FakeBuilder

    def resolve(self, place: Place) -> FakeBuilder:
        return self.builder


class FakeTimer(Timer):
    """A time that goes on by what is waited, at once."""

    waited = 0.0

    def now(self) -> float:
        return self.waited

    def wait_until(self, moment: float) -> None:
        self.waited += max(0.0, moment - self.now())


@dataclass
class FakePool:
    """A ``Pool`` with the runtimes that ``seconds`` gives, and a little noise, the same in every run."""

    # Controls (None: the baseline) → seconds of one call.
    seconds: Callable[[ControlsFile | None], float] = lambda controls: 1e-3
    # Rendered options → the failure of every check and block with them; `""` is the baseline.
    failures: Mapping[str, EvaluationFailed] = field(default_factory=dict)
    drops: Callable[[int], bool] = lambda quad: False  # quad's number → whether the device was disturbed in it
    noise: float = 1e-3  # relative standard deviation between slots
    # The look's number and its worker's number → the times of the measured call.
    times: Callable[[int, int], CallTimes | None] = lambda look, worker: None
    # `(what, worker, options)` in order: `prepare`, `check`, `block`, `look`, `draw`, `first_calls`, `discard`,
    # `close`.
    asked: list[tuple[str, int, str]] = field(default_factory=list)
    # Rendered options, worker and seed → what a draw gives, or how it fails; `""` is the baseline.
    draws: Callable[[str, int, int], Draw | EvaluationFailed] = lambda options, worker, seed: Draw()
    # Seed → what first calls of copies of the builds took.
    calls: Callable[[int], FirstCalls | None] = lambda seed: None
    # The index in `asked` from which on a Ctrl-C arrives, once, with what a body is asked; or None.
    interrupt_at: int | None = None
    touched: Touched = _TOUCHED  # what every body takes from `load()` and reads from `acf.params`
    conditions: Mapping[str, Conditions] = field(default_factory=dict)  # metric → how a GPU's clock took every block
    remarked: tuple[str, ...] = ()  # what its blocks say of their device
    crew: Any = None  # whose workers it has; several pools have one each
    devices: int = 1  # how many devices there are
    units: Callable[[int], str] = lambda number: ""  # worker → which of them it lives on; empty where it does not know
    timer: Timer = field(default_factory=FakeTimer)  # its time, in which a wait takes none
    _random: Random = field(default_factory=lambda: Random(0))

    def move_to(self, other: FakePool) -> None:
        """Have the workers of ``other``."""
        self.crew = other.crew

    def prepare(self, numbers: range, benchmark: TunedBenchmark) -> None:
        for number in numbers:
            self.asked.append(("prepare", number, ""))

    def ask(self, number: int, benchmark: TunedBenchmark, task: Task[Any]) -> Any:
        what = _CALLED[type(task)]
        self._ask(what, number, task.controls)
        if isinstance(task, LookTask):
            return self.times(sum(other == what for other, _, _ in self.asked) - 1, number)
        if isinstance(task, FirstCallsTask):
            return self.calls(task.seed)
        if not isinstance(task, DrawTask):
            return self.touched
        given = self.draws(_text_of(task.controls), number, task.seed)
        if isinstance(given, EvaluationFailed):
            raise given
        return given

    def block(
        self,
        number: int,
        benchmark: TunedBenchmark,
        arms: Mapping[Arm, ControlsFile | None],
        workload: Workload,
        plan: BlockPlan,
    ) -> MeasuredBlock:
        self._ask("block", number, arms["tuned"])
        device = {objective.metric: benchmark.device(objective.metric).name for objective in benchmark.timed_objectives}
        rows = [
            SampleRow(
                name, workload.name, metric, number, slot.quad, slot.slot, slot.arm, sample, value,
                self.drops(slot.quad), unit=self.units(number),
            )
            for metric, name in device.items()
            for slot in sample_values(
                msgspec.structs.replace(plan.of(metric), discard=False), lambda arm: self._seconds_of(arms[arm]),
                is_over=partial(plan.is_lost, metric),
            )
            for sample, value in enumerate(slot.values)
        ]  # fmt: skip
        return MeasuredBlock(rows, self.conditions, self.touched)

    def remarks(self, benchmark: TunedBenchmark) -> tuple[str, ...]:
        return self.remarked

    def discard(self, number: int) -> None:
        self.asked.append(("discard", number, ""))

    def close(self) -> None:
        self.asked.append(("close", 0, ""))

    def _ask(self, what: str, number: int, controls: ControlsFile | None) -> None:
        options = _text_of(controls)
        if self.interrupt_at is not None and len(self.asked) >= self.interrupt_at:
            self.interrupt_at = None
            signal.raise_signal(signal.SIGINT)
        self.asked.append((what, number, options))
        if failure := self.failures.get(options):
            raise failure

    def _seconds_of(self, controls: ControlsFile | None) -> float:
        return self.seconds(controls) * (1 + self._random.gauss(0, self.noise))


@dataclass
class FakeProgress:
    """Keeps every line that was said."""

    said: list[str] = field(default_factory=list)

    def evaluated(self, tally: SearchCounts, budget: Budget, shift: float | None) -> None:
        """Nothing to show."""

    def say(self, text: str) -> None:
        self.said.append(text)

    def done(self) -> None:
        """Nothing to clear."""


def by_options(seconds: Mapping[str, float], otherwise: float = 1e-3) -> Callable[[ControlsFile | None], float]:
    """Seconds by a part of the rendered options: ``{"-fast": 5e-4}``."""
    return lambda controls: next((value for part, value in seconds.items() if part in _text_of(controls)), otherwise)


def fake_benchmark(
    rootdir: Path, builder: FakeBuilder, *, builds_in: Path | None = None, **marker: Any
) -> TunedBenchmark:
    """A tuned benchmark named ``kernel``; ``marker`` are the arguments of ``tune()`` after the toolchain."""
    spec = read_marker(pytest.mark.tune(FakeToolchain(builder), **marker).mark, "test_kernel")
    exact = frozenset(objective.measured for objective in spec.objectives if objective.exact)
    builds = Builds(builder, builds_in or rootdir / "builds", spec.timeout_s, exact)
    return TunedBenchmark("test_kernel.py::test_kernel", spec, builder, builds, _body, (), rootdir, rootdir)


def fake_settings(rootdir: Path, **changes: Any) -> Settings:
    """The default settings of a run in ``rootdir``, but for seed 0, with ``changes``."""
    values: dict[str, Any] = {
        **dict.fromkeys(("tune", "new_only", "stale_only", "fresh"), False),
        **dict.fromkeys(("budget", "total", "engine", "start_from", "calibrate", "draw")),
        **dict.fromkeys(("report", "html", "arms")),
        "adopt": False,
        "ini_budget": Budget(evaluations=200), "trackers": (), "ini_engine": "random", "jobs": 1, "check": "auto",
        "stale": "fail", "missing": "fail", "orphans": "warn", "no_device": "replay", "inconclusive": "warn",
        "reduce": False, "lock_clocks": None, "where": None, "acf_dir": rootdir / "acf",
        "options": (), "ini_file": None, "rootdir": rootdir,
        "seed": 0,  # a run of a person tosses other coins every day, a test the same
    }  # fmt: skip
    return Settings(**values | changes)


def _body(acf: object) -> None:
    """A placeholder for the test function, which fakes never call."""
