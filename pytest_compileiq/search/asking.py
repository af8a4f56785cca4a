"""How an engine is asked: for candidates, or for more to build than are measured, of which it picks what is."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Protocol

from pytest_compileiq.benchmark.benchmark import TunedBenchmark
from pytest_compileiq.benchmark.builds import BuildQueue
from pytest_compileiq.benchmark.features import features_of_build
from pytest_compileiq.engines.base import Built, Engine, Picking, Told
from pytest_compileiq.errors import BuildError
from pytest_compileiq.model import BuildResult, Candidate
from pytest_compileiq.search.duplicates import Key, key_of
from pytest_compileiq.search.journal import Proposed
from pytest_compileiq.search.one_thread import one_thread


@dataclass(frozen=True)
class Offer:
    """The candidates of one batch, and all that was built for them to be picked from; nothing where nobody picks.

    Attributes:
        places: of the candidates among ``proposed``.
    """

    candidates: Sequence[Candidate]
    proposed: Sequence[Proposed] = ()
    places: Sequence[int] = ()

    def with_features(self, told: Mapping[int, Told]) -> list[Told]:
        """What is told of the candidates, by their order here, with the features of their machine code."""
        features = [self.proposed[place].features or {} for place in self.places]
        return [
            replace(told[number], features=features[number]) if features else told[number] for number in sorted(told)
        ]


class Asker(Protocol):
    """Asks an engine."""

    def ask(self, wanted: int, builds: BuildQueue) -> Offer:
        """The next batch of at most ``wanted`` candidates."""
        ...

    def ask_again(self, wanted: int, proposed: Sequence[Proposed]) -> Offer:
        """The same, where an earlier run made these builds; without candidates where the engine now proposes others."""
        ...


@dataclass(frozen=True)
class PlainAsker:
    """Asks for what is to be evaluated: every candidate is."""

    engine: Engine

    def ask(self, wanted: int, _builds: BuildQueue) -> Offer:
        """As in ``Asker``."""
        return self.ask_again(wanted, ())

    def ask_again(self, wanted: int, _proposed: Sequence[Proposed]) -> Offer:
        """As in ``Asker``."""
        with one_thread():
            return Offer(self.engine.ask(wanted))


@dataclass(frozen=True)
class PickingAsker:
    """Asks for more to be built than is wanted, and lets the engine pick.

    Attributes:
        seen: what has been measured or has failed in a measurement, as far as the search has come.
        jobs: how many builds are described side by side.
    """

    engine: Picking
    benchmark: TunedBenchmark
    seen: Mapping[Key, Told]
    jobs: int

    def ask(self, wanted: int, builds: BuildQueue) -> Offer:
        """As in ``Asker``; nothing is building when it returns."""
        with one_thread():
            candidates = self.engine.propose(wanted)
        return self._offer(self._built(candidates, builds), wanted)

    def ask_again(self, wanted: int, proposed: Sequence[Proposed]) -> Offer:
        """As in ``Asker``."""
        with one_thread():
            candidates = self.engine.propose(wanted)
        return self._offer(proposed, wanted) if candidates == [built.candidate for built in proposed] else Offer(())

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

    def _offer(self, proposed: Sequence[Proposed], wanted: int) -> Offer:
        places = self._picked(proposed, wanted) if proposed else []
        return Offer([proposed[place].candidate for place in places], proposed, places)

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


def asker_of(engine: Engine, benchmark: TunedBenchmark, seen: Mapping[Key, Told], jobs: int) -> Asker:
    """One that picks, if the engine can; but where nothing is timed, or a build is what is timed, it would not pay."""
    metrics = {objective.metric for objective in benchmark.timed_objectives}
    pays = benchmark.builder.compiler.compiles and metrics and "compile_time" not in metrics
    return PickingAsker(engine, benchmark, seen, jobs) if pays and isinstance(engine, Picking) else PlainAsker(engine)
