"""ptxas at work: one found assembler on one PTX file, for one architecture."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pytest_compileiq.errors import BuildError, MarkerError, StoreError
from pytest_compileiq.model import BuildResult, Candidate, CodeDigest, Compiler, ControlsFile, Knobs, sha256_hex
from pytest_compileiq.space import PtxasSearchSpace, Space
from pytest_compileiq.timing.registry import why_not_here
from pytest_compileiq.toolchains.base import Place
from pytest_compileiq.toolchains.cc_flags import relative_to_rootdir
from pytest_compileiq.toolchains.commands import Commands
from pytest_compileiq.toolchains.cubin import Cubin, read_cubin
from pytest_compileiq.toolchains.cuda_options import PTXAS
from pytest_compileiq.toolchains.cuda_tools import CudaTool, check_architecture, find_tool, first_error, needs_controls
from pytest_compileiq.toolchains.ptxas import Ptxas
from pytest_compileiq.toolchains.ptxas_log import read_ptxas_log, totals

_OURS = frozenset(
    ("-o", "--output-file", "-arch", "--gpu-name", "-v", "--verbose", "-optf", "--options-file", "-c", "--compile-only",
     "-ias", "--input-as-string", "-apply-controls", "--apply-controls", "-h", "--help", "-V", "--version")
)  # fmt: skip


def resolve(ptxas: Ptxas, place: Place) -> PtxasResolved:
    """What :meth:`pytest_compileiq.toolchains.ptxas.Ptxas.resolve` promises."""
    arch = check_architecture(ptxas.arch, "Ptxas")
    if not isinstance(ptxas.source, str) or not (place.test_dir / ptxas.source).is_file():
        where = place.test_dir / str(ptxas.source)
        raise MarkerError(f"Ptxas({ptxas.source!r}): no such file: {where}; PTX is named relative to the test file")
    source = relative_to_rootdir(Path(ptxas.source), place)
    flags = split_ptxas_flags(ptxas.flags)
    tool = find_tool("ptxas", ptxas.compiler, place)
    return PtxasResolved(
        compiler=Compiler(
            name="ptxas", version=tool.version, build=tool.build, command=("ptxas", f"-arch={arch}", *flags, source)
        ),
        architecture=arch,
        target=f"{arch}-{tool.line}",
        tool=tool,
        flags=flags,
        source=source,
        rootdir=place.rootdir,
    )


def split_ptxas_flags(flags: object) -> tuple[str, ...]:
    """The baseline's flags.

    Raises:
        MarkerError: not a string, or a flag that the plugin gives itself.
    """
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


@dataclass(frozen=True)
class PtxasResolved:
    """A :class:`pytest_compileiq.toolchains.base.Resolved`. ptxas runs in ``rootdir`` on the relative path."""

    compiler: Compiler
    architecture: str
    target: str
    tool: CudaTool
    flags: tuple[str, ...]
    source: str
    rootdir: Path
    clock: str = "cuda"

    @property
    def native(self) -> str | None:
        """Why no device here runs the cubin, or None when one does."""
        return why_not_here(self.clock, self.architecture)

    @property
    def acf_line(self) -> str:
        """Whose ACF it applies, e.g. ``ptxas13.3``."""
        return self.tool.line

    def default_space(self) -> Space:
        """CompileIQ's space of ptxas controls."""
        return Space((), PtxasSearchSpace())

    def option_space(self) -> Space:
        """The public options of ptxas."""
        return PTXAS.space()

    def render(self, candidate: Candidate) -> ControlsFile:
        """The candidate's ACF, or the options file of its knobs.

        Raises:
            MarkerError: a knob does not give an option that a controls file may hold.
        """
        return PTXAS.render(candidate)

    def parse(self, kind: str, data: bytes, knobs: Knobs) -> ControlsFile:
        """Check committed controls.

        Raises:
            StoreError: an options file is not what ``knobs`` render to, or a knob may not stand in one.
        """
        return PTXAS.parse(kind, data, knobs)

    def sources(self) -> Mapping[str, str]:
        """The PTX file; it includes nothing.

        Raises:
            StoreError: it cannot be read.
        """
        try:
            return {self.source: sha256_hex((self.rootdir / self.source).read_bytes())}
        except OSError as error:
            raise StoreError(f"{self.source} cannot be read: {error.strerror}") from error

    def build(self, controls: ControlsFile | None, out_dir: Path, *, timeout_s: float) -> BuildResult:
        """Assemble into ``out_dir/kernel.cubin``.

        Raises:
            BuildError: ptxas refused, crashed (kind ``compile``) or was killed (kind ``timeout``).
            EnvironmentFault: this ptxas takes no ACF.
        """
        out_dir = out_dir.absolute()
        out_dir.mkdir(parents=True, exist_ok=True)
        made = out_dir / "kernel.cubin"
        commands = Commands(f"ptxas {self.tool.version}", self.rootdir, timeout_s, first_error)
        fragment = controls_fragment(self.tool, controls, out_dir)
        argv = [self.tool.program, f"-arch={self.architecture}", "-v", *self.flags, *fragment, self.source]
        output = commands.run([*argv, "-o", str(made)], self.source)
        seconds = commands.seconds
        code = entries_of(read_cubin(made), output, self.architecture, self.source)
        return BuildResult(made, code, totals({name: one.metrics for name, one in code.items()}), output, seconds)

    def options(self, controls: ControlsFile, path: Path) -> tuple[str, ...]:
        """``--apply-controls=FILE`` for an ACF, then the options that lie beside it."""
        applied = (f"--apply-controls={path}",) if controls.kind == "blob" else ()
        return (*applied, *PTXAS.text(controls.knobs).splitlines())

    def load(self, built: BuildResult, used: set[str]) -> Any:
        """The cubin's kernels by name, callable as ``kernel(grid, block, *args)``."""
        from pytest_compileiq.toolchains.cubin_module import CubinModule  # heavy: the CUDA driver

        return CubinModule(built.path, used)


def controls_fragment(tool: CudaTool, controls: ControlsFile | None, out_dir: Path) -> Sequence[str]:
    """Write ``controls`` into ``out_dir`` and give the ptxas options that apply them.

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


def entries_of(cubin: Cubin, log: str, arch: str, source: str) -> dict[str, CodeDigest]:
    """Entry → digest, with what ``ptxas -v`` said of it.

    Raises:
        BuildError: the file defines no entry function.
    """
    if not cubin.entries:
        raise BuildError(f"{source}: defines no entry function for {arch}", kind="compile", log=log)
    said = read_ptxas_log(log)
    return {
        name: CodeDigest(code.sha256, {**code.metrics, **said.get((name, arch), {})})
        for name, code in cubin.entries.items()
    }
