"""The artifact of a search: its tables, from builds, proof and search."""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from pydantic import ValidationError

from pytest_compileiq import __version__
from pytest_compileiq.artifact import (
    ACF_NOTICE,
    MOST_LICENCES,
    Artifact,
    CompilerTable,
    Controls,
    FingerprintTable,
    FrontPoint,
    LicenceTable,
    Provenance,
    SearchRecord,
    stored_code,
)
from pytest_compileiq.benchmark.benchmark import TunedBenchmark
from pytest_compileiq.benchmark.blast_radius import recorded_functions
from pytest_compileiq.engines.registry import portfolio_of
from pytest_compileiq.errors import StoreError
from pytest_compileiq.model import LARGEST_NUMBER, LONGEST_TEXT, ControlsFile, Fingerprint
from pytest_compileiq.proof.claims import NoWinner, Proof
from pytest_compileiq.reduction import Attribution
from pytest_compileiq.rules.classes import widest
from pytest_compileiq.rules.fingerprint import covered_files, defined_in, holds
from pytest_compileiq.search.scoring import Scored
from pytest_compileiq.store.local import local_directory
from pytest_compileiq.store.metadata import controls_file_name
from pytest_compileiq.store.store import Store
from pytest_compileiq.system.vcs import content_at, revision
from pytest_compileiq.table import first_problem
from pytest_compileiq.toolchains.option_classes import classes_of
from pytest_compileiq.tuning.context import Found, Tuning
from pytest_compileiq.tuning.stress import Wrong
from pytest_compileiq.tuning.winner import Winner

_FARTHEST = math.log(LARGEST_NUMBER) - 1
MOST_IMPROVEMENTS = 100  # a search hardly ever makes more
_DROPPED = "wrong"


def search_record(tuning: Tuning, found: Found) -> SearchRecord:
    """How the controls were found."""
    benchmark, given, tally = tuning.benchmark, found.given, found.search.tally
    is_ratio = found.search.brief.scorer.shift(benchmark.objectives[0], tally.best) is None
    improvements = tally.improvements[-MOST_IMPROVEMENTS:] if is_ratio else []
    return SearchRecord(
        engine=found.engine,
        seed=given.seed,
        space=benchmark.space.digest,
        evaluations=tally.evaluations,
        invalid=sum(tally.invalid.values()),
        duplicates=tally.duplicates,
        seconds=round(tally.seconds, 1),
        objectives={objective.metric: objective.direction for objective in benchmark.objectives},
        failures=dict(sorted(tally.invalid.items())),
        improvements=tuple((number, _ratio(-score)) for number, score in improvements),
        transferred=tuple(lesson.artifact for lesson in given.lessons),
        portfolio=portfolio_of(found.engine, given),
    )


def _ratio(step: float) -> float:
    return float(f"{math.exp(max(-_FARTHEST, min(_FARTHEST, step))):.4g}")


def stored_front(found: Found, winner: Winner) -> list[Scored]:
    """The points to store, a reduced winner at the point that it was made of."""
    proof = winner.proof
    return [
        replace(scored, controls=proof.winner)
        if isinstance(proof, Proof) and scored.controls.key == winner.made_of
        else scored
        for scored in found.front
    ]


def make_artifact(tuning: Tuning, winner: Winner, found: Found, attribution: Attribution | None = None) -> Artifact:
    """The artifact of a search: the proven winner, or that nothing beats the defaults."""
    benchmark, target, proof = tuning.benchmark, tuning.benchmark.builder.target, winner.proof
    claims, controls = ((), None) if isinstance(proof, NoWinner) else (proof.claims, proof.winner)
    tuned = benchmark.builds.get(controls) if controls else None
    before = tuning.incumbent.artifact if tuning.incumbent else None
    try:
        return Artifact(
            target=target,
            outcome="tuned" if controls else "baseline",
            reason=None if controls else proof.reason[:LONGEST_TEXT],
            **told_now(tuning, controls),
            controls=controls_table(target, controls) if controls else None,
            code=stored_code(benchmark.builds.get(None), tuned, before.code if before else {}),
            search=search_record(tuning, found),
            claims=claims,
            front=tuple(_front_point(benchmark, scored, found) for scored in stored_front(found, winner)),
            withdrawn=before.withdrawn if before else (),
            reduction=winner.reduced(attribution) if controls else None,
            attribution=attribution,
        )
    except ValidationError as error:
        raise StoreError(f"the result of {benchmark.nodeid} cannot be stored: {first_problem(error)}") from error


