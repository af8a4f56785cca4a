"""Numbers that describe machine code: how much of which kind of instruction, in all of it and in its innermost loops.

A model of how fast code is learns more from them than from options (static features: Fursin et al., "Milepost GCC",
Int. J. Parallel Programming 39, 2011; statistics of the compiled code in a Gaussian process: Zhao et al., "CITROEN",
IPDPS 2025). ``objdump`` disassembles; loops are backward branches, as binary analysis takes them.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import accumulate
from pathlib import Path

from pytest_compileiq.errors import BuildError, EnvironmentFault
from pytest_compileiq.toolchains.commands import ask

_LISTING_BYTES = 2**20  # some 25 000 instructions
_MOST_BYTES = 4 * 2**20
_FUNCTION = re.compile(r"^[0-9a-f]+ <.*>:$", re.MULTILINE)
_INSTRUCTION = re.compile(r"^ +([0-9a-f]+):\t([^#\n]*?) *(?:#.*)?$", re.MULTILINE)
_ELF, _MACHINE, _X86 = b"\x7fELF", slice(18, 20), (3, 62)  # EM_386, EM_X86_64
_PREFIX = re.compile(r"^(?:(?:rep\w*|lock|bnd|notrack|data16|[cdefgs]s) +)+")
_TARGET = re.compile(r"^([0-9a-f]+)\b")
_MEMORY = re.compile(r"[^,]*\([^)]*\)")
# The first that matches a mnemonic of AT&T's syntax is its kind.
_KINDS = tuple(
    (kind, re.compile(pattern))
    for kind, pattern in (
        ("padding", r"nop|xchg$|endbr|int3|ud2|hlt"),
        ("jumps", r"jmp"),
        ("branches", r"j"),
        ("calls", r"call"),
        ("returns", r"ret|leave"),
        ("stack", r"push|pop"),
        ("divisions", r"v?u?i?div|v?sqrt"),
        ("fused", r"vfn?m(add|sub)"),
        ("prefetches", r"prefetch"),
        ("gathers", r"vp?(gather|scatter)"),
        ("shuffles", r"v?p?(shuf|unpck|broadcast|perm|blend|insert|extract|pack|align)|v?mov(s[hl]dup|ddup|hl|lh)"),
        ("conversions", r"v?cvt|v?pmov[sz]x|c(bt|wt|lt|qt)|movs[bwl][wlq]|movz[bw][wlq]|movslq"),
        ("selects", r"cmov|set"),
        ("compares", r"cmp|test|v?u?comi|v?p?cmp|v?p?test"),
        ("multiplications", r"i?mul|v?p?mul|v?pmadd"),
        ("addresses", r"lea"),
        ("moves", r"v?mov"),
        ("shifts", r"s[ah][rl]|ro[rl]|rc[rl]|[sr]h?[la]rx|rorx|v?ps[lr]|bt|bs[fr]|[lt]zcnt|popcnt"),
        ("logic", r"and|or|xor|not|v?p?(and|or|xor)|blsr|blsi"),
    )
)  # fmt: skip
_OTHER = "arithmetic"
_VECTOR_PACKED = re.compile(r"^v?(.*p[sd]$|p|mov[aud])")


@dataclass(frozen=True)
class _Instruction:
    """One instruction: where it stands, what it counts as, and where it may branch to (-1: nowhere)."""

    address: int
    kinds: tuple[str, ...]
    target: int


def features_of(path: Path) -> dict[str, float]:
    """Name → number, for the machine code of a linked file or object for x86.

    Empty for other files, for more code than a kernel has, and where there is no ``objdump``.
    """
    if not _is_small_x86(path):
        return {}
    argv = ["objdump", "--disassemble", "--no-show-raw-insn", "--section=.text", str(path)]
    try:
        listing = ask(argv, tail_bytes=_LISTING_BYTES)
    except (EnvironmentFault, BuildError):
        return {}
    is_whole = listing.returncode == 0 and len(listing.output) < _LISTING_BYTES
    return described(listing.output) if is_whole else {}


def _is_small_x86(path: Path) -> bool:
    try:
        with path.open("rb") as stream:
            header = stream.read(_MACHINE.stop)
        is_x86 = header.startswith(_ELF) and int.from_bytes(header[_MACHINE], "little") in _X86
        return is_x86 and path.stat().st_size <= _MOST_BYTES
    except OSError:
        return False


def described(listing: str) -> dict[str, float]:
    """Name → number, of what ``objdump`` printed in AT&T's syntax; counts are log(1 + n)."""
    functions = [_instructions(text) for text in _FUNCTION.split(listing)[1:]]
    whole, inner = Counter[str](), Counter[str]()
    lengths: list[int] = []
    loops = aligned = 0
    for function in functions:
        found = _loops(function)
        loops += len(found)
        aligned += sum(function[start].address % 32 == 0 for start, _ in found)
        whole.update(_counts(function))
        for start, end in _innermost(found):
            inner.update(_counts(function[start : end + 1]))
            lengths.append(end + 1 - start)
    return {
        **{kind: math.log1p(count) for kind, count in whole.items()},
        **{f"inner {kind}": math.log1p(count) for kind, count in inner.items()},
        "loops": math.log1p(loops),
        "aligned loops": math.log1p(aligned),
        "innermost loops": math.log1p(len(lengths)),
        "longest innermost loop": math.log1p(max(lengths, default=0)),
        "shortest innermost loop": math.log1p(min(lengths, default=0)),
    }


