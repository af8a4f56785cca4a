"""Builds with Triton: one kernel, one architecture, and the ptxas that Triton is told to call."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import json
import re
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pytest_compileiq.errors import BuildError, EnvironmentFault, MarkerError, install
from pytest_compileiq.model import BuildResult, Candidate, Compiler, ControlsFile, KnobValue, sha256_hex
from pytest_compileiq.timing.base import capability
from pytest_compileiq.toolchains.base import Place
from pytest_compileiq.toolchains.cc.flags import relative_to_rootdir
from pytest_compileiq.toolchains.commands import Commands
from pytest_compileiq.toolchains.machine_code.cubin import Cubin, read_cubin
from pytest_compileiq.toolchains.machine_code.metrics import totals
from pytest_compileiq.toolchains.nvidia.builder import PtxasBacked, entries_of
from pytest_compileiq.toolchains.nvidia.options import PTXAS
from pytest_compileiq.toolchains.nvidia.tools import check_architecture, find_tool, needs_controls
from pytest_compileiq.toolchains.triton import host
from pytest_compileiq.toolchains.triton.imports import project_imports
from pytest_compileiq.toolchains.triton.marker import Triton

_LAUNCH_KNOBS = ("num_warps", "num_stages")
_TYPE = re.compile(r"\*?(?:k)?(?:[ui]\d{1,2}|i1|fp\d{1,2}[a-z0-9]*|bf16|f\d{2})(?::(?:16|1))?")
_HINTED = re.compile(r"[^:]*|\*.*:16|[ui](?!1:)\d+:(?:16|1)")


def resolve(triton: Triton, place: Place) -> TritonBuilder:
    """Implements ``pytest_compileiq.toolchains.triton.marker.Triton.resolve``."""
    arch = _architecture(triton)
    file, function = _kernel(triton, place)
    _check_arguments(triton)
    try:
        version = importlib.metadata.version("triton")
    except importlib.metadata.PackageNotFoundError as error:
        raise EnvironmentFault(f"Triton is not installed: {install('triton')}") from error
    tool = find_tool("ptxas", triton.compiler, place)
    baseline: dict[str, KnobValue | None] = {name: getattr(triton, name) for name in _LAUNCH_KNOBS} | dict(
        triton.constexprs
    )
    signature = [f"{name}:{kind}" for name, kind in triton.signature.items()]
    values = [f"{name}={value}" for name, value in baseline.items()]
    line = ".".join(version.split(".")[:2])
    return TritonBuilder(
        compiler=Compiler(
            name="triton",
            version=version,
            build=f"ptxas {tool.version} {tool.build}",
            command=("triton", f"{file}::{function}", f"--arch={arch}", *signature, *values),
        ),
        architecture=arch,
        target=f"{arch}-triton{line}.{tool.line}",
        tool=tool,
        file=file,
        function=function,
        signature=dict(triton.signature),
        baseline=baseline,
        constexprs=tuple(triton.constexprs),
        place=place,
    )


@dataclass(frozen=True, kw_only=True)
class TritonBuilder(PtxasBacked):
    """A ``pytest_compileiq.toolchains.base.Builder``; ``tool`` is the ptxas that Triton is told to call."""

    file: str
    function: str
    signature: Mapping[str, str]
    baseline: Mapping[str, KnobValue | None]
    constexprs: tuple[str, ...]
    place: Place

    @property
    def knobs_taken(self) -> frozenset[str]:
        """The launch parameters and the marker's constexprs."""
        return frozenset(self.baseline)

    def render(self, candidate: Candidate) -> ControlsFile:
        """The candidate's ACF, or its knobs, one ``name=value`` or option per line, sorted.

        Raises:
            MarkerError: a knob is neither a launch parameter, a constexpr of the marker, nor a ptxas option.
        """
        if unknown := sorted(name for name in set(candidate.knobs) - set(self.baseline) if not name.startswith("-")):
            known = ", ".join(self.baseline)
            raise MarkerError(f"knob {unknown[0]!r}: {self.function} has {known}; name constexprs in the marker first")
        return PTXAS.render_launch(candidate)

    def sources(self) -> Mapping[str, str]:
        """Path → SHA-256 of the kernel's file and of the project's modules that it imports."""
        root = self.place.rootdir
        files = project_imports(root / self.file, (self.place.test_dir, root))
        return {relative_to_rootdir(path, self.place): sha256_hex(path.read_bytes()) for path in files}

    def build(self, controls: ControlsFile | None, out_dir: Path, *, timeout_s: float) -> BuildResult:
        """Have Triton compile into ``out_dir``.

        Raises:
            BuildError: Triton or ptxas refused, crashed (kind ``compile``) or was killed (kind ``timeout``), or the
                cubin comes from another ptxas, or from one that did not get the ACF.
            EnvironmentFault: this ptxas takes no ACF.
        """
        out_dir = out_dir.absolute()
        out_dir.mkdir(parents=True, exist_ok=True)
        commands = Commands("Triton", self.place.rootdir, out_dir, timeout_s, _last_error, self._environment(out_dir))
        job = out_dir / "job.json"
        job.write_text(json.dumps(self._job(controls, out_dir)), encoding="utf-8")
        log = commands.run([sys.executable, "-P", host.__file__, str(job)], f"{self.file}::{self.function}")
        seconds = commands.seconds
        path = out_dir / "kernel.cubin"
        cubin = read_cubin(path)
        self._expect_parity(cubin, controls, log)
        code = entries_of(cubin, log, self.architecture, self.file)
        return BuildResult(path, code, totals({name: entry.metrics for name, entry in code.items()}), log, seconds)

    def options(self, controls: ControlsFile, path: Path) -> tuple[str, ...]:
        """The words of a launch's ``ptx_options``: ``--apply-controls=FILE`` and ptxas options."""
        applied = (f"--apply-controls={path}",) if controls.kind == "blob" else ()
        return (*applied, *PTXAS.text(controls.knobs).splitlines())

    def load(self, built: BuildResult, used: set[str]) -> Any:
        """The kernel, callable as ``kernel(grid, *args)`` with the arguments of the signature."""
        from pytest_compileiq.toolchains.triton.kernel import TritonKernel  # heavy: the CUDA driver

        return TritonKernel(built.path, used)

    def _job(self, controls: ControlsFile | None, out_dir: Path) -> dict[str, Any]:
        values = dict(self.baseline) | {k: v for k, v in (controls.knobs if controls else {}).items() if k[0] != "-"}
        return {
            "file": str(self.place.rootdir / self.file),
            "function": self.function,
            "signature": dict(self.signature),
            "constexprs": {name: values[name] for name in self.constexprs},
            **{name: values[name] for name in _LAUNCH_KNOBS},
            "capability": capability(self.architecture)[0] * 10 + capability(self.architecture)[1],
            "ptx_options": self._ptx_options(controls, out_dir),
            "out_dir": str(out_dir),
            "sys_path": [str(self.place.test_dir), str(self.place.rootdir)],
        }

    def _ptx_options(self, controls: ControlsFile | None, out_dir: Path) -> list[str]:
        if controls is None:
            return []
        if controls.kind == "blob" and not self.tool.takes_controls:
            raise needs_controls(self.tool)
        path = out_dir / "controls.acf"
        if " " in str(path):
            raise EnvironmentFault(
                f"Triton splits ptx_options at blanks, and {path} has one: set TMPDIR to a path without"
            )
        path.write_bytes(controls.data)
        return list(self.options(controls, path))

    def _environment(self, out_dir: Path) -> dict[str, str]:
        return {
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


def _architecture(triton: Triton) -> str:
    """The architecture that Triton compiles for when asked for ``triton.arch``: from sm_90 on, the ``a`` variant.

    Raises:
        MarkerError: that is another family than was asked for.
    """
    arch = check_architecture(triton.arch, "Triton")
    major, minor = capability(arch)
    actual = f"sm_{major}{minor}{'a' if major >= 9 else ''}"
    if arch.removesuffix("a") != actual.removesuffix("a"):
        raise MarkerError(
            f"Triton(arch={arch!r}): Triton compiles for {actual} where it is asked for that: name {actual!r}"
        )
    return actual


def _kernel(triton: Triton, place: Place) -> tuple[str, str]:
    file, separator, function = str(triton.kernel).partition("::")
    if not separator or not function.isidentifier():
        raise MarkerError(f"Triton({triton.kernel!r}): expected 'file.py::function'")
    if not (place.test_dir / file).is_file():
        raise MarkerError(f"Triton({triton.kernel!r}): no such file: {place.test_dir / file}")
    return relative_to_rootdir(Path(file), place), function


def _check_arguments(triton: Triton) -> None:
    for name, kind in dict(triton.signature).items():
        if not isinstance(kind, str) or not _TYPE.fullmatch(kind):
            raise MarkerError(f"Triton(signature=…): {name} = {kind!r}: expected a type such as '*fp32:16' or 'i32'")
        if not _HINTED.fullmatch(kind):
            raise MarkerError(
                f"Triton(signature=…): {name} = {kind!r}: ':16' is for pointers and integers that are divisible by 16, "
                "':1' for integers that are 1"
            )
    for name, value in dict(triton.constexprs).items():
        if not isinstance(value, bool | int | float | str | None):
            raise MarkerError(f"Triton(constexprs=…): {name} = {value!r}: expected a bool, a number, a string or None")
    for name in _LAUNCH_KNOBS:
        value = getattr(triton, name)
        if isinstance(value, bool) or not isinstance(value, int) or value < 1:
            raise MarkerError(f"Triton({name}={value!r}): expected a positive integer")
    if both := sorted(set(triton.constexprs) & {*_LAUNCH_KNOBS, *triton.signature}):
        raise MarkerError(f"Triton(…): {both[0]!r} is named twice")


def _last_error(output: str) -> str:
    """What Triton says is wrong; ptxas's own words if ptxas refused."""
    if ptxas := re.search(r"ptxas (?:fatal|error)\s*:\s*[^\n]*", output):
        return ptxas[0].split(" Repro command")[0].strip()[:500]
    if crash := re.search(r"`ptxas` failed with error code -(\d+)", output):
        return f"ptxas was killed by signal {crash[1]}"
    lines = [line.strip() for line in output.splitlines() if line.startswith("error: ")]
    if not lines:
        return "it printed no error"
    kind, _, reason = lines[-1].removeprefix("error: ").partition(": ")
    return f"{kind}: {reason if len(reason) <= 500 else f'…{reason[-500:]}'}"
