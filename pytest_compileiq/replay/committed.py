"""What the store holds for one benchmark, also under a former name, read and checked: artifact, controls, claims."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import KW_ONLY, dataclass, replace

from pytest_compileiq.artifact import Artifact, FingerprintTable, is_same_code, stored_code
from pytest_compileiq.benchmark.assertions import OFF, TURN_ON
from pytest_compileiq.benchmark.benchmark import TunedBenchmark
from pytest_compileiq.benchmark.body import ArmFailure
from pytest_compileiq.benchmark.digest import digest_under
from pytest_compileiq.benchmark.spaces import parts_of, space_of
from pytest_compileiq.claim import Claim
from pytest_compileiq.errors import BuildError, EnvironmentFault, MarkerError, SchemaTooNew, Signal, StoreError
from pytest_compileiq.model import BuildResult, ControlsFile, Knobs
from pytest_compileiq.outcome import End, MovedCode, Verdict
from pytest_compileiq.rules.claims import standing
from pytest_compileiq.rules.fingerprint import are_moved, path_within
from pytest_compileiq.rules.staleness import Choice, Effect, are_elsewhere, choose, judge
from pytest_compileiq.store.metadata import restored
from pytest_compileiq.store.status import is_ownerless, other_owner, own_name, rename
from pytest_compileiq.store.store import Store
from pytest_compileiq.toolchains.option_classes import check_classes, classes_of, option_list
from pytest_compileiq.toolchains.options import options_of

RETUNE = "if the change is meant, run: pytest --tune {test}"


@dataclass(eq=False)
class Stop(Signal):
    """Ends the replay with a verdict that is not a pass.

    In ``remedy``, {test} stands for the test's id. ``ends`` is what ended the artifact, where that is the reason:
    ``artifact``, where the replay has read no other.
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
class Former:
    """The artifact, ``name`` in the store, that a test had under its former name or in its former file."""

    name: str
    artifact: Artifact
    controls: ControlsFile | None