def _instructions(text: str) -> list[_Instruction]:
    return [
        _Instruction(int(address, 16), *_kinds_and_target(instruction))
        for address, instruction in _INSTRUCTION.findall(text)
    ]


def _counts(instructions: Iterable[_Instruction]) -> Mapping[str, int]:
    return Counter(kind for instruction in instructions for kind in instruction.kinds)


@lru_cache(maxsize=1 << 15)  # candidates of one search share most of their instructions
def _kinds_and_target(text: str) -> tuple[tuple[str, ...], int]:
    mnemonic, _, operands = _PREFIX.sub("", text, count=1).partition(" ")
    operands = operands.strip()
    kind = next((kind for kind, pattern in _KINDS if pattern.match(mnemonic)), _OTHER)
    if kind in ("branches", "jumps"):
        target = _TARGET.match(operands)
        return ("instructions", kind), int(target[1], 16) if target else -1
    if kind == "padding":
        return (kind,), -1
    return ("instructions", kind, *_access(kind, operands), *_width(mnemonic, operands)), -1


def _access(kind: str, operands: str) -> Iterable[str]:
    memory = _MEMORY.search(operands)
    if memory is None or kind in ("addresses", "prefetches"):
        return
    is_last = memory.end() == len(operands)
    yield "stores" if is_last and kind != "compares" and "," in operands else "loads"
    if "%rsp" in memory[0]:
        yield "spills"


def _width(mnemonic: str, operands: str) -> Iterable[str]:
    if "%zmm" in operands:
        yield "zmm"
    elif "%ymm" in operands:
        yield "ymm"
    elif "%xmm" in operands:
        yield "xmm" if _VECTOR_PACKED.match(mnemonic) else "scalar"


def _loops(function: Sequence[_Instruction]) -> list[tuple[int, int]]:
    """Places (first, last) of each backward branch's body, sorted by last; the smallest of one end comes first."""
    place = {instruction.address: number for number, instruction in enumerate(function)}
    ends = {}
    for number, instruction in enumerate(function):
        start = place.get(instruction.target, number + 1)
        if start <= number:
            ends[start] = number  # several branches to one head are one loop, which ends with the last
    return sorted(ends.items(), key=lambda loop: (loop[1], -loop[0]))


def _innermost(loops: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """Those that hold no other; ``loops`` as ``_loops`` gives them."""
    latest = [-1, *accumulate((start for start, _ in loops), max)]
    return [loop for loop, before in zip(loops, latest, strict=False) if before < loop[0]]
