"""Builds with Triton: one kernel, for one architecture or several, and the ptxas that Triton is told to call."""

from __future__ import annotations

import functools
import importlib.metadata
import json
import re
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from pytest_compileiq.errors import BuildError, EnvironmentFault, MarkerError, install
from pytest_compileiq.machine_code.cubin import Cubin, read_cubin
from pytest_compileiq.machine_code.metrics import totals
from pytest_compileiq.model import BuildResult, Candidate, CodeDigest, Compiler, ControlsFile, Licence
from pytest_compileiq.rules.build_key import NotModelled
from pytest_compileiq.rules.classes import each_once
from pytest_compileiq.space import Space, choice
from pytest_compileiq.spelling import did_you_mean
from pytest_compileiq.system.forked import ForkedModule
from pytest_compileiq.timing.clock import capability
from pytest_compileiq.toolchains.base import Place
from pytest_compileiq.toolchains.environment import deciding
from pytest_compileiq.toolchains.nvidia.builder import NvidiaBuilder, by_operations, contraction, entries_of
from pytest_compileiq.toolchains.nvidia.options import PTXAS
from pytest_compileiq.toolchains.nvidia.tools import check_architecture, find_tool, several_architectures
from pytest_compileiq.toolchains.steps import Commands
from pytest_compileiq.toolchains.triton.arguments import (
    CONFIG,
    LAUNCH_DEFAULTS,
    NOTE,
    REFUSED,
    LaunchArguments,
    check_arguments,
    config_text,
    text,
)
from pytest_compileiq.toolchains.triton.cacheable import TritonBuild
from pytest_compileiq.toolchains.triton.host import CUBIN, DESCRIBED, FRONT_END, PTX, Job
from pytest_compileiq.toolchains.triton.marker import Triton
from pytest_compileiq.toolchains.triton.source import KernelSource, find_kernel

_FUSION = "enable_fp_fusion"
_LICENCES_S = 120.0  # a build
_ANSWER_S = 120.0
_FRONT_END_S = 20.0  # for the build cache: a build without an answer is made
_LONGEST = 500  # characters of a message
_HOST = ForkedModule("pytest_compileiq.toolchains.triton.host", {"TRITON_INTERPRET": "0"})


