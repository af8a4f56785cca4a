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
    """One claim as a person reads it."""

    device: str
    workload: str
    objective: str
    direction: Direction
    standing: Standing
    words: str  # to be read after the metric's name: 1.181x faster, 1.170 to 1.192; 57 → 30
    evidence: str = ""  # measured now, or the statistics on record; empty for an exact metric
    speedup: float | None = None  # above 1 if better; None, as its limits, where there are no ratios
    speedup_low: float | None = None
    speedup_high: float | None = None
    scope: str = ""  # the devices that it speaks for, which words end with; empty of one
    devices: tuple[str, ...] = ()  # their names; none of one

    def text(self, where: str = "") -> str:
        """The result in words, the metric first; a loss is called one."""
        return f"{'worse: ' if self.standing == 'worse' else ''}{self.objective}{where} {self.words}"


@dataclass(frozen=True)
class Check:
    """One check of a normal run."""

    name: str
    status: str  # passed, failed or not run; of the build cached or not kept
    detail: str = ""  # why, or with what result; the time of a cached build


@dataclass(frozen=True)
class Measured:
    """The measurement of one claim in a run, whatever its verdict."""

    device: str
    workload: str
    objective: str
    direction: Direction
    verdict: Verdict  # the gate's
    baseline: float  # the geometric mean of the arm's slots, in the objective's unit
    tuned: float
    speedup: float
    speedup_low: float
    speedup_high: float
    driver: str | None = None  # the device's, where it has one
    seed: int | None = None  # of the order of the arms; None in older reports


@dataclass(frozen=True)
class Built:
    """What was measured: the compiler, and one digest over all machine code of each arm."""

    compiler: str
    baseline: str
    tuned: str


@dataclass(frozen=True)
class ItemReport:
    """One tuned test in one run."""

    nodeid: str
    name: str
    target: str
    verdict: Verdict
    message: str  # the finding, in a sentence
    remedy: str = ""  # the command or edit that mends it, when something is wrong
    failed: bool = False  # whether the verdict fails the test under the settings of the run
    interrupted: bool = False  # Ctrl-C ended the search, so that the run ends after this item
    workload: str = ""  # of the leading result, as the next four
    speedup: float | None = None
    speedup_low: float | None = None
    speedup_high: float | None = None
    evidence: str = ""  # measured now, else as committed; of an exact metric its values
    checks: tuple[Check, ...] = ()
    notes: tuple[str, ...] = ()
    wrote: tuple[str, ...] = ()
    moved: tuple[MovedCode, ...] = ()  # of a stale artifact: machine code other than recorded
    results: tuple[Result, ...] = ()  # every claim in words; the leading one first, then what is worse
    built: Built | None = None  # in a normal run, and measured
    measured: tuple[Measured, ...] = ()
    proof: str = ""  # the digest by which the replayed artifact is known again; empty where none was read
    ends: tuple[End, ...] = ()  # the causes that ended that artifact, where it no longer holds

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
class TunedTest:
    """The outcome of a tuned test, and the test's place."""

    nodeid: str
    file: str  # from the repository's root
    line: int
    failure: str  # pytest's text; empty if the test did not fail
    item: ItemReport | None  # None without a verdict


@dataclass(frozen=True)
class Circumstances:
    """Date, commit and machine of a run."""

    date: str  # its end, UTC: 2026-11-23T05:15:00Z
    commit: str | None  # None where git does not know
    machine: str  # the operating system's kernel and the processor's microcode, which change times and no machine code


NightStanding = Literal["waiting", "searching", "proving", "closed", "failed", "skipped", "not reached"]


@dataclass(frozen=True)
class NightRow:
    """How far one benchmark has come in a night."""

    nodeid: str
    name: str
    weight: float  # of the benchmark's log-time in the night's objective
    standing: NightStanding
    evaluations: int
    best: float  # the search's best score, unproven: a log-ratio of at most 0, or shift
    share: float  # of the night's whole budget, taken in all runs of the night
    why: str = ""  # the reason of its standing, once it does not go on
    shift: float | None = None  # of a score without ratios: its difference as a share of the baseline's magnitude


@dataclass(frozen=True)
class NightReport:
    """A night: one budget over many benchmarks."""

    unit: Literal["s", "evaluations"]  # of total, spent and reserved
    total: float
    spent: float  # earlier runs of the same night included
    reserved: float  # the estimate for the proofs still to come
    doing: str  # the step under way, or how the night ended
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
