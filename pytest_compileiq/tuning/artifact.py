"""What a search leaves behind: the artifact's tables, from what was built, proven and found."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any

from pydantic import ValidationError

from pytest_compileiq import __version__
from pytest_compileiq.artifact import (
    ACF_NOTICE,
    MOST_LICENCES,
    Artifact,
    Code,
    CompilerTable,
    Controls,
    FingerprintTable,
    FrontPoint,
    LicenceTable,
    Provenance,
    SearchRecord,
    Withdrawn,
    stored_code,
)
from pytest_compileiq.benchmark.benchmark import TunedBenchmark
from pytest_compileiq.engines.base import Brief
from pytest_compileiq.engines.registry import portfolio_of
from pytest_compileiq.errors import StoreError
from pytest_compileiq.model import (
    LARGEST_NUMBER,
    LONGEST_TEXT,
    ControlsFile,
    Fingerprint,
    Licence,
    Objective,
)
from pytest_compileiq.progress import SearchCounts
from pytest_compileiq.proof.prove import NoWinner, Proof
from pytest_compileiq.reduction import Attribution, Reduction
from pytest_compileiq.rules.classes import widest
from pytest_compileiq.rules.fingerprint import covered_files, defined_in, holds
from pytest_compileiq.search.scoring import Scored
from pytest_compileiq.store.metadata import controls_file_name
from pytest_compileiq.system.vcs import content_at, revision
from pytest_compileiq.table import first_problem
from pytest_compileiq.toolchains.option_classes import classes_of

Shift = Callable[[Objective, float], float | None]


def search_record(
    benchmark: TunedBenchmark, tally: SearchCounts, engine: str, given: Brief, shift: Shift
) -> SearchRecord:
    """How the controls were found by ``engine`` with what it was ``given``; ``shift`` as in ``SearchResult``."""
    is_ratio = shift(benchmark.objectives[0], tally.best) is None
    return SearchRecord(
        engine=engine,
        seed=given.seed,
        space=benchmark.space.digest,
        evaluations=tally.evaluations,
        invalid=sum(tally.invalid.values()),
        duplicates=tally.duplicates,
        seconds=round(tally.seconds, 1),
        objectives={objective.metric: objective.direction for objective in benchmark.objectives},
        failures=dict(sorted(tally.invalid.items())),
        improvements=tuple((number, _ratio(-score)) for number, score in tally.improvements[-MOST_IMPROVEMENTS:])
        if is_ratio
        else (),
        transferred=tuple(lesson.artifact for lesson in given.lessons),
        portfolio=portfolio_of(engine, given),
    )


def _ratio(step: float) -> float:
    """The ratio that a search's log-ratio stands for, as far as an artifact can hold it."""
    return float(f"{math.exp(max(-_FARTHEST, min(_FARTHEST, step))):.4g}")


_FARTHEST = math.log(LARGEST_NUMBER) - 1
MOST_IMPROVEMENTS = 100  # a search hardly ever makes more
MOST_FRONT_POINTS = 16


@dataclass(frozen=True)
class SearchResult:
    """What a search leaves besides its winner.

    Attributes:
        record: how it was done.
        front: with several objectives, what no other point beats.
        functions: what the artifact records of what the test stands for.
        shift: an objective's score → the difference that it stands for; None where it stands for a ratio.
        reduction: what the winner was reduced from; None where it was not.
        made_of: the key of the finalist that the winner was made of.
        undecided: the controls that stayed undecided, by names as ``Attribution.open_knobs`` has them.
        attribute: measures what each control of the winner brings.
    """

    record: SearchRecord
    front: Sequence[Scored]
    functions: tuple[str, ...]
    shift: Shift
    reduction: Reduction | None = None
    made_of: str = ""
    undecided: frozenset[str] = frozenset()
    attribute: Callable[[Proof], Attribution | None] = lambda _proof: None

    def reduced(self, attribution: Attribution | None) -> Reduction | None:
        """The reduction, where what ``attribution`` resolves is no longer undecided."""
        if self.reduction is None or attribution is None:
            return self.reduction
        return self.reduction.model_copy(update={"undecided": len(self.undecided & attribution.open_knobs)})

    def with_winner(self, winner: ControlsFile) -> SearchResult:
        """With the smaller ``winner`` at the point of the front that it was made of."""
        front = [
            replace(scored, controls=winner) if scored.controls.key == self.made_of else scored for scored in self.front
        ]
        return replace(self, front=front)


def make_artifact(
    benchmark: TunedBenchmark,
    proof: Proof | NoWinner,
    result: SearchResult,
    withdrawn: Sequence[Withdrawn],
    licences: Sequence[Licence] = (),
    attribution: Attribution | None = None,
    before: Code = MappingProxyType({}),
) -> Artifact:
    """The artifact of a search: the proven winner, or that nothing beats the defaults.

    Raises:
        StoreError: something in it is beyond what an artifact may hold.
    """
    try:
        return _artifact(benchmark, proof, result, withdrawn, licences, attribution, before)
    except ValidationError as error:
        raise StoreError(f"the result of {benchmark.nodeid} cannot be stored: {first_problem(error)}") from error


def _artifact(
    benchmark: TunedBenchmark,
    proof: Proof | NoWinner,
    result: SearchResult,
    withdrawn: Sequence[Withdrawn],
    licences: Sequence[Licence],
    attribution: Attribution | None,
    before: Code,
) -> Artifact:
    target = benchmark.builder.target
    winner, claims = (None, ()) if isinstance(proof, NoWinner) else (proof.winner, proof.claims)
    fingerprint = benchmark.fingerprint_with(winner)
    return Artifact(
        benchmark=benchmark.nodeid,
        target=target,
        outcome="tuned" if winner else "baseline",
        reason=None if winner else proof.reason[:LONGEST_TEXT],
        functions=result.functions,
        **signed_by(benchmark, winner, licences),
        controls=controls_table(target, winner) if winner else None,
        compiler=CompilerTable.of(benchmark.builder.compiler),
        fingerprint=FingerprintTable.of(fingerprint),
        code=stored_code(benchmark.builds.get(None), benchmark.builds.get(winner) if winner else None, before),
        search=result.record,
        claims=claims,
        front=tuple(_front_point(benchmark, scored, result.shift) for scored in result.front[:MOST_FRONT_POINTS]),
        withdrawn=tuple(withdrawn),
        reduction=result.reduced(attribution) if winner else None,
        attribution=attribution,
        provenance=provenance_of(benchmark, fingerprint, winner),
    )


def signed_by(benchmark: TunedBenchmark, winner: ControlsFile | None, licences: Sequence[Licence]) -> dict[str, Any]:
    """What a reviewer signs with the controls, as fields of the artifact: their classes and the licences."""
    compiler = benchmark.builder.compiler
    own = classes_of(compiler.name, compiler.command, winner.kind, winner.knobs).own if winner else ()
    stored = tuple(map(LicenceTable.of, widest(licences, MOST_LICENCES)))
    return {"classes": own, "licences": stored if winner else None}


def _front_point(benchmark: TunedBenchmark, scored: Scored, shift: Shift) -> FrontPoint:
    """Each metric against the baseline's, as a ratio or a difference: the search's own scores, which prove nothing."""
    scores = list(zip(benchmark.objectives, scored.scores, strict=True))
    shifts = {objective.metric: shift(objective, score) for objective, score in scores}
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
    """Whether a file that differs from the commit does so in what the fingerprint covers.

    Every change of a marker counts, since the fingerprint covers its flags, workloads and objectives.
    """
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
