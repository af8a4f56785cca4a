"""One race: an engine on an objective, and what it held for best after each evaluation."""

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from typing import Any

from pytest_compileiq.engines.base import Brief, Engine, Told
from pytest_compileiq.model import Candidate, FailureKind
from race_figures import front, hypervolume
from race_objectives import WORSE, Build, Measured, Opened
from race_peers import opened


@dataclass(frozen=True)
class Moment:
    """What a race held for best at one time; seconds are processor time as it was when things were first made.

    Attributes:
        evaluation: how many candidates were measured or failed until then.
        value: the judged log-ratio of what is held to the baseline; of two objectives minus the hypervolume of what
            their front dominates, up to 25 % worse than the baseline in each.
        builds: candidates built until then.
        build_s, measure_s, engine_s: what builds, measurements and the engine itself took.
    """

    evaluation: int
    value: float
    builds: int
    build_s: float
    measure_s: float
    engine_s: float


@dataclass
class Race:
    """The moments at which what is held changed, and the last one of all."""

    moments: list[Moment] = field(default_factory=list)

    def as_json(self) -> list[dict[str, Any]]:
        return [asdict(moment) for moment in self.moments]

    @classmethod
    def from_json(cls, moments: Sequence[dict[str, Any]]) -> "Race":
        return cls([Moment(**moment) for moment in moments])


def run(name: str, objective: Opened, seed: int, evaluations: int) -> Race:
    """A race of ``evaluations``; deterministic in ``seed`` but for the seconds."""
    runner = _Runner(name, objective, seed, evaluations)
    while runner.evaluation < evaluations and runner.step():
        pass
    runner.note()
    return runner.race


class _Runner:
    def __init__(self, name: str, objective: Opened, seed: int, evaluations: int) -> None:
        self.race = Race()
        self.evaluation = 0
        self._objective, self._seed = objective, seed
        self._builds = 0
        self._build_s = self._measure_s = self._engine_s = 0.0
        self._tried: dict[str, Measured | FailureKind] = {}  # equal machine code is measured once, as in a real search
        self._told: dict[str, tuple[float, ...]] = {}
        self._held: frozenset[str] = frozenset()
        self._passed = 0
        metrics = objective.objective.metrics
        brief = Brief(objective.objective.space, seed, len(metrics), evaluations, [Candidate({})], metrics=metrics)
        with self._clocked():
            self._engine: Engine = opened(name, brief)

    def step(self) -> bool:
        """Evaluate what the engine wants next; False when it has nothing left."""
        results = self._asked()
        with self._clocked():
            self._engine.tell(results)
        return bool(results)

    def note(self) -> None:
        """Keep this moment."""
        value = self._value()
        moment = Moment(self.evaluation, value, self._builds, self._build_s, self._measure_s, self._engine_s)
        self.race.moments.append(moment)

    def _asked(self) -> list[Told]:
        with self._clocked():
            asked = self._engine.ask(1)
        return [self._evaluated(candidate, self._build(candidate)) for candidate in asked]

    def _build(self, candidate: Candidate) -> Build:
        build = self._objective.build(candidate.knobs)
        self._builds += 1
        self._build_s += build.seconds
        return build

    def _evaluated(self, candidate: Candidate, build: Build) -> Told:
        self.evaluation += 1
        if build.code is None:
            return Told(candidate, failure="compile")
        duplicate = build.code in self._tried
        if not duplicate:
            self._measure(build.code, build)
        measured = self._tried[build.code]
        if not isinstance(measured, Measured):
            return Told(candidate, failure=measured)
        return Told(candidate, self._told[build.code], duplicate=duplicate, code=build.code)

    def _measure(self, code: str, build: Build) -> None:
        measured = self._tried[code] = self._objective.measured(build)
        if isinstance(measured, Measured):
            self._measure_s += measured.seconds
            self._told[code] = measured.told(code, self._seed)
            held = front(self._told)
            if held != self._held:
                self._held = held
                self.note()

    def _value(self) -> float:
        held = [self._tried[code] for code in self._held]
        judged = [measured.judged for measured in held if isinstance(measured, Measured)]
        if len(self._objective.objective.metrics) == 1:
            return judged[0][0] if judged else 0.0
        return -hypervolume(judged, (WORSE, WORSE))

    @contextmanager
    def _clocked(self) -> Iterator[None]:
        """Adds the processor time of what is inside, threads and all, to the engine's."""
        begun = time.process_time()
        yield
        self._engine_s += time.process_time() - begun
