"""What became of each tuned test, as values: the truth that every rendering shows."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from typing import Any

from pytest_compileiq.artifact import Artifact, Claim
from pytest_compileiq.rules.claims import leading_claim as leading_claim
from pytest_compileiq.rules.staleness import MovedCode

REPORT_SCHEMA = 1
FAILING = frozenset({
    "STALE", "MISSING", "CORRUPT", "REFUTED", "WRONG", "FAILED", "INCONCLUSIVE", "NO DEVICE", "NO WORKER",
})  # fmt: skip


@dataclass(frozen=True)
class Check:
    """One check of a normal run: ``passed``, ``failed`` or ``not run``, and why or with what result."""

    name: str
    status: str
    detail: str = ""


@dataclass(frozen=True)
class ItemReport:
    """One tuned test in one run.

    Attributes:
        verdict: ``PROVEN`` (measured now), ``REPLAYED`` (all but speed), ``BASELINE``, ``TUNED``, ``KEPT``, or why not.
        message: what was found, in a sentence.
        remedy: the command or edit that mends it, when something is wrong.
        speedup, speedup_low, speedup_high: measured now, else as committed; None where there is none.
        evidence: what the numbers stand on: ``measured now`` or ``as committed``, device, p, d.
        failed: whether the verdict fails the test under the settings of the run.
        moved: of a stale artifact, the entry functions whose machine code is not what was recorded.
        interrupted: Ctrl-C ended the search, so that the run ends after this item.
    """

    nodeid: str
    name: str
    target: str
    verdict: str
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

    @classmethod
    def of(
        cls, nodeid: str, name: str, target: str, verdict: str, message: str, artifact: Artifact | None
    ) -> ItemReport:
        """A report that shows the artifact's leading claim."""
        claim = leading_claim(artifact) if artifact else None
        if claim is None:
            return cls(nodeid, name, target, verdict, message)
        if claim.kind == "exact":
            evidence = f"{claim.objective} {claim.baseline_value} → {claim.tuned_value}"
            return cls(nodeid, name, target, verdict, message, workload=claim.workload, evidence=evidence)
        return cls(
            nodeid, name, target, verdict, message, workload=claim.workload, speedup=claim.speedup,
            speedup_low=claim.speedup_low, speedup_high=claim.speedup_high, evidence=describe_evidence(claim),
        )  # fmt: skip

    def to_json(self) -> str:
        """One line of JSON, for a test report to carry between processes."""
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> ItemReport:
        """The inverse of ``to_json``."""
        content = json.loads(text)
        checks = tuple(Check(**check) for check in content.pop("checks"))
        moved = tuple(MovedCode(**{**code, "arms": tuple(code["arms"])}) for code in content.pop("moved"))
        tuples = {"checks": checks, "moved": moved, "notes": tuple(content["notes"]), "wrote": tuple(content["wrote"])}
        return cls(**{**content, **tuples})


@dataclass
class RunReport:
    """All tuned tests of a run, and the health of what no test claimed."""

    items: list[ItemReport] = field(default_factory=list)
    store_problems: list[str] = field(default_factory=list)
    orphans: list[str] = field(default_factory=list)

    def as_dict(self) -> dict[str, Any]:
        """The versioned JSON report."""
        return {
            "schema": REPORT_SCHEMA,
            "items": [asdict(item) for item in sorted(self.items, key=lambda item: item.nodeid)],
            "store_problems": self.store_problems,
            "orphans": self.orphans,
        }


def describe_evidence(claim: Claim) -> str:
    """The statistics of a measured claim in a few words."""
    processes = claim.test.processes if claim.test else 0
    return f"p = {claim.p_value:.1g}, d = {claim.cohens_d:.1f}, {processes} processes"
