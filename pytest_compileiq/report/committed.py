"""Reads the store for the page: artifacts with the slots behind their claims, and a report from the store alone."""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass, replace

from pytest_compileiq.artifact import Artifact
from pytest_compileiq.errors import StoreError
from pytest_compileiq.outcome import Check, ItemReport, RunReport, Verdict
from pytest_compileiq.report.claims import report_on
from pytest_compileiq.report.html.charts import ChartedSlot
from pytest_compileiq.rules.comparison import slot_value
from pytest_compileiq.samples import SampleRow
from pytest_compileiq.store.store import Store
from pytest_compileiq.toolchains.option_classes import check_classes

MAX_CHARTED_CLAIMS = 8  # per artifact; the table of claims holds them all
Key = tuple[str, str]
_CHECKS = (
    Check("integrity", "passed", "the files have their recorded digests"),
    Check(
        "claims, machine code, correctness, speed",
        "not run",
        "this page only reads: acf check recomputes claims, pytest rebuilds, runs and measures",
    ),
)


@dataclass(frozen=True)
class ChartedArtifact:
    """One artifact, and by a claim's index the slots behind it, if they could be read."""

    artifact: Artifact
    slots: dict[int, list[ChartedSlot]]


def read_committed(store: Store, keys: Iterable[Key]) -> dict[Key, ChartedArtifact]:
    """The artifacts of (name, target) pairs; unreadable ones are left out, and the report's items say why."""
    committed = {}
    for name, target in keys:
        try:
            artifact = store.read(name, target)
        except StoreError:
            continue
        committed[name, target] = ChartedArtifact(artifact, _slots_by_claim(store, name, artifact))
    return committed


def report_of_store(store: Store) -> RunReport:
    """Every artifact as committed: nothing is rebuilt or measured, and each item says so."""
    unhealthy = {entry.path: entry.problem for entry in store.health()}
    items = []
    for name, target in store.artifacts():
        try:
            if problem := unhealthy.pop(store.metadata_path(name, target), None):
                raise StoreError(problem)
            artifact = store.read(name, target)
            check_classes(artifact)
        except StoreError as error:
            items.append(ItemReport(f"acf/{name}", name, target, Verdict.CORRUPT, str(error), failed=True))
            continue
        verdict = Verdict.COMMITTED if artifact.outcome == "tuned" else Verdict(artifact.outcome.upper())
        item = report_on(artifact.benchmark, name, target, verdict, artifact.reason or "", artifact)
        items.append(replace(item, checks=_CHECKS))
    return RunReport(items, store_problems=list(unhealthy.values()))


def _slots_by_claim(store: Store, name: str, artifact: Artifact) -> dict[int, list[ChartedSlot]]:
    slots: dict[int, list[ChartedSlot]] = {}
    with suppress(StoreError):
        for claim, rows in itertools.islice(store.read_samples(name, artifact), MAX_CHARTED_CLAIMS):
            slots[artifact.claims.index(claim)] = slots_of(rows)
    return dict(sorted(slots.items()))


def slots_of(rows: Iterable[SampleRow]) -> list[ChartedSlot]:
    """The slots in the order in which they were measured, each with the value that the gate uses."""

    def place(row: SampleRow) -> tuple[int, int, int, str]:
        return row.process, row.quad, row.slot, row.arm

    groups = (list(group) for _, group in itertools.groupby(sorted(rows, key=place), key=place))
    return [
        ChartedSlot(
            first.process,
            first.arm,
            slot_value(first.objective, [row.value for row in group]),
            any(row.dropped for row in group),
        )
        for group in groups
        for first in group[:1]
    ]
