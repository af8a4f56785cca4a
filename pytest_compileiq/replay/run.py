"""A normal run of one benchmark: store → staleness → rebuild → correctness → claim → gate."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from pytest_compileiq.artifact import Artifact
from pytest_compileiq.benchmark.benchmark import TunedBenchmark
from pytest_compileiq.benchmark.blast_radius import recorded_functions, stood_for, why_refused, why_unnamed
from pytest_compileiq.benchmark.body import ArmFailure, Arms, Bodies, Body, check_body
from pytest_compileiq.benchmark.cached_builds import told_by_a_second
from pytest_compileiq.claim import Claim
from pytest_compileiq.config import Settings
from pytest_compileiq.errors import BuildError
from pytest_compileiq.machine_code.names import listed, readable
from pytest_compileiq.model import BuildResult, ControlsFile, of_entries
from pytest_compileiq.outcome import Built, Check, ItemReport, Measured, Verdict
from pytest_compileiq.proof import advice
from pytest_compileiq.replay.committed import RETUNE, Integrity, Stop, expect_assertions
from pytest_compileiq.replay.measured import built_of, expect_proven, measure_again, measured_otherwise
from pytest_compileiq.report.claims import claim_text, report_on, results_of
from pytest_compileiq.rules.claims import as_measured
from pytest_compileiq.rules.staleness import UNEXPLAINED, Effect, Finding, ends_of, judge, moved_code, proof_of
from pytest_compileiq.spelling import for_shell
from pytest_compileiq.system.vcs import commits_touching
from pytest_compileiq.timing.registry import find_device_or_none
from pytest_compileiq.workers.pool import Pool

if TYPE_CHECKING:
    from pytest_compileiq.rules.gate import Decision

_COMPARED = "exact metrics compared exactly"
_NAME_ONE = "name one by its symbol, or as its source spells it"
_RUN_ELSEWHERE = "run on a machine that can run the kernel"
_REPROVE = (
    "if the change is meant, prove the committed controls anew: pytest --tune --tune-budget=0 {test}; "
    "or search anew: pytest --tune {test}"
)


@dataclass
class Replay:
    """One benchmark's normal run. ``run`` never raises for what it finds: it reports."""

    benchmark: TunedBenchmark
    settings: Settings
    integrity: Integrity
    body: Body
    pool: Callable[[], Pool]
    checks: list[Check] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    _recorded: dict[str, Mapping[str, float]] = field(default_factory=dict)
    _built: Built | None = None
    _measured: list[Measured] = field(default_factory=list)
    _proof: str = ""

    def run(self) -> tuple[ItemReport, BaseException | None]:
        """The report, and the exception of the user's own body when that is what failed."""
        if self.settings.check == "off":
            return self._baseline_only(Verdict.UNCHECKED, "nothing was read: --acf-check=off")
        try:
            if self.settings.draw is not None:
                return self._draw(self.settings.draw), None
            artifact = self.integrity.read(self.notes.append)
            self._proof = proof_of(artifact)
            # Withdrawn controls, and those that wait for their proof, claim nothing: nothing of them can be stale.
            if artifact.outcome == "retired":
                return self._baseline_only(Verdict.RETIRED, f"withdrawn: {artifact.reason}")
            if artifact.outcome == "promoted":
                report, cause = self._baseline_only(Verdict.PROMOTED, artifact.reason or "")
                prove = self._named("prove it: pytest --tune --tune-budget=0 {test}")
                return replace(report, remedy=report.remedy or prove), cause
            return self._replay(artifact), None
        except Stop as stop:
            return self._stopped(stop)

    def why_current(self) -> str | None:
        """Why no new search is needed: the artifact is read, built and compared; None when it is stale or withdrawn."""
        try:
            artifact = self.integrity.read()
            if artifact.outcome in ("promoted", "retired"):
                return None
            controls = self.integrity.controls(artifact)
            renewed = self.integrity.renew(artifact, *self._rebuild(artifact, controls))
        except Stop as stop:
            return stop.message if stop.verdict == Verdict.NO_DEVICE else None
        return f"{self.benchmark.name} still holds for {artifact.target}{renewed}"

    def _draw(self, seed: int) -> ItemReport:
        from pytest_compileiq.replay.arms import controls_to_draw, repeat_draw  # zip files, which few runs read

        controls = controls_to_draw(self.benchmark, self.integrity, self.settings.start_from)
        # The baseline runs alone first, so that the one that fails is told; on another draw last, so that memory that
        # the arms share holds nothing of ``seed`` when the tuned one runs.
        for draw in (seed, 0):
            self._correct(None, draw)
        if self._missed is not None:
            raise Stop(Verdict.NO_DEVICE, self._missed, _RUN_ELSEWHERE)
        repeat_draw(self.benchmark, self.body, controls, seed)
        return self._report(Verdict.UNCHECKED, f"both arms hold on draw {seed}, and nothing else was checked", None)

    def _replay(self, artifact: Artifact) -> ItemReport:
        controls = self.integrity.controls(artifact)
        if controls is not None:
            self._passed("integrity", f"sha256 {controls.sha256[:8]}")
        baseline, tuned = self._rebuild(artifact, controls)
        expect_assertions()
        used = self._correct(controls)
        self._blast_radius(artifact, tuned, used)
        self.notes += advice.of_the_body(self.benchmark)
        if controls is None or tuned is None:
            self._expect_a_run(self._missed)
            return self._report(Verdict.BASELINE, artifact.reason or "nothing was found to beat the defaults", artifact)
        self._built = built_of(self.benchmark, artifact)
        self.integrity.recompute_claims(artifact, baseline, tuned)
        self._passed("claim", f"{len(artifact.claims)} recomputed from the committed samples")
        self._expect_a_run(self._missed)  # only now: no device is needed to compare what is exact
        return self._gate(artifact, controls)

    # ── rebuild and compare ──────────────────────────────────────────────────────────────────────────────────────

    def _rebuild(self, artifact: Artifact, controls: ControlsFile | None) -> tuple[BuildResult, BuildResult | None]:
        try:
            baseline = self.benchmark.builds.look(None)
        except BuildError as error:
            why = f"the baseline does not build: {error}"
            build = ", or run the build of like= first, where it generates a header" if self.benchmark.like else ""
            raise Stop(Verdict.FAILED, why, f"mend the source or the flags{build}") from error
        if unnamed := why_unnamed(self.benchmark):
            raise Stop(Verdict.FAILED, unnamed, _NAME_ONE)
        for objective in self.benchmark.exact_objectives:
            try:
                if of_entries(objective.metric)[1] is not None:
                    self.benchmark.value_of(objective.metric, baseline)
            except BuildError as error:
                raise Stop(Verdict.FAILED, str(error), _NAME_ONE) from error
        self.notes += self.benchmark.remarks(baseline)
        try:
            tuned = self.benchmark.builds.look(controls) if controls else None
        except BuildError as error:
            why = f"the compiler no longer takes the committed controls: {error}"
            raise Stop(Verdict.STALE, why, RETUNE, ends=("compiler",)) from error
        if made := {built.cached for built in (baseline, tuned) if built is not None and built.cached}:
            self.checks.append(Check("build", "cached", f"same inputs as a build of {' and of '.join(sorted(made))}"))
        if reason := self.benchmark.builds.why_not_kept:
            self.checks.append(Check("build", "not kept", reason))
        self._judge_staleness(artifact, controls, baseline, tuned)
        return baseline, tuned

    def _judge_staleness(
        self, artifact: Artifact, controls: ControlsFile | None, baseline: BuildResult, tuned: BuildResult | None
    ) -> None:
        found = self.benchmark.found(controls, baseline, tuned)
        findings = judge(artifact, found, readable)
        stale = [finding for finding in findings if finding.effect is Effect.STALE]
        self.notes += [finding.message for finding in findings if finding.effect is not Effect.STALE]
        if stale:
            why = "; ".join(finding.message + self._because(artifact, finding, baseline) for finding in stale)
            remedy, moved = RETUNE if tuned is None else _REPROVE, moved_code(artifact, found)
            raise Stop(Verdict.STALE, why, remedy, moved=moved, ends=ends_of(stale))
        same = [*([] if findings else ["same inputs"]), *(["same machine code"] if found.compiler.compiles else [])]
        self._passed("staleness", ", ".join(same))

    def _because(self, artifact: Artifact, finding: Finding, baseline: BuildResult) -> str:
        """What is known of a finding's cause: the commits since, or whether the build is reproducible at all."""
        if finding.field == UNEXPLAINED and self.benchmark.builder.compiler.compiles:
            return f": {told_by_a_second(baseline, self.benchmark.builder, self.benchmark.spec.timeout_s)}"
        files = finding.files or ((self.benchmark.nodeid.partition("::")[0],) if finding.field == "benchmark" else ())
        commits = commits_touching(self.benchmark.rootdir, files, artifact.provenance.commit) if files else []
        return f" (since then: {'; '.join(commits)})" if commits else ""

    # ── correct before fast ──────────────────────────────────────────────────────────────────────────────────────

    def _correct(self, controls: ControlsFile | None, draw: int = 0) -> set[str] | None:
        """Run the body on every workload: the functions it took from ``load()``, or None where it could not be run."""
        benchmark = self.benchmark
        if benchmark.builder.native is not None and benchmark.needs_device:
            self.checks.append(Check("correctness", "not run", benchmark.builder.native))
            return None
        used: set[str] = set()
        compared: dict[str, str] = {}
        for workload in benchmark.spec.workloads:
            try:
                arms: Arms = {"baseline": None, "tuned": controls}
                checked = check_body(Bodies(benchmark, self.body, arms, workload), draw=draw)
            except ArmFailure as failure:
                if controls is None:
                    raise Stop.wrong(failure, "the baseline", workload.name) from failure
                raise Stop.wrong(failure, "the committed controls", workload.name, ends=("wrong",)) from failure
            if checked.not_run is not None:
                self.checks.append(Check("correctness", "not run", checked.not_run))
                return None
            self._recorded[workload.name] = checked.recorded
            used |= checked.touched.used
            compared |= checked.compared
        self._passed("correctness", "; ".join(f"{name} compared {how}" for name, how in compared.items()))
        return used

    @property
    def _missed(self) -> str | None:
        return next((check.detail for check in self.checks if check.status == "not run"), None)

    def _expect_a_run(self, missed: str | None) -> None:
        if missed is not None and self.settings.no_device != "replay":
            raise Stop(Verdict.NO_DEVICE, missed, _RUN_ELSEWHERE)

    def _blast_radius(self, artifact: Artifact, tuned: BuildResult | None, used: set[str] | None) -> None:
        """Hold what the controls change to what the test stands for; where the body did not run, as far as is known."""
        benchmark, recorded = self.benchmark, artifact.functions
        stands_for = stood_for(benchmark, recorded if used is None else used)
        if (now := recorded_functions(benchmark, stands_for)) != recorded:
            before, after = (listed(names) or "nothing that it names" for names in (recorded, now))
            raise self.integrity.corrupt(f"the artifact says that it stands for {before}; this test stands for {after}")
        if tuned is not None and (refused := why_refused(benchmark, tuned, stands_for)):
            raise Stop(Verdict.FAILED, *refused)

    # ── claims and the gate ──────────────────────────────────────────────────────────────────────────────────────

    def _gate(self, artifact: Artifact, controls: ControlsFile) -> ItemReport:
        claims = [claim for claim in artifact.claims if claim.kind != "exact"]
        not_compared = self._compare_scores(artifact)
        cached = next((check.detail for check in self.checks if check.status == "cached"), None)
        same = cached or ("same machine code" if artifact.compiler.compiles else "same inputs")
        report = self._report(Verdict.REPLAYED, f"{same}, still correct", artifact)
        if not claims:
            return report if not_compared else replace(report, verdict=Verdict.PROVEN, message=_COMPARED)
        here = [claim for claim in claims if claim.device == self._device_name(claim.objective)]
        if reason := self._why_not_measured(here, claims):
            self.checks.append(Check("speed", "not run", reason))
            return replace(report, checks=tuple(self.checks))
        from pytest_compileiq.proof.calibration import warning  # heavy: numpy

        for arm in (None, controls):
            self.benchmark.builds.get(arm)  # so that workers find both
        self.notes += advice.of_the_call(self.pool(), self.benchmark, controls)
        try:
            decisions = [self._gate_claim(claim, controls) for claim in here]
        finally:
            self.notes += self.pool().remarks(self.benchmark)
        results = results_of(artifact.claims, measured=list(map(as_measured, here, decisions)))
        said = [measured_otherwise(self.benchmark, claim) for claim in here]
        self.notes += filter(None, [warning(self.benchmark.rootdir, here[0].device), *sorted(set(said))])
        lead = results[0].workload, results[0].objective
        decided = zip(here, decisions, strict=True)
        reasons = {(claim.workload, claim.objective): decision.reason for claim, decision in decided}
        report = self._report(Verdict.PROVEN, reasons.get(lead, _COMPARED), artifact)
        return report.with_results(results)

    def _compare_scores(self, artifact: Artifact) -> bool:
        """Compare the scores that were the same in every process of the proof, by one run of each arm here.

        Returns whether some could not be compared: proven on another device, or the body does not run here.
        """
        scores = [claim for claim in artifact.claims if claim.kind == "exact" and not claim.of_the_build]
        here = [claim for claim in scores if claim.device == self._device_name(claim.objective)]
        missed = [
            self._compare_scores_on(name, [claim for claim in here if claim.workload == name])
            for name in dict.fromkeys(claim.workload for claim in here)
        ]
        if elsewhere := sorted({claim.device for claim in scores if claim not in here}):
            missed.append(f"proven on {', '.join(elsewhere)}; this is {self._device_name(scores[0].objective)}")
        reasons = dict.fromkeys(filter(None, missed))
        self.checks += [Check("score", "not run", reason) for reason in reasons]
        return bool(reasons)

    def _compare_scores_on(self, name: str, claims: Sequence[Claim]) -> str | None:
        """Compare the scores on one workload: why that could not be done, or None where it was."""
        if name not in self._recorded:
            return self._missed
        workload = next(workload for workload in self.benchmark.spec.workloads if workload.name == name)
        try:
            checked = check_body(Bodies(self.benchmark, self.body, {"baseline": None, "tuned": None}, workload))
        except ArmFailure as failure:
            raise Stop.wrong(failure, "the baseline", name) from failure
        if checked.not_run is not None:
            self._expect_a_run(checked.not_run)
            return checked.not_run
        for claim in claims:
            before, after = (taken.get(claim.objective) for taken in (checked.recorded, self._recorded[name]))
            if (before, after) != (claim.baseline_value, claim.tuned_value):
                proven = f"{claim.baseline_value!r} → {claim.tuned_value!r} was proven"
                why = f"{claim.objective} on workload {name!r} is {before!r} → {after!r} now, and {proven}"
                raise Stop(Verdict.REFUTED, why, _REPROVE, ends=("gain",))
        self._passed("score", f"{name}: {'; '.join(map(claim_text, claims))}, as proven")
        return None

    def _why_not_measured(self, here: list[Claim], claims: list[Claim]) -> str | None:
        if self.settings.check in ("replay", "rebuild"):
            return f"--acf-check={self.settings.check}"
        native = self.benchmark.builder.native if self.benchmark.needs_device else None
        if native is not None or here:
            return native
        others = ", ".join(sorted({claim.device for claim in claims}))
        if self.settings.check == "measure":
            why = f"nothing is claimed for {self._device_name(claims[0].objective)}, only for {others}"
            raise Stop(Verdict.INCONCLUSIVE, why, "claim it: pytest --tune --tune-budget=0 {test}")
        return f"proven on {others}; this is {self._device_name(claims[0].objective)}"

    def _device_name(self, metric: str) -> str | None:
        device = find_device_or_none(self.benchmark.device_kind(metric))
        return device.name if device else None

    def _gate_claim(self, claim: Claim, controls: ControlsFile) -> Decision:
        decision, measured = measure_again(self.pool(), self.benchmark, controls, claim, self.settings.seed)
        self._measured += measured
        expect_proven(self.benchmark, claim, decision)
        self._passed("speed", f"{claim.workload}: {decision.reason}")
        if decision.note:
            self.notes.append(f"{claim.workload}: {decision.note}")
        return decision

    # ── reports ──────────────────────────────────────────────────────────────────────────────────────────────────

    def _passed(self, name: str, detail: str) -> None:
        self.checks.append(Check(name, "passed", detail))

    def _report(self, verdict: Verdict, message: str, artifact: Artifact | None) -> ItemReport:
        benchmark = self.benchmark
        report = report_on(benchmark.nodeid, benchmark.name, benchmark.builder.target, verdict, message, artifact)
        return replace(
            report, checks=tuple(self.checks), notes=(*report.notes, *self.notes), built=self._built,
            measured=tuple(self._measured), proof=self._proof,
        )  # fmt: skip

    def _stopped(self, stop: Stop) -> tuple[ItemReport, BaseException | None]:
        if stop.artifact is not None:
            self._proof = proof_of(stop.artifact)
        settings, remedy = self.settings, self._named(stop.remedy)
        told = self._report(stop.verdict, stop.message, None)
        told = replace(told, remedy=remedy, moved=stop.moved, ends=stop.ends)
        lenient = {
            Verdict.STALE: settings.stale == "warn",
            Verdict.MISSING: settings.missing == "warn",
            Verdict.INCONCLUSIVE: settings.inconclusive == "warn",
            Verdict.NO_DEVICE: settings.no_device != "fail",
        }
        if not lenient.get(stop.verdict):
            return replace(told, failed=True), stop.cause
        body_had_its_turn = any(check.name == "correctness" for check in self.checks)
        if body_had_its_turn or self.benchmark.builder.native is not None:
            return told, None
        report, cause = self._baseline_only(stop.verdict, stop.message)
        return replace(report, remedy=report.remedy or remedy, moved=stop.moved, ends=stop.ends), cause

    def _named(self, remedy: str) -> str:
        return remedy.replace("{test}", for_shell(self.benchmark.nodeid))

    def _baseline_only(self, verdict: Verdict, message: str) -> tuple[ItemReport, BaseException | None]:
        """Run the body with no controls, so that the test still tests something."""
        try:
            self.benchmark.builds.get(None)
            self._correct(None)
        except BuildError as error:
            failed = self._report(Verdict.FAILED, f"the baseline does not build: {error}", None)
            return replace(failed, failed=True), None
        except Stop as stop:
            return replace(self._report(stop.verdict, stop.message, None), failed=True), stop.cause
        return self._report(verdict, message, None), None