def resolve(triton: Triton, place: Place) -> TritonBuilder:
    """Implement ``Triton.resolve``."""
    architectures = several_architectures(triton.arch, _architecture, "Triton")
    source, device = find_kernel(triton.kernel, place), triton.device
    if device is not None and not (isinstance(device, str) and device.isprintable() and device.strip()):
        raise MarkerError(f"Triton(device={device!r}): expected the name of a GPU, as in 'NVIDIA H200'")
    source = replace(source, device=device)
    arguments = check_arguments(triton)
    try:
        version = importlib.metadata.version("triton")
    except importlib.metadata.PackageNotFoundError as error:
        raise EnvironmentFault(f"Triton is not installed: {install('triton')}") from error
    tool = find_tool("ptxas", triton.compiler, place)
    line = ".".join(version.split(".")[:2])
    architecture = ".".join(architectures)
    return TritonBuilder(
        compiler=Compiler(
            name="triton",
            version=version,
            build=f"ptxas {tool.version} {tool.build}",
            command=(
                "triton", source.label, *(f"--arch={arch}" for arch in architectures), *_recorded(arguments, source)
            ),
        ),
        architecture=architecture,
        target=f"{architecture}-triton{line}.{tool.line}",
        tool=tool,
        source=source,
        arguments=arguments,
    )  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class TritonBuilder(NvidiaBuilder):
    """Triton on one kernel; ``tool`` is the ptxas that it is told to call."""

    is_modelled = True

    source: KernelSource
    arguments: LaunchArguments

    @property
    def environment(self) -> Mapping[str, str]:
        return deciding(self.compiler.name, self.source.variables())

    @property
    def knobs_taken(self) -> frozenset[str]:
        return frozenset({CONFIG, *self._known_names()})

    @property
    def spaces(self) -> Mapping[str, Callable[[], Space]]:
        return {"autotune": self._autotune}

    def _autotune(self) -> Space:
        """The configs of the kernel's ``@triton.autotune``, each as a whole."""
        label = self.source.label
        first, *others = [describe(self.source, arch) for arch in self.architectures]
        if not first.configs:
            why = "sets nothing that can be written down" if first.is_tuned else "there is no @triton.autotune"
            raise MarkerError(f"space='autotune': {label}: {why}: give the marker space={{…}} of its constexprs")
        for arch, other in zip(self.architectures[1:], others, strict=True):
            if other.configs != first.configs:
                raise MarkerError(
                    f"{label} has other configs of @triton.autotune for {arch} than for {self.architectures[0]}: "
                    "tune it in one test for each architecture"
                )
        return Space.from_mapping({CONFIG: choice([config_text(config) for config in first.configs])})

    def render(self, candidate: Candidate) -> ControlsFile:
        plainly_known = {CONFIG, *LAUNCH_DEFAULTS, *self.arguments.options, *self.arguments.constexprs}
        others = sorted(name for name in candidate.knobs.keys() - plainly_known if not name.startswith("-"))
        if others:
            known = self._known_names()
            if unknown := sorted(set(others) - set(known)):
                raise MarkerError(
                    f"knob {unknown[0]!r}: {self.source.function} has no such constexpr, and the installed Triton no "
                    f"such launch option{did_you_mean(unknown[0], known)}"
                )
        return PTXAS.render_launch(candidate)

    def sources(self) -> Mapping[str, str]:
        return self.source.sources()

    def build(self, controls: ControlsFile | None, out_dir: Path, *, timeout_s: float) -> BuildResult:
        return self._build(controls, out_dir, timeout_s, forked=False)

    def build_together(self, controls: ControlsFile | None, out_dir: Path, *, timeout_s: float) -> BuildResult:
        return self._build(controls, out_dir, timeout_s, forked=True)

    def _build(self, controls: ControlsFile | None, out_dir: Path, timeout_s: float, *, forked: bool) -> BuildResult:
        out_dir = out_dir.absolute()
        code: dict[str, CodeDigest] = {}
        commands = _commands(self.source, out_dir, timeout_s, self._environment(out_dir), forked=forked)
        out_dir.mkdir(parents=True, exist_ok=True)
        for arch, suffix in zip(self.architectures, self.suffixes, strict=True):
            job = self._job(arch, controls, out_dir)
            log = commands.run([str(job.write())], self.source.label)
            cubin = read_cubin(job.file(CUBIN))
            self._expect_parity(cubin, controls, log)
            code |= entries_of(cubin, log, arch, self.source.label.partition("::")[0], suffix)
        metrics = totals(entry.metrics for entry in code.values())
        path = out_dir / f"{self._name(self.architectures[0])}.{CUBIN}"
        return BuildResult(path, code, metrics, commands.log, commands.seconds)

    def cacheable(self, controls: ControlsFile | None) -> TritonBuild:
        with tempfile.TemporaryDirectory(prefix="compileiq-") as directory:
            home = Path(directory)
            jobs = [replace(self._job(arch, controls, home), only_front_end=True) for arch in self.architectures]
            commands = _commands(self.source, home, _FRONT_END_S, self._environment(home), forked=True)
            try:
                for job in jobs:
                    commands.run([str(job.write())], self.source.label)
                answers = {job.name: job.file(FRONT_END).read_text(encoding="utf-8") for job in jobs}
            except (BuildError, OSError) as error:
                raise NotModelled(f"Triton's front end gives no answer: {error}") from error
        return TritonBuild(
            command=self.compiler.command,
            ptxas=self.tool.program,
            controls=controls,
            front_ends=answers,
            remarks=_notes_in(commands.log),
            variables=self.environment,
            sources=self.sources(),
            files=self.source.files(),
            rootdir=self.source.place.rootdir,
        )

    def licences(self) -> tuple[Licence, ...]:
        with tempfile.TemporaryDirectory() as directory:
            as_they_are = self._ptx(None, Path(directory) / "as_it_is")
            unfused = self._ptx(self.render(Candidate({_FUSION: False})), Path(directory) / "unfused")
        remedy = f"options={{{_FUSION!r}: False}} in Triton(…)"
        where = f"Triton's default {_FUSION}=True"
        return each_once(
            licence
            for as_it_is, apart in zip(as_they_are, unfused, strict=True)
            for licence in (*contraction(as_it_is, apart, where, remedy), *by_operations(as_it_is))
        )

    def _ptx(self, controls: ControlsFile | None, out_dir: Path) -> list[str]:
        self.build_together(controls, out_dir, timeout_s=_LICENCES_S * len(self.architectures))
        return [(out_dir / f"{self._name(arch)}.{PTX}").read_text(encoding="utf-8") for arch in self.architectures]

    def remarks(self, built: BuildResult) -> Sequence[str]:
        return _notes_in(built.log)

    def load(self, built: BuildResult, used: set[str]) -> Any:
        """The kernel, callable as ``kernel(grid, *args)`` with the arguments of the signature.

        Of several architectures it is the one that runs here, and counts as taken in every architecture.
        """
        from pytest_compileiq.toolchains.triton.kernel import TritonKernel  # heavy: the CUDA driver

        path = built.path.with_name(f"{self._name(self.loaded_architecture)}.{CUBIN}")
        return TritonKernel(path, used, self.suffixes)

    def _known_names(self) -> list[str]:
        described = describe(self.source, self.architectures[0])
        return [name for name in (*described.arguments, *described.options) if name not in self.arguments.kinds]

    def _name(self, arch: str) -> str:
        """The name of the files of a build for ``arch``."""
        return "kernel" if len(self.architectures) == 1 else f"kernel.{arch}"

    def _job(self, arch: str, controls: ControlsFile | None, out_dir: Path) -> Job:
        knobs = {name: value for name, value in (controls.knobs if controls else {}).items() if name[0] != "-"}
        path = out_dir / "controls.acf"
        ptx_options = self.applied(controls, path)
        if controls and " " in str(path):
            raise EnvironmentFault(
                f"Triton splits ptx_options at blanks, and {path} has one: set TMPDIR to a path without"
            )
        job = _job(self.source, arch, out_dir)
        return replace(
            job,
            launch=self.arguments.with_knobs(knobs),
            ptx_options=ptx_options,
            name=self._name(arch),
            places=tuple({out_dir, *(root.directory for root in self.source.roots)}),
        )

    def _environment(self, out_dir: Path) -> dict[str, str]:
        return {
            **self.source.variables(),
            # One is for sm_90 and newer, the other for older ones; for a wrong path Triton silently takes its own.
            "TRITON_PTXAS_BLACKWELL_PATH": self.tool.program,
            "TRITON_PTXAS_PATH": self.tool.program,
            "TRITON_CACHE_DIR": str(out_dir / "cache"),
            "TRITON_ALWAYS_COMPILE": "1",
            "TRITON_DUMP_PTXAS_LOG": "1",
        }

    def _expect_parity(self, cubin: Cubin, controls: ControlsFile | None, log: str) -> None:
        """Raise BuildError unless the cubin's note names this ptxas and its ACF."""
        if f"V{self.tool.version}" not in cubin.assembler:
            message = f"Triton compiled with another assembler ({cubin.assembler or 'unknown'}) than {self.tool}"
            raise BuildError(message, kind="compile", log=log)
        if controls is not None and controls.kind == "blob" and "apply-controls" not in cubin.command:
            message = f"Triton did not hand the ACF to ptxas, which ran with: {cubin.command}"
            raise BuildError(message, kind="compile", log=log)