@dataclass(frozen=True)
class Integrity:
    """Reads ``store`` for ``benchmark``, and trusts nothing in it; ``adopts``: a moved test takes its artifact."""

    benchmark: TunedBenchmark
    store: Store
    adopts: bool = False

    def read(self, say: Callable[[str], object] = lambda _: None) -> Artifact:
        """The artifact for this compiler and architecture; ``say`` is told of one that was adopted.

        Raises:
            Stop: there is none, it is another's, or it cannot be read.
        """
        benchmark = self.benchmark
        choice = choose(self.store.targets(benchmark.name), benchmark.builder.target, benchmark.builder.architecture)
        if choice.kind == "missing":
            if adopted := self._adopted(self.store.names(), say):
                return adopted
            why = f"{self.store.root.name}/{benchmark.name}/ holds no artifact: {choice.message}"
            remedy = "run: pytest --tune {test}; to try its body first: pytest --acf-check=off {test}"
            raise Stop(Verdict.MISSING, why, remedy)
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
            owned = not is_ownerless(artifact, benchmark.rootdir)
            remedy = own_name(self.store, benchmark.name, artifact.benchmark) if owned else RETUNE
            why = f"the artifact {benchmark.name!r} was made for {artifact.benchmark}; this test is {benchmark.nodeid}"
            raise Stop(Verdict.STALE, why, remedy, ends=("benchmark",), artifact=artifact)
        return artifact

    def _adopted(self, names: Sequence[str], say: Callable[[str], object]) -> Artifact | None:
        """The artifact of ``names`` that this test had before it moved or was renamed, as its own now."""
        here = (name for name in names if self.benchmark.builder.target in self.store.targets(name))
        former = next(filter(None, map(self._former, here)), None)
        if former is None:
            return None
        before = former.artifact.benchmark
        if not self.adopts:
            gone = f"the artifact {former.name!r} was made for {before}, which is gone"
            why = f"{gone}; {self.benchmark.nodeid} has its digest and its machine code"
            remedy = "if the test moved or was renamed, keep the artifact: pytest --acf-adopt {test}"
            raise Stop(Verdict.STALE, why, remedy, ends=("benchmark",), artifact=former.artifact)
        try:
            adopted = self._adopt(former)
        except StoreError as error:
            raise self.corrupt(error) from error
        say(f"adopted the artifact of {before}: commit {self.store.root.name}/")
        return adopted

    def _former(self, name: str) -> Former | None:
        """The artifact of ``name`` if it has no owner, and the test's parts and machine code: both arms are built."""
        benchmark = self.benchmark
        try:
            artifact = self.store.read(name, benchmark.builder.target)
            if not is_ownerless(artifact, benchmark.rootdir) or not _has_moved(benchmark, artifact):
                return None
            if other_owner(self.store, name, benchmark.nodeid, benchmark.rootdir):  # of another target
                return None
            controls = self._parsed(name, artifact) if artifact.outcome == "tuned" else None
            return Former(name, artifact, controls) if _is_current(benchmark, artifact, controls) else None
        except (StoreError, BuildError):  # the replay tells
            return None

    def _adopt(self, former: Former) -> Artifact:
        """Make a former artifact the benchmark's own; its claims stay, since the machine code is theirs."""
        benchmark = self.benchmark
        rename(self.store, former.name, benchmark.name)
        compiler = former.artifact.compiler.model_copy(update={"command": tuple(benchmark.builder.compiler.command)})
        changes = {
            "benchmark": benchmark.nodeid,
            "fingerprint": FingerprintTable.of(benchmark.fingerprint_with(former.controls)),
            "compiler": compiler,
        }
        fresh = former.artifact.model_copy(update=changes)
        return self.store.write(benchmark.name, fresh, controls=[], samples=()).artifact

    def _parsed(self, name: str, artifact: Artifact) -> ControlsFile | None:
        if artifact.controls is None:
            return None
        data = self.store.read_controls(name, artifact)
        return self.benchmark.builder.parse(artifact.controls.kind, data, artifact.controls.knobs)

    def controls(self, artifact: Artifact) -> ControlsFile | None:
        """The controls, checked byte for byte; None where there are none.

        Raises:
            Stop: they are not those of the metadata, or lie outside the test's space or the compiler's of today.
        """
        try:
            controls = self._parsed(self.benchmark.name, artifact) if artifact.outcome == "tuned" else None
            if controls is None:
                return None
            check_classes(artifact)
        except StoreError as error:
            raise self.corrupt(error) from error
        reason = self.benchmark.why_outside(controls)
        if reason or controls.kind == "blob":  # beside an ACF, like= reads the options that acf flags gives
            self._expect_baseline(artifact, options_of(controls.knobs))
        if reason:
            if former := formerly_held(self.benchmark, controls.knobs):
                options, wider = former
                remedy = f"{wider} in the marker lets them in; {RETUNE}" if wider else RETUNE
                why = f"the compiler's space here no longer holds {options}"
                raise Stop(Verdict.STALE, why, remedy, ends=("compiler",))
            where = self.store.metadata_path(self.benchmark.name, artifact.target)
            why = f"{where}: the committed controls are outside the space that the test declares: {reason}"
            raise Stop(Verdict.CORRUPT, why, RETUNE)
        return controls

    def _expect_baseline(self, artifact: Artifact, applied: Sequence[str]) -> None:
        """Stop where the command that ``like=`` names has become one with all the options ``applied``."""
        builder, like = self.benchmark.builder, self.benchmark.like
        is_another = like and builder.compiler.command != artifact.compiler.command
        if is_another and applied and all(map(builder.says, applied)):
            why = f"like={like!r} names a command that applies {' '.join(applied)} already, which no baseline does"
            remedy = f"name there the commands of a build without what acf flags gave it; {RETUNE}"
            raise Stop(Verdict.STALE, why, remedy)

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
            remedy = "run on that architecture, or tune for this one: pytest --tune {test}"
            return Stop(Verdict.NO_DEVICE, choice.message, remedy)
        message = f"the test asks for {benchmark.builder.target}, and the artifact is for {', '.join(stored)}"
        return Stop(Verdict.STALE, message, RETUNE)

    def _other_compiler(self, choice: Choice) -> Stop:
        """The artifact is for another line of this compiler, which is asked how it takes the controls."""
        benchmark, artifact = self.benchmark, None
        with suppress(StoreError):
            artifact = self.store.read(benchmark.name, choice.artifact_target or "")
        remedy = benchmark.why_no_search() or "run: pytest --tune {test}"
        message = choice.message + (self._refusal(artifact) if artifact else "")
        return Stop(Verdict.STALE, message, remedy, ends=("compiler",), artifact=artifact)

    def _refusal(self, artifact: Artifact) -> str:
        """How this compiler takes controls that were made for another line of it; empty where it cannot be asked."""
        try:
            controls = self._parsed(self.benchmark.name, artifact)
            if controls is None or self.benchmark.why_outside(controls):
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
        return Stop(Verdict.CORRUPT, what, mend + ", or tune anew: pytest --tune {test}")


