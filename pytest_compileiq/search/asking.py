"""How an engine is asked: for candidates, or for more to build than are measured, of which it picks what is."""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Protocol

from pytest_compileiq.benchmark.benchmark import TunedBenchmark
from pytest_compileiq.benchmark.builds import BuildQueue
from pytest_compileiq.benchmark.features import features_of_build
from pytest_compileiq.engines.base import Built, Engine, Picking, Told
from pytest_compileiq.errors import BuildError
from pytest_compileiq.model import BuildResult, Candidate
from pytest_compileiq.rules.built_ahead import builds_for_each
from pytest_compileiq.search.batches import NOT_PROPOSED, Proposal, Proposed
from pytest_compileiq.search.duplicates import Key, key_of
from pytest_compileiq.search.one_thread import one_thread


@dataclass
class Costs:
    """Wall seconds that builds, side by side, and measurements have taken."""

    clock: Callable[[], float] = time.monotonic
    builds: int = 0
    building_s: float = 0.0
    measurements_s: list[float] = field(default_factory=list)

    @contextmanager
    def building(self, builds: int) -> Iterator[None]:
        """Count ``builds`` that are made inside."""
        begun = self.clock()
        yield
        self.builds, self.building_s = self.builds + builds, self.building_s + self.clock() - begun

    @contextmanager
    def measuring(self) -> Iterator[None]:
        """Count the measurement that is made inside, unless it fails."""
        begun = self.clock()
        yield
        self.measurements_s.append(self.clock() - begun)

    def builds_for_each(self) -> int:
        """How many builds pay for each measurement; the most before anything is known."""
        measurement_s = statistics.median(self.measurements_s or [0.0])  # the first one also starts the worker
        return builds_for_each(self.building_s / max(1, self.builds), measurement_s)


@dataclass(frozen=True)
class Offer:
    """The candidates of one batch, and all that was built for them to be picked from; nothing where nobody picks.

    Attributes:
        places: of the candidates among those that were built.
    """

    candidates: Sequence[Candidate]
    proposal: Proposal = NOT_PROPOSED
    places: Sequence[int] = ()

    def with_features(self, told: Mapping[int, Told]) -> list[Told]:
        """What is told of the candidates, by their order here, with the features of their machine code."""
        features = [self.proposal.built[place].features or {} for place in self.places]
        return [
            replace(told[number], features=features[number]) if features else told[number] for number in sorted(told)
        ]


class Asker(Protocol):
    """Asks an engine."""

    def ask(self, wanted: int, builds: BuildQueue) -> Offer:
        """The next batch of at most ``wanted`` candidates."""
        ...

    def ask_again(self, wanted: int, proposal: Proposal) -> Offer:
        """The same, where an earlier run made these builds; without candidates where the engine now proposes others."""
        ...


@dataclass(frozen=True)
class PlainAsker:
    """Asks for what is to be evaluated: every candidate is."""

    engine: Engine

    def ask(self, wanted: int, _builds: BuildQueue) -> Offer:
        """As in ``Asker``."""
        return self.ask_again(wanted, NOT_PROPOSED)

    def ask_again(self, wanted: int, _proposal: Proposal) -> Offer:
        """As in ``Asker``."""
        with one_thread():
            return Offer(self.engine.ask(wanted))


@dataclass(frozen=True)
class PickingAsker:
    """Asks for more to be built than is wanted, and lets the engine pick.

    Attributes:
        seen: what has been measured or has failed in a measurement, as far as the search has come.
        jobs: how many builds are described side by side.
        costs: what builds have taken so far, and measurements.
    """

    engine: Picking
    benchmark: TunedBenchmark
    seen: Mapping[Key, Told]
    jobs: int
    costs: Costs

    def ask(self, wanted: int, builds: BuildQueue) -> Offer:
        """As in ``Asker``; nothing is building when it returns."""
        most = wanted * self.costs.builds_for_each()
        with one_thread():
            candidates = self.engine.propose(wanted, most)
        with self.costs.building(len(candidates)):
            built = self._built(candidates, builds)
        return self._offer(Proposal(built, most), wanted)

    def ask_again(self, wanted: int, proposal: Proposal) -> Offer:
        """As in ``Asker``."""
        with one_thread():
            candidates = self.engine.propose(wanted, proposal.most)
        same = candidates == [built.candidate for built in proposal.built]
        return self._offer(proposal, wanted) if same else Offer(())

    def _built(self, candidates: Sequence[Candidate], builds: BuildQueue) -> list[Proposed]:
        rendered = [self.benchmark.builder.render(candidate) for candidate in candidates]
        results = [build.result() for build in [builds.begin(controls) for controls in rendered]]
        with ThreadPoolExecutor(self.jobs) as threads:
            features = list(threads.map(self._features, results))
        known, proposed = set(self.seen), []
        for candidate, controls, result, own in zip(candidates, rendered, results, features, strict=True):
            if isinstance(result, BuildError):
                proposed.append(Proposed(candidate, None))
                continue
            key = key_of(self.benchmark, controls, result.digest)
            proposed.append(Proposed(candidate, own, key in known))
            known.add(key)
        return proposed

    def _features(self, result: BuildResult | BuildError) -> Mapping[str, float]:
        return features_of_build(self.benchmark, result) if isinstance(result, BuildResult) else {}

    def _offer(self, proposal: Proposal, wanted: int) -> Offer:
        places = self._picked(proposal.built, wanted) if proposal.built else []
        return Offer([proposal.built[place].candidate for place in places], proposal, places)

    def _picked(self, proposed: Sequence[Proposed], wanted: int) -> list[int]:
        """Places of what is measured, best first, then of failed builds.

        A failed build is an evaluation, as it is where nobody picks; but only as many of them count as have this share
        in what was built, or a compiler that often refuses would leave nothing of the budget to be measured. Where all
        machine code is known, it is evaluated as a duplicate: so the budget ends a search that finds nothing new.
        """
        built = [place for place, each in enumerate(proposed) if each.features is not None]
        failed = [place for place, each in enumerate(proposed) if each.features is None]
        share = math.ceil(wanted * len(failed) / len(proposed))
        failures = failed[: min(share, wanted - bool(built))]
        room = wanted - len(failures)
        given = [proposed[place] for place in built]
        with one_thread():
            picks = self.engine.pick([Built(each.candidate, each.features or {}, each.known) for each in given], room)
        return [*([built[pick] for pick in picks] or built[:room]), *failures]


def asker_of(engine: Engine, benchmark: TunedBenchmark, seen: Mapping[Key, Told], jobs: int, costs: Costs) -> Asker:
    """One that picks, if the engine can; but where nothing is timed, or a build is what is timed, it would not pay."""
    metrics = {objective.metric for objective in benchmark.timed_objectives}
    pays = benchmark.builder.compiler.compiles and metrics and "compile_time" not in metrics
    if pays and isinstance(engine, Picking):
        return PickingAsker(engine, benchmark, seen, jobs, costs)
    return PlainAsker(engine)