def _recorded(arguments: LaunchArguments, source: KernelSource) -> list[str]:
    """The launch of the baseline, as far as the marker decides it, as words of the recorded command."""
    # What a decorator decides, as a config of @triton.autotune does, is the file's and therefore digested with it.
    signature = [f"{name}:{text(kind) if isinstance(kind, list) else kind}" for name, kind in arguments.kinds.items()]
    decided = {**(LAUNCH_DEFAULTS if source.is_jit_alone else {}), **arguments.options, **arguments.constexprs}
    values = [f"{name}={value if isinstance(value, str) else text(value)}" for name, value in decided.items()]
    config = [f"{CONFIG}={config_text(arguments.config)}"] if arguments.config else []
    computed = [f"{name}:={text(value)}" for name, value in arguments.arguments.items()]
    device = [f"--device={source.device}"] if source.device else []
    return [*device, *signature, *values, *config, *computed]


def _architecture(given: object) -> str:
    """The architecture that Triton compiles for when asked for ``given``: from sm_90 on, the ``a`` variant."""
    arch = check_architecture(given, "Triton")
    major, minor = capability(arch)
    actual = f"sm_{major}{minor}{'a' if major >= 9 else ''}"
    if arch.removesuffix("a") != actual.removesuffix("a"):
        raise MarkerError(
            f"Triton(arch={arch!r}): Triton compiles for {actual} where it is asked for that: name {actual!r}"
        )
    return actual