def _has_moved(benchmark: TunedBenchmark, artifact: Artifact) -> bool:
    """Whether the test, digested under its recorded name, has the recorded parts, in whichever files."""
    before, now = artifact.fingerprint, benchmark.fingerprint
    recorded_name = path_within(artifact.benchmark)[1][-1:]
    own = digest_under("".join(recorded_name), benchmark.function, benchmark.rootdir)
    parts = {name: (own or "") if name.startswith("test ") else sha for name, sha in now.parts.items()}
    has_values = "" not in now.values.values() and (not before.values or before.values == now.values)
    return has_values and are_moved(before.parts, parts)


def _is_current(benchmark: TunedBenchmark, artifact: Artifact, controls: ControlsFile | None) -> bool:
    """Whether nothing is stale but where the test is, and what its inputs are called."""
    baseline = benchmark.builds.look(None)
    tuned = benchmark.builds.look(controls) if controls is not None else None
    found, recorded = benchmark.found(controls, baseline, tuned), artifact.fingerprint
    known = replace(found.fingerprint, benchmark=recorded.benchmark, values=dict(recorded.values))
    return all(finding.effect is not Effect.STALE for finding in judge(artifact, replace(found, fingerprint=known)))


def formerly_held(benchmark: TunedBenchmark, knobs: Knobs) -> tuple[str, str] | None:
    """Options of ``knobs`` that the compiler's own space holds no more, by class, and the ``space=`` that does, if any.

    Such a space depends on the sources and the flags: where a source names errno it is without ``-fno-math-errno``, and
    behind ``-O3`` without ``-O2``. None where the test's own space or its ``where=`` refuses them, or an option is in
    no list of the compiler's: then the test declares another space, or somebody changed the controls.
    """
    parts, compiler = parts_of(benchmark.spec.space), benchmark.builder.compiler
    known = option_list(compiler.name, compiler.command)
    held = {gene.name: gene.values for gene in benchmark.declared_space.knob_genes}
    refused = {name: value for name, value in knobs.items() if value not in held.get(name, ())}
    if known is None or not refused or not all(isinstance(part, str) for part in parts):
        return None
    if not all(known.knows(f"{name}{value}") for name, value in refused.items()):
        return None
    classed = classes_of(compiler.name, compiler.command, "options", refused).options
    wider = [*parts, *(own for own in classed if own not in parts)]
    try:
        lets_in = space_of(wider, benchmark.builder, benchmark.nodeid).why_not(knobs) is None
    except MarkerError:  # the compiler has no option of such a class
        lets_in = False
    said = "; ".join(f"{', '.join(options)} ({own})" for own, options in classed.items())
    return said, f"space={wider}" if lets_in else ""


def expect_assertions() -> None:
    """Have Python execute the assertions that judge the kernel."""
    if not __debug__:
        raise Stop(Verdict.INCONCLUSIVE, OFF, TURN_ON + " {test}")