def told_now(tuning: Tuning, controls: ControlsFile | None) -> dict[str, Any]:
    """Fields of an artifact of ``controls`` that the benchmark and its compiler tell, whatever was proven."""
    benchmark, compiler = tuning.benchmark, tuning.benchmark.builder.compiler
    fingerprint = benchmark.fingerprint_with(controls)
    classes: Sequence[str] = ()
    licences: tuple[LicenceTable, ...] | None = None
    if controls is not None:
        classes = classes_of(compiler.name, compiler.command, controls.kind, controls.knobs).own
        licences = tuple(map(LicenceTable.of, widest(tuning.licences, MOST_LICENCES)))
    return {
        "benchmark": benchmark.nodeid,
        "functions": recorded_functions(benchmark, tuning.baseline.stands_for),
        "classes": classes,
        "licences": licences,
        "compiler": CompilerTable.of(replace(compiler, change=tuning.baseline.change)),
        "fingerprint": FingerprintTable.of(fingerprint),
        "provenance": provenance_of(benchmark, fingerprint, controls),
    }


def keep_wrong(tuning: Tuning, wrong: Wrong, found: Found) -> str:
    """Write wrong controls beside this machine's own state, for ``repeat_advice``; the path, from the root."""
    benchmark = tuning.benchmark
    nothing = make_artifact(replace(tuning, incumbent=None), Winner(NoWinner("")), found)
    changes = {"outcome": "promoted", "reason": str(wrong)[:LONGEST_TEXT], "functions": (), "front": (),
               "controls": controls_table(nothing.target, wrong.controls)}  # fmt: skip
    artifact = nothing.model_copy(update=changes)
    store = Store(local_directory(benchmark.rootdir) / _DROPPED / wrong.controls.sha256[:8])
    store.write(benchmark.name, artifact, controls=[wrong.controls.data], samples=())
    return os.path.relpath(store.metadata_path(benchmark.name, artifact.target), benchmark.rootdir)


def _front_point(benchmark: TunedBenchmark, scored: Scored, found: Found) -> FrontPoint:
    """Each metric against the baseline's, as a ratio or a difference: the search's own scores, which prove nothing."""
    scores = list(zip(benchmark.objectives, scored.scores, strict=True))
    shifts = {objective.metric: found.search.brief.scorer.shift(objective, score) for objective, score in scores}
    return FrontPoint(
        controls=controls_table(benchmark.builder.target, scored.controls),
        metrics={
            objective.metric: round(_ratio(score if objective.direction == "minimize" else -score), 4)
            for objective, score in scores
            if shifts[objective.metric] is None
        },
        shifts={metric: float(f"{share:.4g}") for metric, share in shifts.items() if share is not None},
    )


def controls_table(target: str, winner: ControlsFile) -> Controls:
    """The ``[controls]`` table of ``winner``."""
    return Controls(
        kind=winner.kind,
        file=controls_file_name(target, winner.data),
        sha256=winner.sha256,
        size_bytes=len(winner.data),
        knobs=dict(winner.knobs),
    )


def provenance_of(benchmark: TunedBenchmark, fingerprint: Fingerprint, winner: ControlsFile | None) -> Provenance:
    """Where the artifact comes from: commit, tool, CI run, and the notice that an ACF carries."""
    now = revision(benchmark.rootdir, covered_files(fingerprint.sources, fingerprint.parts))
    commit, changed = now.commit, now.changed or ()
    return Provenance(
        commit=commit,
        dirty=any(_is_uncommitted(benchmark, fingerprint, commit, file) for file in changed) if commit else None,
        tool=f"pytest-compileiq {__version__}",
        runner=os.environ.get("GITHUB_RUN_ID"),
        notice=ACF_NOTICE if winner is not None and winner.kind == "blob" else None,
    )


def _is_uncommitted(benchmark: TunedBenchmark, fingerprint: Fingerprint, commit: str, file: str) -> bool:
    """Whether the fingerprint covers the difference from the commit; of a marker it covers all."""
    sources, parts = fingerprint.sources, fingerprint.parts
    before = content_at(benchmark.rootdir, commit, file)
    if before is None or not holds(before, file, sources, parts):
        return True
    tests = [name.removeprefix(f"test {file}::") for name in parts if name.startswith(f"test {file}::")]
    try:
        now = (benchmark.rootdir / file).read_bytes()
    except OSError:
        return True
    return defined_in(before, tests, decorated=True) != defined_in(now, tests, decorated=True)
