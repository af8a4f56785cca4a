"""The licences of PTX, read from its operations: roundings that ptxas may choose.

PTX ISA, "Floating Point Instructions": ``mul`` and ``add`` that name no rounding may be fused, ``mul.rn`` and
``add.rn`` never are; ``.approx`` and ``div.full`` have an accuracy and no exact result.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from pytest_compileiq.machine_code.names import readable
from pytest_compileiq.model import Licence
from pytest_compileiq.toolchains.nvidia.options import BaselineOptions

_REAL = r"(?:f16|f16x2|bf16|bf16x2|f32|f32x2|f64)"
_OPERATION = re.compile(rf"^\s*(?:@!?%\w+\s+)?(mul|add|sub|fma)((?:\.\w+)*)\.({_REAL})\s", re.MULTILINE)
_APPROXIMATE = re.compile(rf"^\s*(?:@!?%\w+\s+)?((?:\w+\.)(?:approx|full)(?:\.ftz)?\.{_REAL})\s", re.MULTILINE)
_ATOMIC = re.compile(rf"^\s*(?:@!?%\w+\s+)?((?:atom|red)\.[\w.:]*add(?:\.noftz)?(?:\.v\d)?\.{_REAL})\s", re.MULTILINE)
_ENTRY = re.compile(r"^\s*(?:\.visible\s+|\.weak\s+)?\.entry\s+([\w$]+)", re.MULTILINE)
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
    names = [entry[1] for entry in _ENTRY.finditer(ptx, 0, position)]
    return readable(names[-1]) if names else "a device function"
