"""What NVIDIA's compilers have in common as toolchains, and what all that end in ptxas have."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import ClassVar

from pytest_compileiq.errors import BuildError, EnvironmentFault
from pytest_compileiq.machine_code.cubin import Cubin
from pytest_compileiq.machine_code.names import readable
from pytest_compileiq.model import Candidate, CodeDigest, Compiler, ControlClass, ControlsFile, Licence, Target
from pytest_compileiq.rules.classes import SAFE
from pytest_compileiq.space import OpaqueSpace, PtxasSearchSpace, Space
from pytest_compileiq.timing.registry import why_not_here
from pytest_compileiq.toolchains.base import BaseSpace, Builder
from pytest_compileiq.toolchains.nvidia.options import PTXAS, BaselineOptions, CudaOptions
from pytest_compileiq.toolchains.nvidia.tools import CONTROLS_SINCE, INSTALL, CudaTool

ACF = "--apply-controls="
_ENTRY = re.compile(r"Compiling entry function '(?P<name>[^']+)' for '(?P<arch>[^']+)'")
_FRAME = re.compile(r"(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads")
_USED = {
    "registers": re.compile(r"Used (\d+) registers"),
    "barriers": re.compile(r"used (\d+) barriers"),
    "shared_bytes": re.compile(r"(\d+) bytes smem"),
}
_METRICS = (
    "registers", "barriers", "spill_store_bytes", "spill_load_bytes", "spill_bytes", "stack_bytes", "shared_bytes",
)  # fmt: skip


def read_ptxas_log(output: str) -> dict[tuple[str, str], dict[str, int]]:
    """(entry, architecture) → its exact metrics.

    ``stack_bytes`` and the spills are summed over an entry and the functions it calls; ``spill_bytes`` is the sum of
    spill stores and loads.
    """
    by_entry: dict[tuple[str, str], dict[str, int]] = {}
    current: dict[str, int] | None = None
    for line in output.splitlines():
        if entry := _ENTRY.search(line):
            current = by_entry.setdefault((entry["name"], entry["arch"]), {})
            current |= dict.fromkeys(_METRICS, 0)
            continue
        if current is None:
            continue
        if frame := _FRAME.search(line):
            stack, stores, loads = map(int, frame.groups())
            current["stack_bytes"] += stack
            current["spill_store_bytes"] += stores
            current["spill_load_bytes"] += loads
            current["spill_bytes"] += stores + loads
        if _USED["registers"].search(line):
            for name, pattern in _USED.items():
                used = pattern.search(line)
                current[name] = int(used[1]) if used else 0
    return by_entry


@dataclass(frozen=True, kw_only=True)
class NvidiaBuilder(Builder):
    """One installed compiler that ends in ptxas, whose controls are an ACF, public options, or both."""

    public_options: ClassVar[CudaOptions] = PTXAS

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
        reasons = [why_not_here(self.clock, arch) for arch in self.architectures]
        return None if None in reasons else reasons[0]

    @property
    def loaded_architecture(self) -> str:
        """The first of the architectures that a device here runs; where none does, the first of all."""
        here = (arch for arch in self.architectures if why_not_here(self.clock, arch) is None)
        return next(here, self.architectures[0])

    @property
    def suffixes(self) -> tuple[str, ...]:
        """What a build for several architectures appends to the names of its entries, by architecture."""
        return tuple(f"@{arch}" for arch in self.architectures) if len(self.architectures) > 1 else ("",)

    @property
    def knobs_taken(self) -> frozenset[str]:
        return frozenset()

    @property
    def acf_line(self) -> str:
        return self.tool.line

    @property
    def opaque_space(self) -> OpaqueSpace:
        """CompileIQ's space of the compiler that the ACF is for."""
        return PtxasSearchSpace()

    def default_space(self) -> Space:
        return Space((), self.opaque_space)

    def option_space(self) -> Space:
        return self.space_with("options", ())

    def space_with(self, base: BaseSpace | None, classes: Collection[ControlClass]) -> Space:
        asked = {*(SAFE if base == "options" else ()), *classes}
        options = self.public_options.space(self._baseline, asked)
        return Space.merge(options, self.default_space()) if base == "default" else options

    @property
    def option_classes(self) -> Sequence[ControlClass]:
        return self.public_options.classes(self._baseline)

    def says(self, option: str, beside: Sequence[str] = ()) -> bool:
        command = (*self.compiler.command, *beside)
        return BaselineOptions(self.public_options.compiler, command).says(option)

    @property
    def _baseline(self) -> BaselineOptions:
        return BaselineOptions(self.public_options.compiler, self.compiler.command)

    def render(self, candidate: Candidate) -> ControlsFile:
        return self.public_options.render(candidate)

    @property
    def acf_option(self) -> str:
        """The option that an ACF's path is joined to."""
        return ACF

    def options(self, controls: ControlsFile, path: Path) -> tuple[str, ...]:
        applied = (f"{self.acf_option}{path}",) if controls.kind == "blob" else ()
        return (*applied, *self.public_options.words(controls.knobs))

    def applied(self, controls: ControlsFile | None, path: Path) -> tuple[str, ...]:
        """The options that apply ``controls``, whose ACF is written to ``path``.

        Raises:
            EnvironmentFault: they are an ACF, and this compiler takes none.
        """
        if controls is None:
            return ()
        if controls.kind == "blob":
            if not self.tool.takes_controls:
                since = ".".join(map(str, CONTROLS_SINCE))
                message = f"an ACF needs {self.tool.name} {since} or later; found {self.tool}: {INSTALL}"
                raise EnvironmentFault(message)
            path.write_bytes(controls.data)
        return self.options(controls, path)


