"""The baseline, checked before anything is searched: it builds, is right, and builds the same elsewhere; the incumbent.

It is built from a view of the project in another place: the files that the compiler names are copied there, and all
else is linked, so that a build that reads more than it names still finds it.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from pytest_compileiq.artifact import Artifact, is_same_code, stored_code
from pytest_compileiq.benchmark.benchmark import TunedBenchmark
from pytest_compileiq.benchmark.blast_radius import decided_by_others, stood_for, why_unnamed
from pytest_compileiq.benchmark.marker import METRICS
from pytest_compileiq.benchmark.values import digests_of
from pytest_compileiq.errors import BuildError, StoreError, TuneFailed
from pytest_compileiq.model import TIMED_OBJECTIVES, Arm, BuildResult, Candidate, ControlsFile, LoadChange
from pytest_compileiq.progress import Progress
from pytest_compileiq.rules.fingerprint import is_same_benchmark
from pytest_compileiq.spelling import first_of
from pytest_compileiq.store.packs import read_candidates
from pytest_compileiq.store.status import other_owner, own_name
from pytest_compileiq.store.store import Store
from pytest_compileiq.system.files import Unfit, inside
from pytest_compileiq.timing.checked import CHECKED_CALLS
from pytest_compileiq.timing.conditions import busy_machine
from pytest_compileiq.timing.sampler import BlockPlan
from pytest_compileiq.toolchains.base import Place
from pytest_compileiq.toolchains.functions import functions_of
from pytest_compileiq.workers.messages import CheckTask
from pytest_compileiq.workers.pool import EvaluationFailed, Pool, asked_again

_UPWARDS = re.compile(r"\.\.(?=/|$)")
_PYTHON_WRITES_THERE = "__pycache__"


def check_reproducible(benchmark: TunedBenchmark, built: BuildResult) -> tuple[str, ...]:
    """Build the baseline as another checkout would, and compare; returns notes on checks that were not possible."""
    unchecked: tuple[str, ...] = ()
    place = str(benchmark.rootdir)
    # Building a copy with the same marker cannot reveal paths of this checkout in the compiler's command.
    words = benchmark.builder.compiler.command
    if named := next((word for word in words if f"{place}{os.sep}" in word or word.endswith(place)), None):
        unchecked = (
            f"the compiler's command names this checkout ({named}): another one is stale where it names itself",
        )
    elsewhere = _build_elsewhere(benchmark)
    if isinstance(elsewhere, str):
        unchecked += (f"whether another checkout gives the same machine code was not checked: {elsewhere}",)
    elif elsewhere.digest == built.digest:
        return unchecked
    home = benchmark.builds.directory / "baseline-again"
    again = benchmark.builder.build(None, home, timeout_s=benchmark.spec.timeout_s)
    if again.digest != built.digest:
        raise TuneFailed(
            f"building the baseline twice in two directories gives different machine code in {_where(built, again)}, "
            "so no artifact of it could be replayed: remove __DATE__, __TIME__ and absolute paths from the sources"
        )
    if isinstance(elsewhere, BuildResult):
        raise TuneFailed(
            "building the baseline from a copy of the project in another directory gives different machine code in "
            f"{_where(built, elsewhere)}, so no artifact of it could be replayed in another checkout: remove what puts "
            f"the place of this one ({benchmark.rootdir}) into the code"
        )
    return unchecked


def _build_elsewhere(benchmark: TunedBenchmark) -> BuildResult | str:
    """The baseline as a copy of the project builds it, or why there is none."""
    here, sources = benchmark.place, benchmark.fingerprint.sources
    try:
        there = lay_out(here, sources, benchmark.builder.compiler.command, benchmark.builds.directory / "elsewhere")
        resolved, command = benchmark.spec.toolchain.resolve(there), benchmark.builder.compiler.command
        # Where the builder stands in for one whose builds cannot be loaded, so does its like there.
        moved = next((each for each in resolved.versions if each.compiler.command == command), resolved)
        if others := sorted(dict(moved.sources()).items() ^ sources.items()):
            return f"a copy of the project reads {others[0][0]} too: name files relative to the test file"
        return moved.build(None, benchmark.builds.directory / "baseline-elsewhere", timeout_s=benchmark.spec.timeout_s)
    except Exception as error:  # whatever a third party's toolchain raises
        return f"in a copy of the project: {' '.join(str(error).split()) or type(error).__name__}"


def lay_out(place: Place, files: Iterable[str], words: Iterable[str], home: Path) -> Place:
    """Make a view of the project under ``home``: ``files`` are copies, all else is a link to the original.

    Args:
        files: relative to rootdir; absolute ones stay where they are, as do those of installed packages.
        words: of the compiler's command; a path in them may lead out of rootdir.
    """
    files = [file for file in files if not Path(file).is_absolute() and (place.rootdir / file).exists()]
    top = _top(place, [*files, *words])

    def inside(path: Path) -> Path:
        return Path(os.path.relpath(path, top))

    copies = {inside(place.rootdir / file) for file in files}
    directories = {inside(place.test_dir), inside(place.rootdir)} | {file.parent for file in copies}
    directories |= {parent for directory in directories for parent in directory.parents}
    for directory in directories:
        (home / directory).mkdir(parents=True, exist_ok=True)
        for entry in sorted((top / directory).iterdir()):
            path = directory / entry.name
            if path not in copies and path not in directories and entry.name != _PYTHON_WRITES_THERE:
                (home / path).symlink_to(entry)
    for file in copies:
        shutil.copy2(top / file, home / file)
    return replace(place, test_dir=home / inside(place.test_dir), rootdir=home / inside(place.rootdir))


def _top(place: Place, paths: Iterable[str]) -> Path:
    named = (os.path.relpath(place.test_dir, place.rootdir), *paths)
    upwards = max(len(_UPWARDS.findall(name)) for name in named)
    above = [place.rootdir, *place.rootdir.parents]
    return above[min(upwards, len(above) - 1)]


def _where(one: BuildResult, other: BuildResult) -> str:
    names = sorted(name for name in one.code.keys() | other.code.keys() if one.code.get(name) != other.code.get(name))
    return ", ".join(first_of(names))


_GIVE = (
    "give numbers, texts, arrays, containers or dataclasses of these, or a function with a name, "
    "and make the object of them in a fixture or in the test"
)


@dataclass(frozen=True)
class CheckedBaseline:
    """A baseline that builds, reproducibly, and is correct on every workload."""

    built: BuildResult
    stands_for: frozenset[str]  # the entry functions that its toolchain names, and that its body takes from load()
    drew: bool  # whether its body reads ``acf.rng``
    unchecked: tuple[str, ...]  # notes on the build and on what could not be checked
    change: LoadChange | None = None  # of production's command, so that its objects can be loaded


_SLOW_S = 5.0


def check_baseline(benchmark: TunedBenchmark, pool: Pool, say: Callable[[str], None]) -> CheckedBaseline:
    """Build the baseline twice and run it nested in itself on every workload."""
    _, refused = digests_of(benchmark.given, benchmark.spec.workloads, benchmark.rootdir)
    for name, reason in refused.items():
        raise TuneFailed(f"{name} {reason}, so that a change of it could not be seen: {_GIVE}")
    if benchmark.needs_device and benchmark.native is not None:
        timed = benchmark.timed_objectives
        recorded = [objective.metric for objective in timed if objective.measured not in TIMED_OBJECTIVES]
        nothing = f"nothing can record {recorded[0]!r} ({METRICS})" if recorded else ""
        raise TuneFailed(f"{benchmark.native}, so {nothing or 'its speed cannot be measured on this machine'}")
    built, unchecked = _build(benchmark, say)
    if idle := benchmark.idle_macro():
        raise TuneFailed(idle)
    used: frozenset[str] = frozenset()
    drew = False
    for workload in benchmark.spec.workloads:
        try:
            if workload.weight == 0 or not benchmark.timed_objectives:
                touched = asked_again(partial(pool.ask, 0, benchmark, CheckTask(workload.name, None)))
            else:
                plan = BlockPlan("baseline", ("ABBA",), 1, checks={0: CHECKED_CALLS})  # does it repeat itself?
                arms: Mapping[Arm, ControlsFile | None] = {"baseline": None, "tuned": None}
                touched = asked_again(partial(pool.block, 0, benchmark, arms, workload, plan)).touched
        except EvaluationFailed as failure:
            raise TuneFailed(
                f"the baseline is not usable on workload {workload.name!r} ({failure.kind}): {failure.reason}"
            ) from failure
        used |= touched.used
        drew |= touched.drew
    stands_for = stood_for(benchmark, used)
    if functions_of(benchmark.builder).neighbours == "allow" and not stands_for:
        raise TuneFailed(
            "neighbours='allow' lets controls change functions beside those of the test, and "
            "the test names none of its own: name them, as in functions='compress', or take it from load()"
        )
    others = decided_by_others(benchmark, stands_for) if stands_for else ()
    change = benchmark.builder.changed(benchmark.spec.timeout_s)
    added = change or " ".join(benchmark.builder.loaded_with)
    told = (f"compiled with {added}: a command without makes other machine code",) if added else ()
    return CheckedBaseline(built, stands_for, drew, (*told, *unchecked, *others), change)


def tell_noise(benchmark: TunedBenchmark, progress: Progress) -> None:
    """Say before anything is measured that others keep the processor busy that it is measured on."""
    if any(benchmark.device_kind(objective.metric) == "cpu" for objective in benchmark.timed_objectives):
        for said in busy_machine():
            progress.say(f"this machine is noisy, and small gains are not proven on it: {said}")


def _build(benchmark: TunedBenchmark, say: Callable[[str], None]) -> tuple[BuildResult, tuple[str, ...]]:
    try:
        _expect_sources_inside(benchmark)
        built = benchmark.builds.get(None)
        if built.seconds > _SLOW_S:  # nothing else is said before the first evaluations
            say(f"a build takes {built.seconds:.0f} s; the baseline's is made again in a copy of the project")
        unchecked = check_reproducible(benchmark, built)
    except BuildError as error:
        raise TuneFailed(f"the baseline does not build: {error}") from error
    if unnamed := why_unnamed(benchmark):
        raise TuneFailed(unnamed)
    if not benchmark.objectives:
        raise TuneFailed(f"{benchmark.absent}, and the test has no other objective")
    of_build = next((each.metric for each in benchmark.objectives if not each.needs_device), None)
    if of_build and not benchmark.builder.compiler.compiles:
        raise TuneFailed(f"nothing is compiled, so there is no {of_build}: measure, or record a score")
    try:
        for metric in (*(objective.metric for objective in benchmark.exact_objectives), *benchmark.spec.limits):
            benchmark.value_of(metric, built)
    except BuildError as error:
        raise TuneFailed(str(error)) from error
    return built, (*benchmark.remarks(built), *unchecked)


def _expect_sources_inside(benchmark: TunedBenchmark) -> None:
    """Have every file of the record lie where any clone and any ``acf`` command can read it again."""
    for name in benchmark.fingerprint.sources:
        try:
            inside(benchmark.rootdir, name)
        except Unfit as why:
            top = os.path.commonpath([benchmark.rootdir.resolve(), (benchmark.rootdir / name).resolve()])
            rooted = (
                f"make {top} the rootdir, by a pytest.ini there and none below it, or by "
                f"pytest --rootdir={shlex.quote(top)} in every run; or "
                if top != os.path.sep
                else "headers of a library are named by -isystem; else "
            )
            raise TuneFailed(
                f"{name} {why}, whose rootdir is {benchmark.rootdir}: {rooted}move the file into the project"
            ) from why


@dataclass(frozen=True)
class Incumbent:
    """The stored artifact, and its controls; None where it has none or they no longer build here."""

    artifact: Artifact
    controls: ControlsFile | None


def expect_owner(benchmark: TunedBenchmark, store: Store) -> None:
    """Raise ``TuneFailed`` if a living test other than this one owns its artifact, which would be overwritten."""
    if other := other_owner(store, benchmark.name, benchmark.nodeid, benchmark.rootdir):
        raise TuneFailed(
            f"{benchmark.nodeid}: {store.root.name}/{benchmark.name}/ holds the artifact of {other}, "
            f"which is not overwritten: {own_name(store, benchmark.name, other)}"
        )


def find_incumbent(benchmark: TunedBenchmark, store: Store) -> tuple[Incumbent | None, tuple[str, ...]]:
    """What is stored for this target, and notes on it: an unreadable artifact is replaced, and a note says so."""
    if benchmark.builder.target not in store.targets(benchmark.name):
        return None, ()
    try:
        artifact = store.read(benchmark.name, benchmark.builder.target)
    except StoreError as error:
        return None, (f"the stored artifact was not readable and is replaced: {error}",)
    if artifact.controls is None:
        return Incumbent(artifact, None), ()
    try:
        data = store.read_controls(benchmark.name, artifact)
        controls = benchmark.builder.parse(artifact.controls.kind, data, artifact.controls.knobs)
        if reason := benchmark.why_outside(controls):
            where = store.metadata_path(benchmark.name, artifact.target)
            raise StoreError(f"{where}: controls outside the test's space: {reason}")
        benchmark.builds.get(controls)
    except (StoreError, BuildError) as error:
        return Incumbent(artifact, None), (f"the stored controls no longer build here: {error}",)
    return Incumbent(artifact, controls), ()


def is_healthy(benchmark: TunedBenchmark, incumbent: Incumbent) -> bool:
    """Whether the incumbent is still what was proven: same inputs, same machine code."""
    artifact = incumbent.artifact
    if (
        incumbent.controls is None
        or artifact.outcome != "tuned"
        or not is_same_benchmark(artifact.fingerprint, benchmark.fingerprint)
    ):
        return False
    builds = benchmark.builds
    return is_same_code(stored_code(builds.get(None), builds.get(incumbent.controls), artifact.code), artifact.code)


def starting_points(
    benchmark: TunedBenchmark, start_from: Path | None, incumbent: Incumbent | None
) -> tuple[list[Candidate], tuple[str, ...]]:
    """What is tried first: the committed controls, then what ``--tune-from`` names; and notes on what was left out."""
    seeds = []
    if incumbent and incumbent.controls and incumbent.artifact.outcome != "retired":
        blob = incumbent.controls.data if incumbent.controls.kind == "blob" else None
        seeds.append(Candidate(incumbent.controls.knobs, blob, origin="committed"))
    if start_from is not None:
        seeds += read_candidates(start_from)
    outside = {seed.origin: reason for seed in seeds if (reason := benchmark.why_outside(seed))}
    notes = [f"{origin} was left out: {reason}" for origin, reason in list(outside.items())[:3]]
    return [seed for seed in seeds if seed.origin not in outside], tuple(notes)
