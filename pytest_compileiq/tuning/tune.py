"""``pytest --tune`` for one benchmark: baseline → search → proof → smallest winner → what it is made of → store."""

from __future__ import annotations

from dataclasses import replace

from pytest_compileiq.benchmark.benchmark import TunedBenchmark
from pytest_compileiq.config import Settings, chosen, seed_of_coins
from pytest_compileiq.outcome import ItemReport
from pytest_compileiq.progress import Progress
from pytest_compileiq.store.store import Store
from pytest_compileiq.tuning.baseline import check_baseline, tell_noise
from pytest_compileiq.tuning.incumbent import find_incumbent
from pytest_compileiq.tuning.settle import Tuning, prove_committed
from pytest_compileiq.tuning.under_way import under_way
from pytest_compileiq.workers.pool import Pool


def tune(benchmark: TunedBenchmark, *, settings: Settings, store: Store, pool: Pool, progress: Progress) -> ItemReport:
    """Search for better controls, prove the winner on fresh samples, and store what was proven.

    Raises:
        MarkerError: the compiler does not take an option of the marker's space.
        TuneFailed: the baseline does not build, does not run here, or is not correct; or the search measured nothing,
            or evidence was lost. Nothing is written then.
        StoreError: the store could not be written.
    """
    budget = chosen(settings.budget, benchmark.spec.budget, settings.ini_budget)
    if budget.proof_only:
        return _prove_alone(benchmark, settings, store, pool, progress)
    with under_way(
        benchmark, settings=settings, store=store, pool=pool, progress=progress, budget=budget
    ) as tuning_under_way:
        tuning_under_way.advance()
        return tuning_under_way.close()


def _prove_alone(
    benchmark: TunedBenchmark, settings: Settings, store: Store, pool: Pool, progress: Progress
) -> ItemReport:
    """``--tune-budget=0``: no search."""
    tell_noise(benchmark, progress)
    baseline = check_baseline(benchmark, pool)
    given = chosen(settings.seed, benchmark.spec.seed, None)
    seed, coins = given or 0, seed_of_coins(given)
    tuning = Tuning(benchmark, store, pool, progress, seed, coins, baseline.stands_for, baseline.drew)
    incumbent, _ = find_incumbent(benchmark, store)
    report = prove_committed(tuning, incumbent)
    return replace(report, notes=(*report.notes, *baseline.unchecked, *pool.remarks(benchmark)))
