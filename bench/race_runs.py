"""One race: an engine on an objective, and what it held for best after each evaluation."""

import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from pytest_compileiq.engines import base
from pytest_compileiq.engines.base import Brief, Engine, Told
from pytest_compileiq.model import Candidate
from race_figures import front, hypervolume
from race_objectives import WORSE, Build, Measured, Opened
from race_peers import opened

MOST_PASSED = 20  # proposals in a row of which nothing is worth measuring


@dataclass(frozen=True)
class Moment:
    """What a race held for best at one time; seconds are processor time as it was when things were first made.

    Attributes:
        evaluation: how many candidates were measured or failed until then.
        value: the judged log-ratio of what is held to the baseline; of two objectives minus the hypervolume of what
            their front dominates, up to 25 % worse than the baseline in each.
        builds: candidates built until then, those that were only looked at included.
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
        self._told: dict[str, tuple[float, ...]] = {}  # equal machine code is measured once, as in a real search
        self._judged: dict[str, tuple[float, ...]] = {}
        self._held: frozenset[str] = frozenset()
        self._passed = 0
        brief = Brief(objective.objective.space, seed, len(objective.objective.metrics), evaluations, [Candidate({})])
        with _Clock(self):
            self._engine: Engine = opened(name, brief)
        picking = getattr(base, "Picking", None)
        self._picks = picking is not None and objective.objective.timed and isinstance(self._engine, picking)

    def step(self) -> bool:
        """Evaluate what the engine wants next; False when it has nothing left."""
        chosen = self._picked() if self._picks else self._asked()
        if chosen is None:
            return False
        results = [self._evaluated(candidate, build) for candidate, build in chosen]
        with _Clock(self):
            self._engine.tell(results)
        return True

    def note(self) -> None:
        """Keep this moment."""
        value = self._value()
        moment = Moment(self.evaluation, value, self._builds, self._build_s, self._measure_s, self._engine_s)
        self.race.moments.append(moment)

    def _asked(self) -> list[tuple[Candidate, Build]] | None:
        with _Clock(self):
            asked = self._engine.ask(1)
        return [(candidate, self._build(candidate)) for candidate in asked] or None

    def _picked(self) -> list[tuple[Candidate, Build]] | None:
        """One of the candidates that a picking engine proposes, and those of them that do not build."""
        picker: Any = self._engine
        with _Clock(self):
            proposed = picker.propose(1)
        made = [(candidate, self._build(candidate)) for candidate in proposed]
        failed = [pair for pair in made if pair[1].code is None]
        whole = [pair for pair in made if pair[1].code is not None]
        with _Clock(self):
            built = [
                base.Built(candidate, self._features(build), build.code in self._told) for candidate, build in whole
            ]
            places = picker.pick(built, 1) if built else []
        self._passed = 0 if places or failed else self._passed + 1
        if not proposed or self._passed > MOST_PASSED:
            return None
        return [*failed, *(whole[place] for place in places)]

    def _build(self, candidate: Candidate) -> Build:
        build = self._objective.build(candidate.knobs)
        self._builds += 1
        self._build_s += build.seconds
        return build

    def _features(self, build: Build) -> dict[str, float]:
        return self._objective.features(build)

    def _evaluated(self, candidate: Candidate, build: Build) -> Told:
        self.evaluation += 1
        if build.code is None:
            return Told(candidate, failure="compile")
        if build.code in self._told:
            return Told(candidate, self._told[build.code], duplicate=True)
        measured = self._objective.measured(build)
        if not isinstance(measured, Measured):
            return Told(candidate, failure=measured)
        self._measure_s += measured.seconds
        scores = measured.told(build.code, self._seed)
        self._told[build.code], self._judged[build.code] = scores, measured.judged
        held = front(self._told)
        if held != self._held:
            self._held = held
            self.note()
        return Told(candidate, scores)

    def _value(self) -> float:
        judged = [self._judged[code] for code in self._held]
        if len(self._objective.objective.metrics) == 1:
            return judged[0][0] if judged else 0.0
        return -hypervolume(judged, (WORSE, WORSE))


class _Clock:
    """Adds the processor time of what is inside, threads and all, to the engine's."""

    def __init__(self, runner: _Runner) -> None:
        self._runner = runner

    def __enter__(self) -> None:
        self._begun = time.process_time()

    def __exit__(self, *_: object) -> None:
        self._runner._engine_s += time.process_time() - self._begun
