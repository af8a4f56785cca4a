"""What the store holds for one benchmark, read and checked: the artifact, its controls, its claims."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import KW_ONLY, dataclass

from pytest_compileiq.artifact import Artifact, is_same_code, stored_code
from pytest_compileiq.benchmark.assertions import OFF, TURN_ON
from pytest_compileiq.benchmark.benchmark import TunedBenchmark
from pytest_compileiq.benchmark.body import ArmFailure
from pytest_compileiq.claim import Claim
from pytest_compileiq.errors import BuildError, EnvironmentFault, SchemaTooNew, Signal, StoreError
from pytest_compileiq.model import BuildResult, ControlsFile
from pytest_compileiq.outcome import End, MovedCode, Verdict
from pytest_compileiq.replay.former_space import moved
from pytest_compileiq.replay.moved import adopt, former_of
from pytest_compileiq.rules.claims import standing
from pytest_compileiq.rules.staleness import Choice, are_elsewhere, choose
from pytest_compileiq.spelling import for_shell
from pytest_compileiq.store.metadata import restored
from pytest_compileiq.store.status import is_ownerless, own_name
from pytest_compileiq.store.store import Store
from pytest_compileiq.toolchains.option_classes import check_classes

RETUNE = "if the change is meant, run: pytest --tune {nodeid}"


@dataclass(eq=False)
class Stop(Signal):
    """Ends the replay with a verdict that is not a pass.

    ``ends`` is what ended the artifact, where that is the reason: ``artifact``, where the replay has read no other.
    """

    verdict: Verdict
    message: str
    remedy: str
    _: KW_ONLY
    cause: BaseException | None = None
    moved: tuple[MovedCode, ...] = ()
    ends: tuple[End, ...] = ()
    artifact: Artifact | None = None

    def __post_init__(self) -> None:
        super().__init__(self.message)

    @classmethod
    def wrong(
        cls,
        failure: ArmFailure,
        controls: str,
        workload: str,
        remedy: str = "mend the test",
        ends: tuple[End, ...] = (),
    ) -> Stop:
        """The body fails with ``controls``, as the report calls them; ``remedy`` is for one that raised nothing."""
        if failure.kind == "disturbed":  # the machine failed, which says nothing about the controls
            raise EnvironmentFault(failure.reason) from failure
        return cls(
            Verdict.WRONG,
            f"the test fails with {controls} on workload {workload!r}: {failure.reason}",
            "the traceback above is the test's own" if failure.__cause__ else remedy,
            cause=failure.__cause__,
            ends=ends,
        )


@dataclass(frozen=True)
class Integrity:
    """Reads ``store`` for ``benchmark``, and trusts nothing in it; ``adopts``: a moved test takes its artifact."""

    benchmark: TunedBenchmark
    store: Store
    adopts: bool = False

    def read(self, say: Callable[[str], object] = lambda _: None) -> Artifact:
        """The artifact for this compiler and architecture.

        Args:
            say: is told of an artifact that was adopted.

        Raises:
            Stop: there is none, it is another's, or it cannot be read.
        """
        benchmark = self.benchmark
        choice = choose(self.store.targets(benchmark.name), benchmark.builder.target, benchmark.builder.architecture)
        if choice.kind == "missing":
            if adopted := self._adopted(self.store.names(), say):
                return adopted
            raise Stop(
                Verdict.MISSING,
                f"{self.store.root.name}/{benchmark.name}/ holds no artifact: {choice.message}",
                f"run: pytest --tune {for_shell(benchmark.nodeid)}; to try its body first: "
                f"pytest --acf-check=off {for_shell(benchmark.nodeid)}",
            )
        if choice.kind == "other-compiler":
            raise self._other_compiler(choice)
        if choice.kind == "other-architecture":
            raise self._other_architecture(choice)
        artifact = self._read(benchmark.builder.target)
        if artifact.target != benchmark.builder.target:
            raise self.corrupt(
                f"{self.store.metadata_path(benchmark.name, benchmark.builder.target)} says target {artifact.target!r}"
            )
        if artifact.benchmark != benchmark.nodeid:
            if adopted := self._adopted([benchmark.name], say):
                return adopted
            raise Stop(
                Verdict.STALE,
                f"the artifact {benchmark.name!r} was made for {artifact.benchmark}; this test is {benchmark.nodeid}",
                RETUNE.format(nodeid=for_shell(benchmark.nodeid))
                if is_ownerless(artifact, benchmark.rootdir)
                else own_name(self.store, benchmark.name, artifact.benchmark),
                ends=("benchmark",),
                artifact=artifact,
            )
        return artifact

    def _adopted(self, names: Sequence[str], say: Callable[[str], object]) -> Artifact | None:
        """The artifact of ``names`` that this test had before it moved or was renamed, as its own now."""
        former = former_of(self.benchmark, self.store, names)
        if former is None:
            return None
        before, nodeid = former.artifact.benchmark, self.benchmark.nodeid
        if not self.adopts:
            raise Stop(
                Verdict.STALE,
                f"the artifact {former.name!r} was made for {before}, which is gone; {nodeid} has its digest and its "
                "machine code",
                f"if the test moved or was renamed, keep the artifact: pytest --acf-adopt {for_shell(nodeid)}",
                ends=("benchmark",),
                artifact=former.artifact,
            )
        try:
            adopted = adopt(self.benchmark, self.store, former)
        except StoreError as error:
            raise self.corrupt(error) from error
        say(f"adopted the artifact of {before}: commit {self.store.root.name}/")
        return adopted

    def controls(self, artifact: Artifact) -> ControlsFile | None:
        """The controls, checked byte for byte; None where there are none.

        Raises:
            Stop: they are not those of the metadata, or lie outside the test's space or the compiler's of today.
        """
        if artifact.outcome != "tuned" or artifact.controls is None:
            return None
        try:
            data = self.store.read_controls(self.benchmark.name, artifact)
            controls = self.benchmark.builder.parse(artifact.controls.kind, data, artifact.controls.knobs)
            check_classes(artifact)
        except StoreError as error:
            raise self.corrupt(error) from error
        if reason := self.benchmark.why_outside(controls):
            retune = RETUNE.format(nodeid=for_shell(self.benchmark.nodeid))
            if out_of_date := moved(self.benchmark, controls.knobs):
                wider = out_of_date.lets_in
                remedy = f"{wider} in the marker lets them in; {retune}" if wider else retune
                said = f"the compiler's space here no longer holds {out_of_date.said}"
                raise Stop(Verdict.STALE, said, remedy, ends=("compiler",))
            where = self.store.metadata_path(self.benchmark.name, artifact.target)
            raise Stop(
                Verdict.CORRUPT,
                f"{where}: the committed controls are outside the space that the test declares: {reason}",
                retune,
            )
        return controls

    def recompute_claims(self, artifact: Artifact, baseline: BuildResult, tuned: BuildResult) -> None:
        """Compute every claim again from the committed samples, and the exact ones from the builds.

        Raises:
            Stop: a claim is not what these give.
        """
        if not any(standing(claim) == "gained" for claim in artifact.claims):
            raise self.corrupt(f"{self.store.metadata_path(self.benchmark.name, artifact.target)} claims no gain")
        known = {workload.name for workload in self.benchmark.spec.workloads}
        metrics = {objective.metric for objective in self.benchmark.spec.objectives}
        for claim in artifact.claims:
            if claim.workload not in known or claim.objective not in metrics:
                raise self.corrupt(
                    f"a claim is about {claim.workload}/{claim.objective}, which this test does not have"
                )
            wanted = self.benchmark.direction(claim.objective)
            if claim.direction not in (wanted, None):
                said = f"a claim is to {claim.direction} {claim.objective}"
                raise self.corrupt(f"{said}, and this test is to {wanted} it")
        try:
            for claim in artifact.claims:
                if claim.of_the_build:
                    self._compare(claim, baseline, tuned)
            for claim, rows in self.store.read_samples(self.benchmark.name, artifact):
                from pytest_compileiq.rules.recompute import recompute  # heavy: numpy, which exact claims do without

                direction = self.benchmark.direction(claim.objective)
                recompute(claim, rows, thresholds=self.benchmark.spec.thresholds, direction=direction)
            if artifact.attribution is not None:
                from pytest_compileiq.rules.comparison import recompute_attribution  # as heavy

                recompute_attribution(artifact.attribution)
        except StoreError as error:
            raise self.corrupt(error) from error

    def _read(self, target: str) -> Artifact:
        try:
            return self.store.read(self.benchmark.name, target)
        except SchemaTooNew as error:
            raise Stop(Verdict.CORRUPT, str(error), "pip install -U pytest-compileiq") from error
        except StoreError as error:
            raise self.corrupt(error) from error

    def _other_architecture(self, choice: Choice) -> Stop:
        """Another machine's artifacts are no reason to fail; ones that the test no longer asks for are."""
        benchmark, compiler = self.benchmark, self.benchmark.builder.compiler
        stored = {
            target: self._read(target).compiler.architecture_from for target in self.store.targets(benchmark.name)
        }
        runs_here = benchmark.builder.native is None
        if runs_here and are_elsewhere(stored, benchmark.builder.target, compiler.architecture_from):
            remedy = f"run on that architecture, or tune for this one: pytest --tune {for_shell(benchmark.nodeid)}"
            return Stop(Verdict.NO_DEVICE, choice.message, remedy)
        message = f"the test asks for {benchmark.builder.target}, and the artifact is for {', '.join(stored)}"
        return Stop(Verdict.STALE, message, RETUNE.format(nodeid=for_shell(benchmark.nodeid)))

    def _other_compiler(self, choice: Choice) -> Stop:
        """The artifact is for another line of this compiler, which is asked how it takes the controls."""
        benchmark, artifact = self.benchmark, None
        with suppress(StoreError):
            artifact = self.store.read(benchmark.name, choice.artifact_target or "")
        remedy = benchmark.why_no_search() or f"run: pytest --tune {for_shell(benchmark.nodeid)}"
        message = choice.message + (self._refusal(artifact) if artifact else "")
        return Stop(Verdict.STALE, message, remedy, ends=("compiler",), artifact=artifact)

    def _refusal(self, artifact: Artifact) -> str:
        """How this compiler takes controls that were made for another line of it; empty where it cannot be asked."""
        if artifact.controls is None:
            return ""
        try:
            data = self.store.read_controls(self.benchmark.name, artifact)
            controls = self.benchmark.builder.parse(artifact.controls.kind, data, artifact.controls.knobs)
            if self.benchmark.why_outside(controls):
                return ""
            self.benchmark.builds.get(controls)
        except StoreError:
            return ""
        except (BuildError, EnvironmentFault) as error:
            return f"; {error}"
        return "; it takes the committed controls, and its machine code is unproven"

    def _compare(self, claim: Claim, baseline: BuildResult, tuned: BuildResult) -> None:
        try:
            before, after = (self.benchmark.value_of(claim.objective, built) for built in (baseline, tuned))
        except BuildError as error:
            raise StoreError(f"the claim about {claim.objective} cannot be compared: {error}") from error
        if (before, after) != (claim.baseline_value, claim.tuned_value):
            raise StoreError(
                f"the claim says {claim.objective} {claim.baseline_value} → {claim.tuned_value}; "
                f"the builds give {before} → {after}"
            )

    def renew(self, artifact: Artifact, baseline: BuildResult, tuned: BuildResult | None) -> str:
        """Record the digests of this version where those of an earlier one name the same code: the end of a sentence.

        Raises:
            Stop: the artifact cannot be written.
        """
        code = stored_code(baseline, tuned, artifact.code)
        firsts = [
            [arm and arm.first for pair in pairs.values() for arm in (pair.baseline, pair.tuned)]
            for pairs in (code, artifact.code)
        ]
        if not is_same_code(code, artifact.code) or firsts[0] == firsts[1]:
            return ""
        try:
            self.store.write(self.benchmark.name, artifact.model_copy(update={"code": code}), controls=[], samples=())
        except StoreError as error:
            raise self.corrupt(error) from error
        return "; its digests were of an earlier version, and are renewed"

    def corrupt(self, error: object) -> Stop:
        """The end of a replay of an artifact that cannot be used, because of ``error``."""
        what, mend = (error.what, error.mend) if isinstance(error, StoreError) else (str(error), "")
        mend = mend or restored(f"{self.store.root.name}/{self.benchmark.name}")
        return Stop(Verdict.CORRUPT, what, f"{mend}, or tune anew: pytest --tune {for_shell(self.benchmark.nodeid)}")


def expect_assertions(nodeid: str) -> None:
    """Have Python execute the assertions that judge the kernel."""
    if not __debug__:
        raise Stop(Verdict.INCONCLUSIVE, OFF, f"{TURN_ON} {for_shell(nodeid)}")
