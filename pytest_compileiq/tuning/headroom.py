"""``pytest --tune-headroom``: what a search could find, by a few random builds. Nothing is proven or written."""

from __future__ import annotations

import statistics
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from random import Random

from pytest_compileiq.benchmark.benchmark import TunedBenchmark
from pytest_compileiq.benchmark.builds import BuildQueue
from pytest_compileiq.config import Settings, chosen
from pytest_compileiq.engines.base import Brief
from pytest_compileiq.engines.registry import choose, make
from pytest_compileiq.errors import BuildError, TuneFailed
from pytest_compileiq.model import BuildResult, Candidate, ControlsFile
from pytest_compileiq.outcome import Headroom, ItemReport, MetricRange, Verdict
from pytest_compileiq.report.headroom import message_of, notes_of
from pytest_compileiq.search.duplicates import key_of
from pytest_compileiq.search.scoring import Scorer
from pytest_compileiq.spelling import quantity
from pytest_compileiq.tally import Progress
from pytest_compileiq.workers.pool import EvaluationFailed, Pool

CANDIDATES = 20
EVALUATED = 3  # beyond the first, which starts the worker


def look(benchmark: TunedBenchmark, *, settings: Settings, pool: Pool, progress: Progress) -> ItemReport:
    """Build random candidates, evaluate a few of them where the kernel runs here, and say what a night would do.

    Raises:
        MarkerError: the space cannot be searched, or the compiler does not take one of its options.
        TuneFailed: the baseline does not build, or no candidate does.
    """
    benchmark.try_options()
    try:
        baseline = benchmark.builds.get(None)
    except BuildError as error:
        raise TuneFailed(f"{benchmark.nodeid}: the baseline does not build: {error}") from error
    seed = chosen(settings.seed, benchmark.spec.seed, 0)
    rendered = [benchmark.builder.render(candidate) for candidate in _candidates(benchmark, settings, seed)]
    progress.say(f"building {quantity(len(rendered), 'random candidate')}")
    started = time.monotonic()
    results = _build(benchmark, rendered, settings.jobs)
    build_s = (time.monotonic() - started) / max(1, len(rendered))
    built = [
        (controls, result)
        for controls, result in zip(rendered, results, strict=True)
        if isinstance(result, BuildResult)
    ]
    failed = [result for result in results if isinstance(result, BuildError)]
    if not built:
        raise TuneFailed(
            f"{benchmark.nodeid}: none of {quantity(len(rendered), 'random candidate')} builds: {failed[0]}"
        )
    own = key_of(benchmark, None, baseline.digest)
    distinct = {key_of(benchmark, controls, result.digest): (controls, result) for controls, result in built}
    unchanged = sum(key_of(benchmark, controls, result.digest) == own for controls, result in built)
    distinct.pop(own, None)
    seconds, why_none = _evaluate(benchmark, pool, seed, list(distinct.values()))
    headroom = Headroom(
        candidates=len(rendered),
        whole_space=benchmark.space.opaque is None and len(rendered) < CANDIDATES,
        distinct=len(distinct),
        unchanged=unchanged,
        failed=dict(Counter(str(error.kind) for error in failed)),
        first_failures={str(error.kind): str(error) for error in reversed(failed)},
        metrics=_ranges(benchmark, baseline, [result for _, result in distinct.values()]),
        jobs=settings.jobs,
        seconds_a_build=build_s,
        seconds_an_evaluation=statistics.median(seconds) if seconds else None,
        why_not_evaluated=why_none,
    )
    item = ItemReport(
        benchmark.nodeid, benchmark.name, benchmark.builder.target, Verdict.HEADROOM,
        message_of(headroom, benchmark.builder.compiler.compiles),
    )  # fmt: skip
    return replace(item, notes=notes_of(headroom), headroom=headroom)


def _candidates(benchmark: TunedBenchmark, settings: Settings, seed: int) -> Sequence[Candidate]:
    """Random points of the space; an ACF is drawn by the engine that draws them."""
    space = replace(benchmark.space, presets=())  # what an expert would try first is no random candidate
    wanted = chosen(settings.engine, benchmark.spec.engine, settings.ini_engine)
    engine = choose(wanted, space) if space.opaque is not None else "random"
    options = benchmark.spec.engine_options if engine == choose(wanted, space) else {}
    given = Brief(space, seed, len(benchmark.objectives), CANDIDATES, (), options)
    candidates = make(engine, given).ask(CANDIDATES)
    if not candidates:
        raise TuneFailed(f"{benchmark.nodeid}: the engine {engine!r} has no candidate for this space")
    return candidates


def _build(
    benchmark: TunedBenchmark, rendered: Sequence[ControlsFile], jobs: int
) -> Sequence[BuildResult | BuildError]:
    queue = BuildQueue(benchmark.builds, jobs)
    try:
        return [future.result() for future in [queue.begin(controls) for controls in rendered]]
    finally:
        queue.close()


def _evaluate(
    benchmark: TunedBenchmark, pool: Pool, seed: int, distinct: Sequence[tuple[ControlsFile, BuildResult]]
) -> tuple[list[float], str]:
    """Seconds that the search's own evaluation takes for each of a few candidates; why there are none, or ""."""
    if benchmark.needs_device and benchmark.native is not None:
        return [], benchmark.native
    scorer = Scorer(pool, benchmark, Random(seed))
    seconds, why = [], ""
    for controls, result in distinct[: 1 + EVALUATED]:
        started = time.monotonic()
        try:
            scorer.score(controls, result)
        except EvaluationFailed as failure:  # a search counts it as invalid; how long it takes says little
            why = f"what was tried is not usable ({failure.kind}): {failure.reason}"
            continue
        seconds.append(time.monotonic() - started)
    return seconds[1:] or seconds, "" if seconds else why


def _ranges(
    benchmark: TunedBenchmark, baseline: BuildResult, others: Sequence[BuildResult]
) -> Mapping[str, MetricRange]:
    """How far each exact metric moves: the compiler's counts, and what the objectives take of them."""
    return {
        metric: MetricRange(values[0], min(values[1:], default=values[0]), max(values[1:], default=values[0]))
        for metric, values in _values(benchmark, [baseline, *others])
    }


def _values(benchmark: TunedBenchmark, builds: Sequence[BuildResult]) -> Iterator[tuple[str, list[int]]]:
    for metric in sorted(builds[0].metrics):
        yield metric, [build.metrics[metric] for build in builds if metric in build.metrics]
    for objective in benchmark.exact_objectives:
        if objective.metric not in builds[0].metrics:
            try:
                yield objective.metric, [benchmark.value_of(objective.metric, build) for build in builds]
            except BuildError as error:
                raise TuneFailed(f"{benchmark.nodeid}: {error}") from error
