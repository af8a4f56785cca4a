"""How controls of each compiler get into a product: by a build's command, by a JIT, or by a program that reads them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from msgspec import Struct

from pytest_compileiq.artifact import Artifact, CompilerTable
from pytest_compileiq.model import Knobs
from pytest_compileiq.toolchains.cc.includes import read_again
from pytest_compileiq.toolchains.macros import params_of
from pytest_compileiq.toolchains.nvidia import tools
from pytest_compileiq.toolchains.nvidia.options import NVCC, PTXAS, CudaOptions
from pytest_compileiq.toolchains.triton.arguments import launch_params

ReadAgain = Callable[[Sequence[str], str, Sequence[str], Path], frozenset[str]]


class Deployment(Struct, frozen=True):
    """How one compiler takes controls outside of a test.

    Attributes:
        options: its option table where an ACF is one option among others; None where it reads all from a file.
        is_jit: programs compile with it as they run.
        at_launch: a launch gives it its controls; it has no command line.
        reads_ptx: its sources are PTX, which a JIT makes as well.
        caches_cubins: a JIT keeps its output in files.
        hands_on: the option that hands ptxas another, split at blanks and commas however that is quoted.
        options_file: the option of a command that names a file of options; ``like=`` leaves out one that ends in .acf.
        is_for_several: one command of it may compile for several architectures.
        records_functions: its artifacts hold a digest for each function of a shared library.
        for_a_library: options of a proof that make its code loadable, and that a product may lack.
        read_again: project files that a recorded command reads now; None where it names them all.
    """

    options: CudaOptions | None = None
    is_jit: bool = False
    at_launch: bool = False
    reads_ptx: bool = False
    caches_cubins: bool = False
    hands_on: str = ""
    options_file: str = ""
    is_for_several: bool = False
    records_functions: bool = False
    for_a_library: frozenset[str] = frozenset()
    read_again: ReadAgain | None = None

    def words(self, command: Sequence[str], kind: str, knobs: Knobs, path: str, *, by_file: bool) -> tuple[str, ...]:
        """The options that apply controls, a file at ``path``, behind ``command``; ``by_file`` where it reads them."""
        if self.options is None or (by_file and self.options_file and kind == "options"):
            return (f"{self.options_file}{path}",)
        before = "" if "--controls=nvcc" in command else self.hands_on
        applied = (f"{before}--apply-controls={path}",) if kind == "blob" else ()
        return (*applied, *self.options.words(knobs))

    def added_to(self, compiler: CompilerTable) -> str:
        """Words of a recorded command that only make its code loadable, and what is known of them."""
        if compiler.change is not None:
            return str(compiler.change)
        return " ".join(dict.fromkeys(word for word in compiler.command if word in self.for_a_library))

    def params(self, knobs: Knobs) -> Mapping[str, object]:
        """Values that a launch or a program is given beside the options."""
        return launch_params(knobs) if self.at_launch else params_of(knobs)


_FOR_A_LIBRARY = frozenset(
    ("-fPIC", "-fPIE", "-fno-gnu-unique", "-mno-direct-extern-access", "-fno-direct-access-external-data")
)
_HOST = Deployment(options_file="@", records_functions=True, for_a_library=_FOR_A_LIBRARY, read_again=read_again)
_BY_COMPILER = {
    "gcc": _HOST,
    "clang": _HOST,
    "nvcc": Deployment(
        NVCC, is_jit=True, hands_on="-Xptxas=", options_file="--options-file=", is_for_several=True,
        read_again=tools.read_again,
    ),
    "ptxas": Deployment(PTXAS, is_jit=True, reads_ptx=True, caches_cubins=True),
    "triton": Deployment(PTXAS, is_jit=True, at_launch=True, caches_cubins=True),
}  # fmt: skip


def deploy(artifact: Artifact) -> Deployment:
    """How the controls of ``artifact`` get into a product; of a third-party compiler nothing is known."""
    return _BY_COMPILER.get(artifact.compiler.name, Deployment())