# ── the process that runs Triton ─────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True)
class Description:
    """A kernel as Triton sees it."""

    arguments: Sequence[str]  # their names
    options: Sequence[str]  # the names of the launch options that the installed Triton has for CUDA
    configs: Sequence[Mapping[str, Any]]  # the values of each config of @triton.autotune that can be written down
    is_tuned: bool  # whether it has that decorator


def describe(source: KernelSource, arch: str) -> Description:
    """Ask Triton; the answer is kept for as long as the files are what they were.

    Raises:
        MarkerError: the kernel's definition cannot be executed, or is none.
    """
    return _describe(source, arch, tuple(source.variables().items()), tuple(source.sources().items()))


_Pairs = tuple[tuple[str, str], ...]


@functools.lru_cache(maxsize=256)
def _describe(source: KernelSource, arch: str, variables: _Pairs, _: _Pairs) -> Description:
    with tempfile.TemporaryDirectory(prefix="compileiq-") as directory:
        home = Path(directory)
        commands = _commands(source, home, _ANSWER_S, dict(variables), forked=True)
        job = _job(source, arch, home)
        try:
            commands.run([str(job.write())], source.label)
        except BuildError as error:
            raise MarkerError(str(error)) from error
        return Description(**json.loads(job.file(DESCRIBED).read_text(encoding="utf-8")))


def _commands(
    source: KernelSource, out_dir: Path, timeout_s: float, environment: Mapping[str, str], *, forked: bool
) -> Commands:
    run, rootdir = _HOST.run if forked else _HOST.run_alone, source.place.rootdir
    return Commands("Triton", rootdir, out_dir, timeout_s, _last_error, environment, run_program=run)


def _job(source: KernelSource, arch: str, out_dir: Path) -> Job:
    """The job to describe a kernel."""
    return Job(
        module=source.module,
        path=source.path,
        function=source.function,
        parts=source.parts(),
        capability=capability(arch),
        device=source.device,
        out_dir=out_dir,
        sys_path=[source.place.test_dir, source.place.rootdir],
    )


def _notes_in(output: str) -> tuple[str, ...]:
    said = (line.removeprefix(NOTE) for line in output.splitlines() if line.startswith(NOTE))
    return tuple(dict.fromkeys(said))


def _last_error(output: str) -> str:
    """Triton's reason; ptxas's own words if ptxas refused."""
    if refused := re.search(rf"^{REFUSED}(.*)", output, re.MULTILINE):
        return refused[1]
    if ptxas := re.search(r"ptxas (?:fatal|error)\s*:\s*[^\n]*", output):
        return ptxas[0].split(" Repro command")[0].strip()[:_LONGEST]
    if crash := re.search(r"`ptxas` failed with error code -(\d+)", output):
        return f"ptxas was killed by signal {crash[1]}"
    lines = [line.strip() for line in output.splitlines() if line.startswith("error: ")]
    if not lines:
        return "it printed no error"
    kind, _, reason = lines[-1].removeprefix("error: ").partition(": ")
    return f"{kind}: {reason if len(reason) <= _LONGEST else f'…{reason[-_LONGEST:]}'}"
