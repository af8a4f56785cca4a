"""Builds with ptxas: one installed assembler on one PTX file, for one architecture."""

from __future__ import annotations

import shlex
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pytest_compileiq.errors import MarkerError, StoreError
from pytest_compileiq.machine_code.cubin import read_cubin
from pytest_compileiq.machine_code.metrics import totals
from pytest_compileiq.model import BuildResult, Compiler, ControlsFile, Licence, Target, sha256_hex
from pytest_compileiq.toolchains.base import Place
from pytest_compileiq.toolchains.cc.flags import find_file
from pytest_compileiq.toolchains.functions import FunctionSelection
from pytest_compileiq.toolchains.nvidia.builder import NvidiaBuilder, by_operations, entries_of, fusible, to_try
from pytest_compileiq.toolchains.nvidia.cacheable import PtxasBuild
from pytest_compileiq.toolchains.nvidia.markers import Ptxas
from pytest_compileiq.toolchains.nvidia.tools import check_architecture, find_tool, first_error
from pytest_compileiq.toolchains.steps import Commands

_OURS = frozenset(
    ("-o", "--output-file", "-arch", "--gpu-name", "-v", "--verbose", "-optf", "--options-file", "-c", "--compile-only",
     "-ias", "--input-as-string", "-apply-controls", "--apply-controls", "-h", "--help", "-V", "--version")
)  # fmt: skip

_LICENCES_S = 60.0


def resolve(ptxas: Ptxas, place: Place) -> PtxasBuilder:
    """Implement ``Ptxas.resolve``."""
    arch = check_architecture(ptxas.arch, "Ptxas")
    source = find_file(ptxas.source, place, f"Ptxas({ptxas.source!r})", "PTX")
    flags = split_ptxas_flags(ptxas.flags)
    functions = FunctionSelection.of("Ptxas", ptxas.functions, ptxas.neighbours)
    tool = find_tool("ptxas", ptxas.compiler, place)
    return PtxasBuilder(
        compiler=Compiler(
            name="ptxas", version=tool.version, build=tool.build, command=("ptxas", f"-arch={arch}", *flags, source)
        ),
        architecture=arch,
        target=Target.of(arch, tool.line),
        tool=tool,
        flags=flags,
        source=source,
        functions=functions,
        rootdir=place.rootdir,
    )


def split_ptxas_flags(flags: object) -> tuple[str, ...]:
    """The baseline's flags; MarkerError for one that the plugin sets itself."""
    if not isinstance(flags, str):
        raise MarkerError(f"flags={flags!r}: expected one string, as in flags='-O3 --maxrregcount=128'")
    try:
        words = tuple(shlex.split(flags))
    except ValueError as error:
        raise MarkerError(f"flags={flags!r}: {error}") from error
    if taken := next((word for word in words if word.partition("=")[0] in _OURS), None):
        raise MarkerError(f"flags={flags!r}: {taken!r} cannot be used: the plugin gives it")
    if bare := next((word for word in words if not word.startswith("-")), None):
        raise MarkerError(f"flags={flags!r}: {bare!r}: write an option and its value as one word, with '='")
    return words


@dataclass(frozen=True, kw_only=True)
class PtxasBuilder(NvidiaBuilder):
    """One ptxas on one PTX file; it runs in ``rootdir`` on the relative path."""

    is_modelled = True

    flags: tuple[str, ...]
    source: str
    functions: FunctionSelection
    rootdir: Path

    def sources(self) -> Mapping[str, str]:
        return {self.source: sha256_hex(self._ptx())}

    def licences(self) -> tuple[Licence, ...]:
        ptx = self._ptx().decode("utf-8", errors="replace")
        entry = fusible(ptx)
        where = f"{entry} (ptxas's default --fmad=true)"
        remedy = "--fmad=false in the toolchain's flags"
        fused = (Licence("contraction", "contraction", where, remedy),) if entry and self._fuses(ptx) else ()
        return (*fused, *by_operations(ptx))

    def _ptx(self) -> bytes:
        try:
            return (self.rootdir / self.source).read_bytes()
        except OSError as error:
            raise StoreError(f"{self.source} cannot be read: {error.strerror}") from error

    def _fuses(self, ptx: str) -> bool:
        """Whether ptxas makes one operation of a product and a sum, tried on a few lines of PTX."""
        with tempfile.TemporaryDirectory() as directory:
            tried, cubin = Path(directory) / "tried.ptx", Path(directory) / "tried.cubin"
            tried.write_text(to_try(ptx), encoding="utf-8")
            commands = self._commands(cubin.parent, _LICENCES_S)
            digests = []
            for more in ((), ("--fmad=false",)):
                commands.run([*self._argv(), *more, str(tried), "-o", str(cubin)], self.source)
                digests.append({name: code.sha256 for name, code in read_cubin(cubin).entries.items()})
        return digests[0] != digests[1]

    def build(self, controls: ControlsFile | None, out_dir: Path, *, timeout_s: float) -> BuildResult:
        out_dir = out_dir.absolute()
        out_dir.mkdir(parents=True, exist_ok=True)
        cubin = out_dir / "kernel.cubin"
        commands = self._commands(out_dir, timeout_s)
        argv = [*self._argv(), *self.applied(controls, out_dir / "controls.acf"), self.source, "-o", str(cubin)]
        log = commands.run(argv, self.source)
        code = entries_of(read_cubin(cubin), log, self.architecture, self.source)
        metrics = totals(entry.metrics for entry in code.values())
        return BuildResult(cubin, code, metrics, log, commands.seconds)

    def _commands(self, out_dir: Path, timeout_s: float) -> Commands:
        return Commands(f"ptxas {self.tool.version}", self.rootdir, out_dir, timeout_s, first_error)

    def _argv(self) -> list[str]:
        return [self.tool.program, f"-arch={self.architecture}", "-v", *self.flags]

    def cacheable(self, controls: ControlsFile | None) -> PtxasBuild:
        return PtxasBuild(tuple(self._argv()), controls, self.source, self.rootdir)

    def load(self, built: BuildResult, used: set[str]) -> Any:
        """The cubin's kernels by name, callable as ``kernel(grid, block, *args)``."""
        from pytest_compileiq.toolchains.nvidia.launch import CubinModule  # heavy: the CUDA driver

        return CubinModule(built.path, used)
