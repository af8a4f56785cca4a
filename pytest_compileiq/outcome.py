"""What became of each tuned test, as values: the truth that every rendering shows."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from enum import StrEnum
from typing import Any, Literal

import msgspec

from pytest_compileiq.model import Arm, Direction

REPORT_SCHEMA = 1
Standing = Literal["gained", "level", "worse"]
Tone = Literal["good", "plain", "warn", "bad"]
# What ends an artifact; ``gain`` is gone, ``wrong`` are its results. The last two are no fault that was found in it.
End = Literal["kernel", "benchmark", "compiler", "driver", "gain", "wrong", "tuned anew", "withdrawn"]
REPLACED: tuple[End, ...] = ("tuned anew", "withdrawn")


class Verdict(StrEnum):
    """What became of a tuned test, or what the gate decided; always with a reason beside it.

    ``PROVEN`` was measured now, ``REPLAYED`` has all but its speed checked, and ``COMMITTED`` was only read.
    """

    PROVEN = "PROVEN"
    REPLAYED = "REPLAYED"
    TUNED = "TUNED"
    KEPT = "KEPT"
    BASELINE = "BASELINE"
    PROMOTED = "PROMOTED"
    RETIRED = "RETIRED"
    COMMITTED = "COMMITTED"
    CALIBRATED = "CALIBRATED"
    UNCHECKED = "UNCHECKED"
    STALE = "STALE"
    MISSING = "MISSING"
    CORRUPT = "CORRUPT"
    REFUTED = "REFUTED"
    WRONG = "WRONG"
    FAILED = "FAILED"
    INCONCLUSIVE = "INCONCLUSIVE"
    NO_DEVICE = "NO DEVICE"
    NO_WORKER = "NO WORKER"

    @property
    def tone(self) -> Tone:
        """How it is shown unless something else is said of it; the settings may let a ``bad`` one pass."""
        if self in (Verdict.PROVEN, Verdict.REPLAYED, Verdict.TUNED, Verdict.KEPT):
            return "good"
        if self in (Verdict.BASELINE, Verdict.PROMOTED, Verdict.RETIRED, Verdict.COMMITTED, Verdict.CALIBRATED):
            return "plain"
        return "warn" if self is Verdict.UNCHECKED else "bad"


@dataclass(frozen=True)
class MovedCode:
    """One entry function whose machine code is not what was recorded, and in which arms."""

    entry: str
    architecture: str
    arms: tuple[Arm, ...]


@dataclass(frozen=True)
class Result:
    """One claim as a person reads it.

    Attributes:
        words: the result, to be read after the metric's name: ``1.181x faster, 1.170 to 1.192``, ``57 → 30``.
        evidence: ``measured now`` or the statistics on record; empty for an exact metric.
        speedup, speedup_low, speedup_high: above 1 is better; None for an exact metric, and for one that may be zero or
            negative, of which there are no ratios.
        scope, devices: the devices that it speaks for, in words, which ``words`` end with, and by name; empty of one.
    """

    device: str
    workload: str
    objective: str
    direction: Direction
    standing: Standing
    words: str
    evidence: str = ""
    speedup: float | None = None
    speedup_low: float | None = None
    speedup_high: float | None = None
    scope: str = ""
    devices: tuple[str, ...] = ()

    def text(self, where: str = "") -> str:
        """The result in words, the metric first; a loss is called one."""
        return f"{'worse: ' if self.standing == 'worse' else ''}{self.objective}{where} {self.words}"


@dataclass(frozen=True)
class Check:
    """One check of a normal run: ``passed``, ``failed`` or ``not run``, and why or with what result.

    The check ``build`` is ``cached``, with the time of the build, or ``not kept``, and why.
    """

    name: str
    status: str
    detail: str = ""


@dataclass(frozen=True)
class Measured:
    """What a run measured of one claim, whatever became of it.

    Attributes:
        verdict: the gate's.
        baseline, tuned: the geometric mean of each arm's slots, in the objective's unit.
        driver: the device's, where it has one.
        seed: of the order in which the arms were measured; None in reports from before it was recorded.
    """

    device: str
    workload: str
    objective: str
    direction: Direction
    verdict: Verdict
    baseline: float
    tuned: float
    speedup: float
    speedup_low: float
    speedup_high: float
    driver: str | None = None
    seed: int | None = None


@dataclass(frozen=True)
class Built:
    """What was measured: the compiler, and one digest over all machine code of each arm."""

    compiler: str
    baseline: str
    tuned: str


@dataclass(frozen=True)
class ItemReport:
    """One tuned test in one run.

    Attributes:
        message: the finding, in a sentence.
        remedy: the command or edit that mends it, when something is wrong.
        workload, speedup, speedup_low, speedup_high, evidence: the leading result's: measured now, else as committed;
            the evidence of an exact metric is its values.
        failed: whether the verdict fails the test under the settings of the run.
        moved: of a stale artifact, the entry functions whose machine code is not what was recorded.
        interrupted: Ctrl-C ended the search, so that the run ends after this item.
        results: every claim in words; the leading one first, then what is worse.
        built, measured: the builds of a normal run, and their times.
        proof: the digest by which the replayed artifact is known again; empty where none was read.
        ends: the causes that ended that artifact, where it no longer holds.
    """

    nodeid: str
    name: str
    target: str
    verdict: Verdict
    message: str
    remedy: str = ""
    failed: bool = False
    interrupted: bool = False
    workload: str = ""
    speedup: float | None = None
    speedup_low: float | None = None
    speedup_high: float | None = None
    evidence: str = ""
    checks: tuple[Check, ...] = ()
    notes: tuple[str, ...] = ()
    wrote: tuple[str, ...] = ()
    moved: tuple[MovedCode, ...] = ()
    results: tuple[Result, ...] = ()
    built: Built | None = None
    measured: tuple[Measured, ...] = ()
    proof: str = ""
    ends: tuple[End, ...] = ()

    def with_results(self, results: Sequence[Result]) -> ItemReport:
        """This report with other results; the first of them speaks for it."""
        if not results:
            return replace(self, results=())
        lead = results[0]
        return replace(
            self, results=tuple(results), workload=lead.workload, speedup=lead.speedup, speedup_low=lead.speedup_low,
            speedup_high=lead.speedup_high, evidence=lead.evidence or lead.text(),
        )  # fmt: skip

    def to_json(self) -> str:
        """One line of JSON, for a test report to carry between processes."""
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> ItemReport:
        """The inverse of ``to_json``."""
        return msgspec.convert(json.loads(text), cls)


@dataclass(frozen=True)
class Circumstances:
    """When and on what a run was.

    Attributes:
        date: its end, UTC: ``2026-11-23T05:15:00Z``.
        commit: None where git does not know.
        machine: the operating system's kernel and the processor's microcode, which change times and no machine code.
    """

    date: str
    commit: str | None
    machine: str


NightStanding = Literal["waiting", "searching", "proving", "closed", "failed", "skipped", "not reached"]


@dataclass(frozen=True)
class NightRow:
    """How far one benchmark has come in a night.

    Attributes:
        weight: of the benchmark's log-time in the night's objective.
        best: the search's best score, unproven: a log-ratio of at most 0, or ``shift``.
        shift: of a score without ratios, the difference as a share of the baseline's magnitude; None otherwise.
        share: of the night's whole budget, taken in all runs of the night.
        why: the reason of its standing, once it does not go on.
    """

    nodeid: str
    name: str
    weight: float
    standing: NightStanding
    evaluations: int
    best: float
    share: float
    why: str = ""
    shift: float | None = None


@dataclass(frozen=True)
class NightReport:
    """A night: one budget over many benchmarks.

    Attributes:
        unit: of ``total``, ``spent`` and ``reserved``.
        spent: earlier runs of the same night included.
        reserved: the estimate for the proofs still to come.
        doing: the step under way, or how the night ended.
    """

    unit: Literal["s", "evaluations"]
    total: float
    spent: float
    reserved: float
    doing: str
    rows: tuple[NightRow, ...]


@dataclass
class RunReport:
    """All tuned tests of a run, the problems of the store, the artifacts that no test claimed, and the night if any."""

    items: list[ItemReport] = field(default_factory=list)
    store_problems: list[str] = field(default_factory=list)
    orphans: list[str] = field(default_factory=list)
    run: Circumstances | None = None
    night: NightReport | None = None

    def as_dict(self) -> dict[str, Any]:
        """The versioned JSON report."""
        content = asdict(self)
        items = sorted(content.pop("items"), key=lambda item: item["nodeid"])
        return {"schema": REPORT_SCHEMA, "run": content.pop("run"), "items": items, **content}