def entries_of(cubin: Cubin, log: str, arch: str, source: str, suffix: str = "") -> dict[str, CodeDigest]:
    """Entry, with ``suffix`` behind it → digest, with the metrics that ``ptxas -v`` printed for it.

    Raises:
        BuildError: the file defines no entry function.
    """
    if not cubin.entries:
        raise BuildError(f"{source}: defines no entry function for {arch}", kind="compile", log=log)
    printed = read_ptxas_log(log)
    return {
        f"{name}{suffix}": replace(code, metrics={**code.metrics, **printed.get((cubin.symbols[name], arch), {})})
        for name, code in cubin.entries.items()
    }


# The licences of PTX: roundings that ptxas may choose. PTX ISA, "Floating Point Instructions": mul and add that name no
# rounding may be fused, mul.rn and add.rn never are; .approx and div.full have an accuracy and no exact result.
_REAL = r"(?:f16|f16x2|bf16|bf16x2|f32|f32x2|f64)"
_OPERATION = re.compile(rf"^\s*(?:@!?%\w+\s+)?(mul|add|sub|fma)((?:\.\w+)*)\.({_REAL})\s", re.MULTILINE)
_APPROXIMATE = re.compile(rf"^\s*(?:@!?%\w+\s+)?((?:\w+\.)(?:approx|full)(?:\.ftz)?\.{_REAL})\s", re.MULTILINE)
_ATOMIC = re.compile(rf"^\s*(?:@!?%\w+\s+)?((?:atom|red)\.[\w.:]*add(?:\.noftz)?(?:\.v\d)?\.{_REAL})\s", re.MULTILINE)
_PTX_ENTRY = re.compile(r"^\s*(?:\.visible\s+|\.weak\s+)?\.entry\s+([\w$]+)", re.MULTILINE)
_HEADER = re.compile(r"^\s*\.(?:version|target|address_size)\s.*\n", re.MULTILINE)
# CUDA compiler driver documentation, "--use_fast_math"
_FAST_MATHS = "--use_fast_math"
_PARTS_OF_IT = ("--ftz=true", "--prec-div=false", "--prec-sqrt=false")
_ROUNDED = frozenset({".rn", ".rz", ".rm", ".rp"})


def fusible(ptx: str, *, may_be_rounded: bool = False) -> str | None:
    """The first entry function where ptxas may make one operation of a product and a sum of a type.

    Where a compiler fuses before ptxas, products and sums ``may_be_rounded`` in any way.
    """
    products: dict[str, str] = {}
    sums: set[str] = set()
    for operation in _OPERATION.finditer(ptx):
        code, modifiers, kind = operation.groups()
        if not may_be_rounded and (code == "fma" or _ROUNDED & set(re.findall(r"\.\w+", modifiers))):
            continue
        if code in ("mul", "fma"):
            products.setdefault(kind, _entry(ptx, operation.start()))
        if code != "mul":
            sums.add(kind)
    return next((where for kind, where in products.items() if kind in sums), None)


def by_flags(baseline: BaselineOptions, ptx: str) -> Iterator[Licence]:
    """The licence of nvcc's flags that trade accuracy, where the PTX computes in floating point at all."""
    given = _FAST_MATHS if baseline.says(_FAST_MATHS) else " ".join(filter(baseline.says, _PARTS_OF_IT))
    if given and re.search(rf"\.{_REAL}\s", ptx):
        yield Licence("fast maths", "relaxed-maths", given, f"taking {given} out of the toolchain's flags")


def by_operations(ptx: str) -> Iterator[Licence]:
    """The licences that no flag takes away: approximations, and sums in whatever order the threads come."""
    if approximate := _APPROXIMATE.search(ptx):
        where = f"{_entry(ptx, approximate.start())} ({approximate[1]})"
        yield Licence("approximate functions", "contraction", where, "calling what is exact instead")
    if atomic := _ATOMIC.search(ptx):
        where = f"{_entry(ptx, atomic.start())} ({atomic[1]})"
        yield Licence("float atomics", "order", where, "a sum in a fixed order")


def contraction(as_it_is: str, unfused: str, where: str, remedy: str) -> Iterator[Licence]:
    """The licence of a compiler that gives PTX, from the baseline's and from that with products and sums apart.

    Args:
        where: what lets them be fused.
    """
    if as_it_is != unfused and (entry := fusible(unfused, may_be_rounded=True)):
        yield Licence("contraction", "contraction", f"{entry} ({where})", remedy)


def to_try(ptx: str) -> str:
    """A kernel with a product and a sum, for the architecture and in the version of ``ptx``."""
    return f"""{"".join(_HEADER.findall(ptx))}
.visible .entry tried(.param .u64 p)
{{
.reg .f32 %f<4>;
.reg .b64 %a;
ld.param.u64 %a, [p];
ld.global.f32 %f1, [%a];
mul.f32 %f2, %f1, %f1;
add.f32 %f3, %f2, %f1;
st.global.f32 [%a], %f3;
ret;
}}
"""


def _entry(ptx: str, position: int) -> str:
    """The entry function in front of ``position``, as its source spells it."""
    names = [entry[1] for entry in _PTX_ENTRY.finditer(ptx, 0, position)]
    return readable(names[-1]) if names else "a device function"
