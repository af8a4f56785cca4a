"""A tuned test on this machine: its marker read, its compiler found, its inputs digested."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from msgspec import Struct

from pytest_compileiq.benchmark import spaces
from pytest_compileiq.benchmark.builds import HERE, Afar, Builds, loadable
from pytest_compileiq.benchmark.cached_builds import CachedBuilds
from pytest_compileiq.benchmark.digest import digest_benchmark, given_to
from pytest_compileiq.benchmark.marker import TuneSpec, check_function, name_within, read_marker
from pytest_compileiq.benchmark.spaces import read_predicate
from pytest_compileiq.benchmark.values import digests_of
from pytest_compileiq.config import NamedOptions
from pytest_compileiq.errors import MarkerError
from pytest_compileiq.machine_code.metrics import value_of
from pytest_compileiq.model import (
    BuildResult,
    Candidate,
    ControlsFile,
    Direction,
    Fingerprint,
    KnobValue,
    Objective,
    Workload,
    digest_of_command,
    sha256_hex,
)
from pytest_compileiq.space import Gene, Space, Where
from pytest_compileiq.timing.clock import Device
from pytest_compileiq.timing.registry import find_device, why_no_energy
from pytest_compileiq.toolchains.base import Builder, Place
from pytest_compileiq.toolchains.environment import kept_out
from pytest_compileiq.toolchains.functions import functions_of
from pytest_compileiq.toolchains.macros import check_names, macro_of, macros_of
from pytest_compileiq.toolchains.nvidia.tools import pinned

if TYPE_CHECKING:
    from pytest_compileiq.rules.staleness import Rebuilt

_MOST_VALUES = 100_000
_MOST_TRIED = 16  # values of one option


class TunedBenchmark(Struct, frozen=True, dict=True):
    """One tuned test on this machine.

    Raises:
        MarkerError: the space, an option of it or a predicate is not usable, or there is no space.
        BuildError: a build fails, or has no such metric.
        EnvironmentFault: this machine has no device of the kind.
    """

    nodeid: str  # pytest's name of the test, recorded as the artifact's benchmark
    spec: TuneSpec  # the checked marker
    builder: Builder  # the compiler on the kernel
    builds: Builds  # the builds of this run
    function: Callable[..., Any]  # the test function
    fixtures: tuple[Callable[..., Any], ...]  # the fixture functions that it requests
    rootdir: Path
    test_dir: Path  # the test file's directory, which the toolchain's paths are relative to
    afar: Afar = HERE  # what other machines do for it
    given: Mapping[str, object] = {}  # as of given_to

    @property
    def name(self) -> str:
        """The artifact's name."""
        return self.spec.name

    @property
    def like(self) -> str | None:
        """The build whose command the marker takes, if it takes one."""
        return getattr(self.spec.toolchain, "like", None)

    @property
    def place(self) -> Place:
        """Of its marker."""
        return Place(self.test_dir, self.rootdir, self.afar.host_flags)

    @cached_property
    def objectives(self) -> tuple[Objective, ...]:
        """The objectives that this machine can take: ``energy`` may be absent, and then ``absent`` says why."""
        asked = self.spec.objectives
        return tuple(objective for objective in asked if objective.measured != "energy" or self.absent is None)

    @cached_property
    def absent(self) -> str | None:
        """Why the energy that the marker asks for is not measured, or None."""
        if not any(objective.measured == "energy" for objective in self.spec.objectives):
            return None
        afar = self.afar.measures.get(self.builder.clock)
        return afar.no_energy if afar else why_no_energy(self.builder.clock)

    @property
    def timed_objectives(self) -> tuple[Objective, ...]:
        """Objectives that are sampled."""
        return tuple(objective for objective in self.objectives if not objective.exact)

    @property
    def exact_objectives(self) -> tuple[Objective, ...]:
        """Objectives that are read from the build."""
        return tuple(objective for objective in self.objectives if objective.exact)

    @property
    def scores_only(self) -> bool:
        """Whether all that is sampled are scores, which the body records: none is a time or an energy."""
        return all(objective.is_score for objective in self.timed_objectives)

    @property
    def needs_device(self) -> bool:
        """Whether the kernel has to run for some objective."""
        return any(objective.needs_device for objective in self.objectives)

    def direction(self, metric: str) -> Direction:
        """Which way ``metric`` is better."""
        return next(objective.direction for objective in self.spec.objectives if objective.metric == metric)

    def value_of(self, metric: str, built: BuildResult) -> int:
        """The value of an exact objective in ``built``."""
        apart = functions_of(self.builder).apart
        entries = {entry: code.metrics for entry, code in built.code.items() if entry not in apart}
        return value_of(metric, built.metrics, entries)

    @property
    def timed_workloads(self) -> tuple[Workload, ...]:
        """Workloads that count in the score."""
        return tuple(workload for workload in self.spec.workloads if workload.weight > 0)

    @property
    def checked_workloads(self) -> tuple[Workload, ...]:
        """Workloads that are checked for correctness only."""
        return tuple(workload for workload in self.spec.workloads if workload.weight == 0)

    def device(self, metric: str) -> Device:
        """The device that ``metric`` is taken on: this machine's, unless it is measured afar."""
        kind = self.device_kind(metric)
        afar = self.afar.measures.get(kind)
        return afar.device if afar else find_device(kind)

    @property
    def native(self) -> str | None:
        """Why what is built cannot run where it is measured; None if it can, or if only another machine can tell."""
        return self.builder.native if self.afar.host_flags is None else None

    def device_kind(self, metric: str) -> str:
        """Which kind of device is measured: a compilation runs on the processor, whatever it compiles for."""
        return "cpu" if metric == "compile_time" else self.builder.clock

    @cached_property
    def declared_space(self) -> Space:
        """What the search may vary: the marker's space, else the compiler's own. Committed controls are held to it."""
        space = spaces.space_of(self.spec.space, self.builder, self.nodeid)
        check_names(gene.name for gene in space.knob_genes)
        if self.spec.where:
            predicates = tuple(read_predicate(call, self.rootdir) for call in self.spec.where)
            space = space.bounded(Where(predicates, spaces.baseline_values(self.builder, space)))
        return space

    @cached_property
    def baseline_values(self) -> Mapping[str, KnobValue]:
        """Knob → its value in the baseline, where it has one of the space."""
        return spaces.baseline_values(self.builder, self.declared_space)

    @cached_property
    def space(self) -> Space:
        """``declared_space``, to search it."""
        if reason := self.why_no_search():
            raise MarkerError(f"{self.nodeid}: {reason}")
        return self.declared_space

    def why_no_search(self) -> str | None:
        """Why the test's space cannot be searched with the compiler that is here, or None when it can."""
        opaque = self.declared_space.opaque
        if opaque is None:
            return None
        takes = self.builder.acf_line
        if reason := opaque.why_not():
            return reason
        if opaque.line == takes:
            return None
        if takes is None:
            return f"{opaque} is for {opaque.line}, and {self.builder.compiler.name} takes no ACF"
        values = {"compiler": getattr(self.spec.toolchain, "compiler", None), "like": self.like}
        named = next((f", which {key}={value!r} has to name" for key, value in values.items() if value), "")
        return (
            f"{opaque} is for {opaque.line}, and this kernel is compiled by {takes}: {pinned(opaque.version)}{named}, "
            "or search space='options'"
        )

    def check_options(self, named: NamedOptions, committed: Callable[[], Collection[str]] = tuple) -> None:
        """Hold the options of the marker's space to what may be committed: no other option could ever ship.

        A macro is the test's own to declare; only ``acf flags``, which does not see the test, needs it named. So is an
        option that the baseline says already, which no controls hold unless they are ``committed`` with it.
        """
        from pytest_compileiq.toolchains.option_classes import option_list  # heavy, and a worker asks for no space

        compiler = self.builder.compiler
        if not compiler.compiles:
            knobs = {gene.name: gene.values[-1] for gene in self.space.knob_genes}
            self.builder.render(Candidate(knobs))
            return
        known = option_list(compiler.name, compiler.command)
        if known is None:
            return
        for gene in self._own_options:
            # A range that is too long to look through ends in a number with too many digits for any option.
            values = gene.values if len(gene.values) <= _MOST_VALUES else gene.values[-1:]
            for value in values:
                option = f"{gene.name}{value}"
                is_own_macro = macro_of(option) is not None and known.may_hold(option)
                reason = None if is_own_macro else known.why_not([option], named)
                is_idle = reason and known.may_hold(option) and self._is_never_rendered(option, gene)
                if reason and not (is_idle and option not in committed()):
                    raise MarkerError(f"space: {reason}")

    def _is_never_rendered(self, option: str, own: Gene) -> bool:
        """Whether the baseline says ``option``, and no other of the space's options changes that."""
        others = (f"{gene.name}{value}" for gene in self._own_options if gene != own for value in _few(gene.values))
        return self.builder.says(option) and all(self.builder.says(option, [other]) for other in others)

    def try_options(self) -> None:
        """Have the compiler take each option of the marker's space by itself, if it can be asked."""
        tried = [f"{gene.name}{value}" for gene in self._own_options for value in _few(gene.values)]
        if refusal := self.builder.refused_option(tried):
            raise MarkerError(f"space: {refusal}")

    def check_space(self) -> None:
        """Look up the spaces that the marker names, and judge its predicates, in runs without a search too."""
        spaces.check_names(self.spec.space, self.builder, self.nodeid)
        if self.spec.where:
            _ = self.declared_space

    def rendered(self, candidate: Candidate) -> ControlsFile:
        """The controls of ``candidate``, without the knobs that have the baseline's value."""
        knobs = spaces.without_baseline_values(candidate.knobs, self.declared_space, self.builder, self.baseline_values)
        return self.builder.render(replace(candidate, knobs=knobs))

    def why_outside(self, controls: ControlsFile | Candidate) -> str | None:
        """Why ``controls`` are not of the test's space, or None when they are."""
        space = self.declared_space
        is_acf = controls.blob is not None if isinstance(controls, Candidate) else controls.kind == "blob"
        if is_acf and space.opaque is None:
            return "they hold an ACF, and the space has named knobs only"
        if not is_acf and space.opaque is not None and not space.genes:
            return f"they hold no ACF, and the space is {space.opaque}"
        return space.why_not(spaces.with_baseline_values(controls.knobs, space, lambda: self.baseline_values))

    @cached_property
    def fingerprint(self) -> Fingerprint:
        """Digests of the benchmark, the command and the sources as they are now."""
        workloads = {workload.name: (workload.values, workload.weight) for workload in self.spec.workloads}
        objectives = [(objective.metric, objective.direction) for objective in self.spec.objectives]
        benchmark = digest_benchmark(
            self.function, fixtures=self.fixtures, rootdir=self.rootdir, workloads=workloads, objectives=objectives,
            functions=functions_of(self.builder).texts,
            data=self.builder.data,
        )  # fmt: skip
        command = digest_of_command(self.builder.compiler.command)
        return Fingerprint(
            benchmark=benchmark.sha256,
            command=command,
            sources=dict(self.builds.sources(None)),
            parts=dict(benchmark.parts),
            values=digests_of(self.given, self.spec.workloads, self.rootdir)[0],
            environment=dict(self.builder.environment),
        )

    def fingerprint_with(self, controls: ControlsFile | None) -> Fingerprint:
        """As ``fingerprint``, with what the compiler reads only with ``controls``: a macro decides what is included."""
        if controls is None or not macros_of(controls.knobs):
            return self.fingerprint
        return replace(self.fingerprint, sources={**self.fingerprint.sources, **self.builds.sources(controls)})

    def idle_macro(self) -> str | None:
        """Why a macro of the space changes nothing in the sources; None if none is known to."""
        macros = [gene for gene in self.space.knob_genes if macro_of(f"{gene.name}{gene.values[0]}") is not None]
        if not macros:
            return None
        return self.builder.why_without_effect(*({gene.name: gene.values[end] for gene in macros} for end in (0, -1)))

    def found(self, controls: ControlsFile | None, baseline: BuildResult | None, tuned: BuildResult | None) -> Rebuilt:
        """What is here now, for the staleness rules; ``tuned`` is the build with ``controls``."""
        from pytest_compileiq.rules.staleness import Rebuilt  # heavy, and a worker judges nothing

        return Rebuilt(
            compiler=self.builder.compiler,
            fingerprint=self.fingerprint_with(controls),
            baseline=baseline.code if baseline else None,
            tuned=tuned.code if tuned else None,
            architecture=self.builder.architecture,
        )

    def remarks(self, built: BuildResult) -> tuple[str, ...]:
        """What the toolchain has to say about a build, in sentences, and what its compiler was not shown."""
        compiler = self.builder.compiler.name
        ignored = kept_out(compiler)
        said = [f"built without {', '.join(ignored)}, set here, which {compiler} reads: unset it"] if ignored else []
        return (*self.builder.remarks(built), *said)

    @property
    def _own_options(self) -> Sequence[Gene]:
        """The compiler's options in the marker's own spaces."""
        own = [Space.from_mapping(part) for part in spaces.parts_of(self.spec.space) if isinstance(part, Mapping)]
        return [gene for space in own for gene in space.knob_genes if gene.name.startswith("-")]


