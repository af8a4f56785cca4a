"""What a race is on: a kernel, a space, and one or two numbers to make small."""

import hashlib
import math
import statistics
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, cached_property
from typing import Literal

import numpy as np

from pytest_compileiq.model import FailureKind, Knobs, KnobValue
from pytest_compileiq.space import Space
from pytest_compileiq.space.constraints import Predicate, Where
from pytest_compileiq.toolchains.base import Place
from pytest_compileiq.toolchains.cc.builder import resolve
from pytest_compileiq.toolchains.cc.marker import Cc
from race_build import BASELINE, BENCH, Build, Kernel, Source, Workshop

Metric = Literal["code_bytes", "executed", "time"]
PROCESSES = 8  # that time a machine code: every other one is what engines are told from, the rest judge what they hold
SAMPLES = 3  # of each process
WORSE = math.log(1.25)  # how much worse than the baseline the reference point of a hypervolume is, in each number
FAILURES: Mapping[str, FailureKind] = {"wrong": "wrong", "crash": "crash", "timeout": "timeout"}


@dataclass(frozen=True)
class Measured:
    """One machine code's numbers as log-ratios to the baseline's, one entry an objective.

    Attributes:
        drawn_from: processes, of which a race is told the mean of two; a single entry where a number is exact.
        judged: what an engine that holds it for best is judged by: of a time, processes that no engine was told of.
        seconds: the processor time of the measurement when it was made.
    """

    drawn_from: tuple[Sequence[float], ...]
    judged: tuple[float, ...]
    seconds: float

    def told(self, code: str, seed: int) -> tuple[float, ...]:
        """The scores that a race of ``seed`` is told: the same in each engine's race, since machine code decides."""
        noise = np.random.default_rng([seed, int(code[:12], 16)])
        return tuple(float(noise.choice(scores, min(2, len(scores)), False).mean()) for scores in self.drawn_from)


@dataclass(frozen=True)
class Objective:
    """One or two metrics of one source over one space; lower is better."""

    name: str
    source: Source
    metrics: tuple[Metric, ...]
    space: Space

    @property
    def digest(self) -> str:
        """A digest of what the objective is: its source, how it is called, its numbers and its space."""
        files = [self.source.path, *([self.source.driver] if self.source.driver else [])]
        parts = [*(path.read_bytes() for path in files), "+".join(self.metrics).encode(), self.space.digest.encode()]
        return hashlib.sha256(b"\0".join(parts)).hexdigest()

    def opened(self, workshop: Workshop) -> "Opened":
        return Opened(self, Kernel(workshop, self.source))


class Opened:
    """An objective whose candidates can be built and measured."""

    def __init__(self, objective: Objective, kernel: Kernel) -> None:
        self.objective = objective
        self.kernel = kernel
        self._measured: dict[str, Measured | FailureKind] = {}

    @cached_property
    def identity(self) -> str:
        """Changes with all that a race on it depends on, engines apart."""
        kernel = self.kernel.identity if self.objective.metrics == ("code_bytes",) else self.kernel.measured_identity
        return f"{kernel} {'+'.join(self.objective.metrics)} {self.objective.space.digest} {PROCESSES} x {SAMPLES}"

    def build(self, knobs: Knobs) -> Build:
        return self.kernel.build(knobs)

    def measured(self, build: Build) -> Measured | FailureKind:
        """The numbers of a build that succeeded, or why it has none."""
        assert build.code is not None
        if build.code not in self._measured:
            self._measured[build.code] = self._numbers(build)
        return self._measured[build.code]

    def _numbers(self, build: Build) -> Measured | FailureKind:
        drawn_from: list[Sequence[float]] = []
        judged: list[float] = []
        seconds = 0.0
        for metric in self.objective.metrics:
            raw, cost_s = self._raw(metric, build)
            seconds += cost_s
            if isinstance(raw, str):
                return raw
            if metric == "time":
                processes = [statistics.median(map(math.log, taken)) for taken in batched(raw, SAMPLES)]
                drawn_from.append(processes[::2])
                judged.append(statistics.median(processes[1::2]))
            else:
                judged.append(math.log(raw[0] / self._baseline(metric)))
                drawn_from.append(judged[-1:])
        return Measured(tuple(drawn_from), tuple(judged), seconds)

    @cache  # noqa: B019  (one a process and objective)
    def _baseline(self, metric: Metric) -> float:
        raw, _ = self._raw(metric, self.build({}))
        assert not isinstance(raw, str)
        return raw[0]

    def _raw(self, metric: Metric, build: Build) -> tuple[list[float] | FailureKind, float]:
        if metric == "code_bytes":
            return [float(build.code_bytes)], 0.0
        assert build.code is not None
        said, seconds = self.kernel.answer(build.code, *((PROCESSES, SAMPLES) if metric == "time" else (1, 0)))
        verdict, *numbers = said.split()
        return ([float(number) for number in numbers] if verdict == "ok" else FAILURES[verdict]), seconds

    def close(self) -> None:
        self.kernel.close()


def batched(numbers: Sequence[float], size: int) -> Iterator[Sequence[float]]:
    return (numbers[begin : begin + size] for begin in range(0, len(numbers), size))


@cache
def gcc_space(level: str = "-O2") -> Space:
    """The default space of gcc, which keeps every value; without presets, of which not every engine could be told."""
    flags = " ".join((level, *(flag for flag in BASELINE if not flag.startswith("-O") and flag != "-fPIC")))
    return replace(resolve(Cc("race_serve.c", flags=flags), Place(BENCH, BENCH)).default_space(), presets=())


@cache
def options_space() -> Space:
    """``gcc_space`` at the level of the baseline: with ``-Os`` in reach, one option is nearly all of a size."""
    return replace(gcc_space(), genes=tuple(gene for gene in gcc_space().genes if gene.name != "-O"))


def with_macros(macros: Mapping[str, object]) -> Space:
    """gcc's default space with ``macros`` of the source before it."""
    return Space.merge(Space.from_mapping(macros), gcc_space())


def where(
    space: Space, text: str, allowed: Callable[[Mapping[str, KnobValue]], bool], defaults: Mapping[str, KnobValue]
) -> Space:
    """``space`` bounded by a predicate; ``defaults`` are the source's own values of macros that are off."""
    return space.bounded(Where((Predicate(allowed, text, text),), defaults))
