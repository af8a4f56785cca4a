"""A normal run of one benchmark: store → staleness → rebuild → correctness → claim → gate."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from pytest_compileiq.artifact import Artifact, Claim
from pytest_compileiq.builds import changed_beyond
from pytest_compileiq.config import Settings
from pytest_compileiq.errors import BuildError, EnvironmentFault, SchemaTooNew, StoreError
from pytest_compileiq.evaluate import ArmFailure, check_body
from pytest_compileiq.fixture import Acf
from pytest_compileiq.model import BuildResult, ControlsFile
from pytest_compileiq.pool import EvaluationFailed, Pool
from pytest_compileiq.report.model import Check, ItemReport
from pytest_compileiq.rules.staleness import Effect, Finding, choose, judge
from pytest_compileiq.store import Store
from pytest_compileiq.subject import Subject
from pytest_compileiq.timing.registry import find_device_or_none
from pytest_compileiq.vcs import commits_touching

if TYPE_CHECKING:
    from pytest_compileiq.rules.gate import Decision

Body = Callable[[Acf], None]
_RETUNE = "if the change is meant, run: pytest --tune {nodeid}"
_REPROVE = "if the controls are still wanted, run: pytest --tune --tune-budget=0 {nodeid}"


class Stop(Exception):
    """Ends the replay with a verdict that is not a pass."""

    def __init__(self, verdict: str, message: str, remedy: str, *, cause: BaseException | None = None) -> None:
        super().__init__(message)
        self.verdict = verdict
        self.message = message
        self.remedy = remedy
        self.cause = cause


@dataclass
class Replay:
    """One benchmark's normal run. ``run`` never raises for what it finds: it reports."""

    subject: Subject
    settings: Settings
    store: Store
    body: Body
    pool: Callable[[], Pool]
    checks: list[Check] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def run(self) -> tuple[ItemReport, BaseException | None]:
        """The report, and the exception of the user's own body when that is what failed."""
        if self.settings.check == "off":
            return self._baseline_only("UNCHECKED", "nothing was read: --acf-check=off")
        try:
            artifact = self._read()
            if artifact.outcome == "retired":  # it claims nothing, so nothing of it can be stale
                return self._baseline_only("RETIRED", f"withdrawn: {artifact.reason}")
            return self._replay(artifact), None
        except Stop as stop:
            return self._stopped(stop)

    def why_current(self) -> str | None:
        """Why no new search is needed: the artifact is read, built and compared; None when it is stale or withdrawn."""
        try:
            artifact = self._read()
            if artifact.outcome == "retired":
                return None
            controls = self._controls(artifact)
            self._judge_staleness(artifact, *self._rebuild(artifact, controls))
        except Stop as stop:
            return stop.message if stop.verdict == "NO DEVICE" else None
        return f"{self.subject.name} still holds for {artifact.target}"

    def _replay(self, artifact: Artifact) -> ItemReport:
        controls = self._controls(artifact)
        baseline, tuned = self._rebuild(artifact, controls)
        self._judge_staleness(artifact, baseline, tuned)
        self._correct(controls, baseline, tuned)
        if controls is None or tuned is None:
            return self._report("BASELINE", artifact.reason or "nothing was found to beat the defaults", artifact)
        self._recompute_claims(artifact, baseline, tuned)
        return self._gate(artifact, controls)

    # ── read and verify ──────────────────────────────────────────────────────────────────────────────────────────

    def _read(self) -> Artifact:
        subject = self.subject
        choice = choose(self.store.targets(subject.name), subject.resolved.target, subject.resolved.architecture)
        if choice.kind == "missing":
            raise Stop(
                "MISSING",
                f"{self.store.root.name}/{subject.name}/ holds no artifact: {choice.message}",
                f"run: pytest --tune {subject.nodeid}",
            )
        if choice.kind == "other-compiler":
            raise Stop(
                "STALE", choice.message + self._refusal(choice.artifact_target), f"run: pytest --tune {subject.nodeid}"
            )
        if choice.kind == "other-architecture":
            raise Stop(
                "NO DEVICE",
                choice.message,
                f"run on that architecture, or tune for this one: pytest --tune {subject.nodeid}",
            )
        try:
            artifact = self.store.read(subject.name, subject.resolved.target)
        except SchemaTooNew as error:
            raise Stop("CORRUPT", str(error), "pip install -U pytest-compileiq") from error
        except StoreError as error:
            raise self._corrupt(error) from error
        if artifact.target != subject.resolved.target:
            raise self._corrupt(
                f"{self.store.metadata_path(subject.name, subject.resolved.target)} says target {artifact.target!r}"
            )
        if artifact.benchmark != subject.nodeid:
            raise Stop(
                "STALE",
                f"the artifact {subject.name!r} was made for {artifact.benchmark}, and this test is {subject.nodeid}",
                _RETUNE.format(nodeid=subject.nodeid),
            )
        return artifact

    def _refusal(self, target: str | None) -> str:
        """What this compiler says of controls that were made for another line of it."""
        try:
            artifact = self.store.read(self.subject.name, target or "")
            if artifact.controls is None:
                return ""
            data = self.store.read_controls(self.subject.name, artifact)
            controls = self.subject.resolved.parse(artifact.controls.kind, data, artifact.controls.knobs)
            self.subject.builds.get(controls)
        except StoreError:
            return ""
        except (BuildError, EnvironmentFault) as error:
            return f"; {error}"
        return "; it takes the committed controls, and nothing is proven of what it makes of them"

    def _controls(self, artifact: Artifact) -> ControlsFile | None:
        if artifact.outcome != "tuned" or artifact.controls is None:
            return None
        try:
            data = self.store.read_controls(self.subject.name, artifact)
            controls = self.subject.resolved.parse(artifact.controls.kind, data, artifact.controls.knobs)
        except StoreError as error:
            raise self._corrupt(error) from error
        if reason := self.subject.why_outside(controls):
            where = self.store.metadata_path(self.subject.name, artifact.target)
            raise Stop(
                "CORRUPT",
                f"{where}: the committed controls are outside the space that the test declares: {reason}",
                _RETUNE.format(nodeid=self.subject.nodeid),
            )
        self._passed("integrity", f"sha256 {controls.sha256[:8]}")
        return controls

    def _corrupt(self, error: object) -> Stop:
        folder = f"{self.store.root.name}/{self.subject.name}"
        return Stop(
            "CORRUPT",
            str(error),
            f"restore it with git checkout -- {folder}, or tune anew: pytest --tune {self.subject.nodeid}",
        )

    # ── rebuild and compare ──────────────────────────────────────────────────────────────────────────────────────

    def _rebuild(self, artifact: Artifact, controls: ControlsFile | None) -> tuple[BuildResult, BuildResult | None]:
        try:
            baseline = self.subject.builds.get(None)
        except BuildError as error:
            raise Stop("FAILED", f"the baseline does not build: {error}", "mend the source or the flags") from error
        try:
            return baseline, self.subject.builds.get(controls) if controls else None
        except BuildError as error:
            raise Stop(
                "STALE",
                f"the compiler no longer takes the committed controls: {error}",
                _RETUNE.format(nodeid=self.subject.nodeid),
            ) from error

    def _judge_staleness(self, artifact: Artifact, baseline: BuildResult, tuned: BuildResult | None) -> None:
        findings = judge(artifact, self.subject.found(baseline, tuned), outcome=artifact.outcome)
        stale = [finding for finding in findings if finding.effect is Effect.STALE]
        self.notes += [finding.message for finding in findings if finding.effect is not Effect.STALE]
        if stale:
            only_benchmark = all(finding.field == "benchmark" for finding in stale)
            remedy = (_REPROVE if only_benchmark and artifact.outcome == "tuned" else _RETUNE).format(
                nodeid=self.subject.nodeid
            )
            raise Stop(
                "STALE", "; ".join(finding.message + self._since(artifact, finding) for finding in stale), remedy
            )
        self._passed("staleness", "same inputs, same machine code" if not findings else "same machine code")

    def _since(self, artifact: Artifact, finding: Finding) -> str:
        files = finding.files or ((self.subject.nodeid.partition("::")[0],) if finding.field == "benchmark" else ())
        commits = commits_touching(self.subject.rootdir, files, artifact.provenance.commit) if files else []
        return f" (since then: {'; '.join(commits)})" if commits else ""

    # ── correct before fast ──────────────────────────────────────────────────────────────────────────────────────

    def _correct(self, controls: ControlsFile | None, baseline: BuildResult, tuned: BuildResult | None) -> None:
        subject = self.subject
        if subject.resolved.native is not None and subject.needs_device:
            self._not_run(subject.resolved.native)
            return
        used: set[str] = set()
        compared: dict[str, str] = {}
        for workload in subject.spec.workloads:
            try:
                checked = check_body(subject, self.body, {"baseline": None, "tuned": controls}, workload)
            except ArmFailure as failure:
                arm = "with the committed controls" if controls else "with the baseline"
                raise Stop(
                    "WRONG",
                    f"the test fails {arm} on workload {workload.name!r}: {failure.reason}",
                    "the traceback above is the test's own",
                    cause=failure.__cause__,
                ) from failure
            if checked.not_run is not None:
                self._not_run(checked.not_run)
                return
            used |= checked.used
            compared |= checked.compared
        self._passed("correctness", "; ".join(f"{name} compared {how}" for name, how in compared.items()))
        if tuned is not None:
            self._blast_radius(baseline, tuned, used)

    def _not_run(self, reason: str) -> None:
        if self.settings.no_device != "replay":
            raise Stop("NO DEVICE", reason, "run on a machine that can run the kernel")
        self.checks.append(Check("correctness", "not run", reason))

    def _blast_radius(self, baseline: BuildResult, tuned: BuildResult, used: set[str]) -> None:
        if beyond := changed_beyond(baseline, tuned, used):
            raise Stop(
                "FAILED",
                f"the controls also change {', '.join(beyond)}, which the test does not take from load()",
                "call it in the test too, or move it to a file of its own",
            )

    # ── claims and the gate ──────────────────────────────────────────────────────────────────────────────────────

    def _recompute_claims(self, artifact: Artifact, baseline: BuildResult, tuned: BuildResult) -> None:
        if not any(claim.kind in ("gain", "exact") for claim in artifact.claims):
            raise self._corrupt(f"{self.store.metadata_path(self.subject.name, artifact.target)} claims no gain")
        known = {workload.name for workload in self.subject.spec.workloads}
        metrics = {objective.metric for objective in self.subject.spec.objectives}
        for claim in artifact.claims:
            if claim.workload not in known or claim.objective not in metrics:
                raise self._corrupt(
                    f"a claim is about {claim.workload}/{claim.objective}, which this test does not have"
                )
            try:
                self._recompute(artifact, claim, baseline, tuned)
            except StoreError as error:
                raise self._corrupt(error) from error
        self._passed("claim", f"{len(artifact.claims)} recomputed from the committed samples")

    def _recompute(self, artifact: Artifact, claim: Claim, baseline: BuildResult, tuned: BuildResult) -> None:
        if claim.kind != "exact":
            from pytest_compileiq.rules.recompute import recompute  # heavy: numpy, which exact claims do without

            rows = self.store.read_samples(self.subject.name, artifact, claim)
            direction = self.subject.direction(claim.objective)
            recompute(claim, rows, thresholds=self.subject.spec.thresholds, direction=direction)
            return
        found = baseline.metrics.get(claim.objective), tuned.metrics.get(claim.objective)
        if found != (claim.baseline_value, claim.tuned_value):
            raise StoreError(
                f"the claim says {claim.objective} {claim.baseline_value} → {claim.tuned_value}; "
                f"the builds give {found[0]} → {found[1]}"
            )

    def _gate(self, artifact: Artifact, controls: ControlsFile) -> ItemReport:
        claims = [claim for claim in artifact.claims if claim.kind != "exact"]
        report = self._report("REPLAYED", "same machine code, still correct", artifact)
        if not claims:
            return replace(report, verdict="PROVEN", message="exact metrics compared exactly")
        here = [claim for claim in claims if claim.device == self._device_name(claim.objective)]
        if reason := self._why_not_measured(here, claims):
            self.checks.append(Check("speed", "not run", reason))
            return replace(report, checks=tuple(self.checks))
        from pytest_compileiq.calibration import warning  # heavy: numpy

        for claim in here:
            report = self._gate_claim(report, claim, controls)
        said = [warning(self.subject.rootdir, here[0].device), *sorted(set(map(self._other_driver, here)))]
        return replace(report, notes=(*report.notes, *filter(None, said)))

    def _other_driver(self, claim: Claim) -> str:
        device = find_device_or_none(self.subject.device_kind(claim.objective))
        if device is None or device.driver == claim.driver:
            return ""
        before, now = claim.driver or "unknown", device.driver or "unknown"
        return f"proven under driver {before}, measured now under {now}; --tune-budget=0 claims it for this one"

    def _why_not_measured(self, here: list[Claim], claims: list[Claim]) -> str | None:
        if self.settings.check == "replay":
            return "--acf-check=replay"
        native = self.subject.resolved.native if self.subject.needs_device else None
        if native is not None or here:
            return native
        others = ", ".join(sorted({claim.device for claim in claims}))
        if self.settings.check == "measure":
            raise Stop(
                "INCONCLUSIVE",
                f"nothing is claimed for {self._device_name(claims[0].objective)}, only for {others}",
                f"claim it: pytest --tune --tune-budget=0 {self.subject.nodeid}",
            )
        return f"proven on {others}; this is {self._device_name(claims[0].objective)}"

    def _device_name(self, metric: str) -> str | None:
        device = find_device_or_none(self.subject.device_kind(metric))
        return device.name if device else None

    def _gate_claim(self, report: ItemReport, claim: Claim, controls: ControlsFile) -> ItemReport:
        from pytest_compileiq.prove import prove_again  # heavy: numpy
        from pytest_compileiq.rules.gate import Verdict

        nodeid = self.subject.nodeid
        try:
            decision = prove_again(
                self.pool(), self.subject, controls, claim, seed=claim.test.seed + 1 if claim.test else 1
            )
        except EvaluationFailed as failure:
            lost = failure.arm == "baseline" or failure.kind == "disturbed"
            verdict = "INCONCLUSIVE" if lost else "REFUTED"
            raise Stop(
                verdict,
                f"the {failure.arm or 'measured'} arm failed while it was measured ({failure.kind}): {failure.reason}",
                _RETUNE.format(nodeid=nodeid),
            ) from failure
        if decision.verdict is not Verdict.PROVEN:
            remedy = (
                f"measure again on a quiet machine, or tune anew: pytest --tune {nodeid}"
                if decision.verdict is Verdict.INCONCLUSIVE
                else f"tune anew: pytest --tune {nodeid}"
            )
            raise Stop(
                decision.verdict.value,
                f"workload {claim.workload!r}, claimed {claim.speedup:.3f}x: {decision.reason}"
                + (f"; {decision.note}" if decision.note else ""),
                remedy,
            )
        self._passed("speed", f"{claim.workload}: {decision.reason}")
        if note := getattr(decision, "note", ""):
            self.notes.append(f"{claim.workload}: {note}")
        return _measured(replace(report, checks=tuple(self.checks), notes=tuple(self.notes)), claim, decision)

    # ── reports ──────────────────────────────────────────────────────────────────────────────────────────────────

    def _passed(self, name: str, detail: str) -> None:
        self.checks.append(Check(name, "passed", detail))

    def _report(self, verdict: str, message: str, artifact: Artifact | None) -> ItemReport:
        subject = self.subject
        report = ItemReport.of(subject.nodeid, subject.name, subject.resolved.target, verdict, message, artifact)
        return replace(report, checks=tuple(self.checks), notes=tuple(self.notes))

    def _stopped(self, stop: Stop) -> tuple[ItemReport, BaseException | None]:
        lenient = {
            "STALE": self.settings.stale,
            "MISSING": self.settings.missing,
            "INCONCLUSIVE": self.settings.inconclusive,
        }
        if lenient.get(stop.verdict) == "warn" or (stop.verdict == "NO DEVICE" and self.settings.no_device != "fail"):
            if stop.verdict == "INCONCLUSIVE" or self.subject.resolved.native is not None:
                return replace(self._report(stop.verdict, stop.message, None), remedy=stop.remedy), None
            report, cause = self._baseline_only(stop.verdict, stop.message)
            return replace(report, remedy=report.remedy or stop.remedy), cause
        report = replace(self._report(stop.verdict, stop.message, None), remedy=stop.remedy, failed=True)
        return report, stop.cause

    def _baseline_only(self, verdict: str, message: str) -> tuple[ItemReport, BaseException | None]:
        """The body with no controls, so that the test still tests something."""
        try:
            self._correct(None, self.subject.builds.get(None), None)
        except BuildError as error:
            return replace(self._report("FAILED", f"the baseline does not build: {error}", None), failed=True), None
        except Stop as stop:
            if stop.verdict == "NO DEVICE":
                return self._report(verdict, message, None), None
            return replace(self._report(stop.verdict, stop.message, None), failed=True), stop.cause
        return self._report(verdict, message, None), None


def _measured(report: ItemReport, claim: Claim, decision: Decision) -> ItemReport:
    if claim.kind != "gain" and report.verdict == "PROVEN":
        return report
    return replace(
        report, verdict="PROVEN", message=decision.reason, workload=claim.workload, speedup=decision.speedup,
        speedup_low=decision.speedup_low, speedup_high=decision.speedup_high, evidence="measured now",
    )  # fmt: skip