def _few(values: Sequence[KnobValue]) -> Sequence[KnobValue]:
    return values if len(values) <= _MOST_TRIED else [values[0], values[-1]]


def find_marker(item: pytest.Item) -> pytest.Mark | None:
    """The test's ``tune`` marker, or None."""
    return item.get_closest_marker("tune")


def make_benchmark(
    item: pytest.Item,
    *,
    rootdir: Path,
    build_dir: Path,
    builder: Builder | None = None,
    cached: CachedBuilds | None = None,
    slots: AbstractContextManager[object] | None = None,
    jobs: int = 1,
    afar: Afar = HERE,
) -> TunedBenchmark:
    """``item`` on this machine; its compiler is looked for here unless ``builder`` is given.

    Args:
        cached: the builds of other runs, where they may be taken instead of new ones.
        slots: for builds of this machine, where several benchmarks are searched at once.
        jobs: compilers of one benchmark that may run at once.
        afar: what other machines do for it.

    Raises:
        MarkerError: the marker is not usable, or the test cannot be tuned.
        EnvironmentFault: the compiler is missing.
    """
    mark = find_marker(item)
    if mark is None or not isinstance(item, pytest.Function):
        raise MarkerError(f"{item.nodeid}: @pytest.mark.tune marks a test function; this is {type(item).__name__}")
    spec = read_marker(mark, name_within(item))
    check_function(item)
    place = Place(item.path.parent, rootdir, afar.host_flags, jobs)
    versions = [builder] if builder is not None else spec.toolchain.resolve(place).versions
    directory = build_dir / sha256_hex(item.nodeid.encode())[:16]
    builds = loadable([
        Builds(version, directory, spec.timeout_s, spec.counted, cached, afar.makers, slots or nullcontext())
        for version in versions
    ])  # fmt: skip
    return TunedBenchmark(
        item.nodeid, spec, builds.builder, builds, item.function, _fixtures(item), rootdir, item.path.parent, afar,
        given_to(item, rootdir),
    )  # fmt: skip


def _fixtures(item: pytest.Function) -> tuple[Callable[..., Any], ...]:
    definitions: Mapping[str, Sequence[Any]] = item._fixtureinfo.name2fixturedefs
    chosen = (definitions[name][-1].func for name in sorted(definitions) if name != "acf")
    return tuple(chosen)
