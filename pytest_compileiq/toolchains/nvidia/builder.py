"""What NVIDIA's compilers have in common as toolchains, and what all that end in ptxas have."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import ClassVar

from pytest_compileiq.errors import BuildError
from pytest_compileiq.machine_code.cubin import Cubin
from pytest_compileiq.model import Candidate, CodeDigest, Compiler, ControlClass, ControlsFile, Knobs, Target
from pytest_compileiq.rules.classes import SAFE
from pytest_compileiq.space import OpaqueSpace, PtxasSearchSpace, Space
from pytest_compileiq.timing.registry import why_not_here
from pytest_compileiq.toolchains.base import BaseSpace, Builder
from pytest_compileiq.toolchains.nvidia.options import PTXAS, BaselineOptions, CudaOptions
from pytest_compileiq.toolchains.nvidia.tools import CudaTool, needs_controls
from pytest_compileiq.toolchains.options import parse_controls

_ENTRY = re.compile(r"Compiling entry function '(?P<name>[^']+)' for '(?P<arch>[^']+)'")
_FRAME = re.compile(r"(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads")
_USED = re.compile(r"Used (\d+) registers")
_PARTS = {
    "barriers": re.compile(r"used (\d+) barriers"),
    "shared_bytes": re.compile(r"(\d+) bytes smem"),
}
_SUMMED = ("spill_store_bytes", "spill_load_bytes", "spill_bytes", "stack_bytes", "shared_bytes")


def read_ptxas_log(output: str) -> dict[tuple[str, str], dict[str, int]]:
    """(entry, architecture) → its exact metrics.

    ``stack_bytes`` and the spills are summed over an entry and the functions it calls; ``spill_bytes`` is the sum of
    spill stores and loads.
    """
    by_entry: dict[tuple[str, str], dict[str, int]] = {}
    current: dict[str, int] | None = None
    for line in output.splitlines():
        if entry := _ENTRY.search(line):
            current = by_entry.setdefault((entry["name"], entry["arch"]), dict.fromkeys(("registers", "barriers"), 0))
            current |= dict.fromkeys(_SUMMED, 0)
        elif current is not None:
            _add(current, line)
    return by_entry


def _add(metrics: dict[str, int], line: str) -> None:
    if frame := _FRAME.search(line):
        stack, stores, loads = map(int, frame.groups())
        metrics["stack_bytes"] += stack
        metrics["spill_store_bytes"] += stores
        metrics["spill_load_bytes"] += loads
        metrics["spill_bytes"] += stores + loads
    if used := _USED.search(line):
        metrics["registers"] = int(used[1])
        for name, pattern in _PARTS.items():
            part = pattern.search(line)
            metrics[name] = int(part[1]) if part else 0


@dataclass(frozen=True, kw_only=True)
class NvidiaBuilder(Builder):
    """One installed compiler of NVIDIA's, whose controls are an ACF, public options, or both."""

    public_options: ClassVar[CudaOptions]

    compiler: Compiler
    architecture: str
    target: str
    tool: CudaTool
    clock: str = "cuda"

    @property
    def architectures(self) -> tuple[str, ...]:
        """Those of ``architecture`` one by one: ``sm_90a.sm_100a`` is two."""
        return Target(self.target).architectures

    @property
    def native(self) -> str | None:
        """Why no device here runs any of the architectures; None if one does."""
        reasons = [why_not_here(self.clock, arch) for arch in self.architectures]
        return None if None in reasons else reasons[0]

    @property
    def loaded_architecture(self) -> str:
        """The first of the architectures that a device here runs; where none does, the first of all."""
        here = (arch for arch in self.architectures if why_not_here(self.clock, arch) is None)
        return next(here, self.architectures[0])

    @property
    def knobs_taken(self) -> frozenset[str]:
        """The knobs that the builder itself reads: none."""
        return frozenset()

    @property
    def acf_line(self) -> str:
        """The compiler line whose ACFs it applies, e.g. ``ptxas13.3``."""
        return self.tool.line

    @property
    def opaque_space(self) -> OpaqueSpace:
        """CompileIQ's space of the controls that the compiler's default is: ptxas's."""
        return PtxasSearchSpace()

    def default_space(self) -> Space:
        """CompileIQ's space of the compiler's controls."""
        return Space((), self.opaque_space)

    def option_space(self) -> Space:
        """The compiler's public options that keep every value."""
        return self.space_with("options", ())

    def space_with(self, base: BaseSpace | None, classes: Collection[ControlClass]) -> Space:
        """ACFs, the public options that keep every value, or neither, and the public options of ``classes``."""
        asked = {*(SAFE if base == "options" else ()), *classes}
        options = self.public_options.space(self._baseline, asked)
        return Space.merge(options, self.default_space()) if base == "default" else options

    @property
    def option_classes(self) -> Sequence[ControlClass]:
        """The classes that public options of the compiler have here."""
        return self.public_options.classes(self._baseline)

    @property
    def _baseline(self) -> BaselineOptions:
        return BaselineOptions(self.public_options.compiler, self.compiler.command)

    def render(self, candidate: Candidate) -> ControlsFile:
        """The candidate's ACF, or the options file of its knobs.

        Raises:
            MarkerError: a knob is not an option that a controls file may hold.
        """
        return self.public_options.render(candidate)

    def parse(self, kind: str, data: bytes, knobs: Knobs) -> ControlsFile:
        """Check committed controls.

        Raises:
            StoreError: an options file is not what ``knobs`` render to, or a knob may not stand in one.
        """
        return parse_controls(kind, data, knobs, self.render)


@dataclass(frozen=True, kw_only=True)
class PtxasBacked(NvidiaBuilder):
    """Code that an installed ptxas assembles."""

    public_options = PTXAS


def controls_fragment(tool: CudaTool, controls: ControlsFile | None, out_dir: Path) -> Sequence[str]:
    """Write ``controls`` into ``out_dir`` and return the ptxas options that apply them.

    Raises:
        EnvironmentFault: they are an ACF, and this compiler takes none.
    """
    if controls is None:
        return ()
    fragment = []
    if text := PTXAS.text(controls.knobs):
        (out_dir / "controls.opt").write_text(text, encoding="ascii")
        fragment.append(f"--options-file={out_dir / 'controls.opt'}")
    if controls.kind == "blob":
        if not tool.takes_controls:
            raise needs_controls(tool)
        (out_dir / "controls.acf").write_bytes(controls.data)
        fragment.append(f"--apply-controls={out_dir / 'controls.acf'}")
    return fragment


def entries_of(cubin: Cubin, log: str, arch: str, source: str) -> Mapping[str, CodeDigest]:
    """Entry → digest, with the metrics that ``ptxas -v`` printed for it.

    Raises:
        BuildError: the file defines no entry function.
    """
    if not cubin.entries:
        raise BuildError(f"{source}: defines no entry function for {arch}", kind="compile", log=log)
    printed = read_ptxas_log(log)
    return {
        name: replace(code, metrics={**code.metrics, **printed.get((cubin.symbols[name], arch), {})})
        for name, code in cubin.entries.items()
    }
