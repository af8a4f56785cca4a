"""What the baseline's flags and a source already let gcc, clang or gfortran change, found out by compiling.

The operations of a source are read from the compiler's own text of it (``dumps``), the effect of the flags is tried. A
licence is given for what *some* candidate may do: which arguments are constants and which products meet which sums
depends on inlining and unrolling, and a candidate may do these otherwise than the baseline.
"""

from __future__ import annotations

import re
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

from pytest_compileiq.errors import BuildError
from pytest_compileiq.model import Licence
from pytest_compileiq.rules.classes import each_once
from pytest_compileiq.toolchains.cc.compiler import first_error
from pytest_compileiq.toolchains.cc.dumps import (
    Flags,
    FloatingPoint,
    Where,
    calls_to_try,
    library_symbols,
    read_ir,
    read_operations,
    read_statements,
    replaced_calls,
    united,
)
from pytest_compileiq.toolchains.steps import Commands, ask

NO_CONTRACTION = "-ffp-contract=off"
_FORTRAN = re.compile(r"\.(?:f|for|ftn|fpp|f\d\d)", re.IGNORECASE)
_IN_C = """
double f(double a, double b, double c) { return a * b + c; }
float g(float a, float b, float c) { return a * b + c; }
"""
_IN_PAIRS = """
void f(float *o, const float *a, const float *b, int n) {
  for (int k = 0; k < n; k += 2) {
    float r = a[k] * b[k] - a[k + 1] * b[k + 1], i = a[k] * b[k + 1] + a[k + 1] * b[k];
    o[k] = r;
    o[k + 1] = i;
  }
}
"""
# gcc 12 makes x86's vfmaddsub of them in vectorised code under -ffp-contract=off too.
_VECTORISED = ("-ftree-vectorize", "-fvect-cost-model=unlimited")
_FUSED_IN_PAIRS = re.compile(r"\bvfm(?:addsub|subadd)\w+")
_IN_FORTRAN = """
function f(a, b, c)
real(8) :: f, a, b, c
f = a * b + c
end function
"""
# GCC manual, "Options That Control Optimization": in these states values may change.
_RELAXING: Mapping[str, str] = {
    "-fassociative-math": "enabled",
    "-ffinite-math-only": "enabled",
    "-freciprocal-math": "enabled",
    "-fsigned-zeros": "disabled",
    "-funsafe-math-optimizations": "enabled",
}


def is_fortran(suffix: str) -> bool:
    """Whether a source of this suffix is in Fortran."""
    return _FORTRAN.fullmatch(suffix) is not None


_ALL_S = 120.0  # for everything that is compiled to find out
_FLAGS = "in the toolchain's flags"
_LETS_FUSE = ("-ffp-contract=", "-march=", "-mcpu=", "-mfma", "-Ofast", "-ffast-math")
_UNFUSED = (("-mno-fma",), ("-mno-fma", "-mno-avx512f"))
_TARGET_FUSES = "+fma"  # of a function of clang's by an attribute of its own
# In registers the bits of a value that was stored are seen, whatever the baseline's level of optimisation is.
_SCALAR = ("-O2", "-fno-tree-vectorize", "-fno-tree-slp-vectorize")


def licences_of_sources(
    compiler: str, by_command: Iterable[tuple[Sequence[str], str]], rootdir: Path
) -> tuple[Licence, ...]:
    """The licences of all sources, each once with its first place, from each command of ``gcc`` or ``clang``."""
    found: list[Licence] = []
    with tempfile.TemporaryDirectory() as directory:
        commands = Commands(compiler, rootdir, Path(directory), _ALL_S, first_error)
        for (program, *flags), source in by_command:
            found += SourceLicences(program, compiler == "clang", tuple(flags), source, commands).licences()
    return each_once(found)


@dataclass(frozen=True)
class SourceLicences:
    """The baseline's command for one source, or a trial with more ``flags``, compiled by ``commands``."""

    program: str
    is_clang: bool
    flags: Flags
    source: str
    commands: Commands

    def licences(self) -> Iterator[Licence]:
        if self._seen.is_absent:
            return
        for flags, where in {(): None, **self._seen.attributes}.items():
            trial = replace(self, flags=(*self.flags, *flags))
            yield from self._rounded_less(trial, where)
            yield from self._replaced_calls(trial)
            if self._seen.arithmetic and not self.is_clang and trial._relaxed():
                yield self._fast_maths(where)
        yield from self._by_the_source()

    def _rounded_less(self, trial: SourceLicences, attribute: Where | None) -> Iterator[Licence]:
        seen = self._seen
        in_pairs = not self.is_clang and seen.products_meet_both is not None and trial._fuses_in_pairs()
        if seen.products_meet_sums and (in_pairs or (self.is_clang and _TARGET_FUSES in self._ir) or trial._fuses()):
            given = " ".join(flag for flag in trial.flags if flag.startswith(_LETS_FUSE))
            where = f"{self._in_project(attribute or seen.products_meet_sums)} ({given or 'by default'})"
            unfused = (flags for flags in _UNFUSED if not trial._fuses_in_pairs(*flags))
            remedy = " ".join(next(unfused, ())) if in_pairs else ""
            yield Licence("contraction", "contraction", where, f"{remedy or NO_CONTRACTION} {_FLAGS}")
        if seen.arithmetic and trial._has_excess_precision():
            where = self._in_project(attribute or seen.arithmetic)
            yield Licence("excess precision", "contraction", where, f"-msse2 -mfpmath=sse {_FLAGS}")
        if seen.complex_arithmetic and not trial._rounds_at_run_time():
            where = self._in_project(seen.complex_arithmetic)
            yield Licence("complex constants", "contraction", where, f"-frounding-math {_FLAGS}")

    def _replaced_calls(self, trial: SourceLicences) -> Iterator[Licence]:
        for call in trial._replaces(list(self._seen.calls)):
            name = call.removeprefix("__builtin_")
            keeps = [flag for flag in (f"-fno-builtin-{name}", "-frounding-math") if not trial._replaces([call], flag)]
            remedy = f"{keeps[0]} {_FLAGS}" if keeps else f"computing the value without {name}: no flag keeps its calls"
            where = f"{name} at {self._in_project(self._seen.calls[call])}"
            yield Licence("libm folding", "contraction", where, remedy)

    def _fast_maths(self, attribute: Where | None) -> Licence:
        if attribute is not None:
            where = f"{self._in_project(attribute)} (optimize)"
            return Licence("fast maths", "relaxed-maths", where, "taking out the attribute or the pragma")
        behind = [flag for flag in dict.fromkeys(self.flags) if replace(self, flags=(flag,))._relaxed()]
        where = " ".join(behind or self.flags)
        return Licence("fast maths", "relaxed-maths", where, f"taking {where} out of the toolchain's flags")

    def _by_the_source(self) -> Iterator[Licence]:
        seen = self._seen
        if seen.relaxed:
            where = f"{self._in_project(next(iter(seen.relaxed.values())))} ({' '.join(seen.relaxed)})"
            yield Licence("fast maths", "relaxed-maths", where, "taking out the flag or the pragma that relaxes it")
        for directive, place in seen.reductions.items() if seen.arithmetic else ():
            name = "float atomics" if "atomic" in directive else "simd reduction"
            where = f"{self._in_project(place)} ({directive})"
            yield Licence(name, "order", where, "taking out the directive, or the flag that turns it on (-fopenmp)")
        for setter, place in seen.modes.items():
            where = f"{setter} at {self._in_project(place)}"
            yield Licence("rounding mode", "contraction", where, "leaving the mode alone")
        if seen.bits and seen.arithmetic:
            where = self._in_project(seen.bits)
            yield Licence("NaN payloads", "order", where, "reading no bits, and no sign, of a value that may be NaN")

    def _fuses(self) -> bool:
        """Whether ``a * b + c`` becomes one operation; true too where that cannot be told."""
        text = _IN_FORTRAN if is_fortran(self._suffix) else _IN_C
        as_it_is, never = self._assembly(text, self._suffix), self._assembly(text, self._suffix, NO_CONTRACTION)
        return as_it_is is None or as_it_is != never

    def _fuses_in_pairs(self, *more: str) -> bool:
        """Whether gcc fuses differences and sums that stand side by side although contraction is off."""
        assembly = self._assembly(_IN_PAIRS, ".c", NO_CONTRACTION, *_VECTORISED, *more)
        return assembly is None or _FUSED_IN_PAIRS.search(assembly) is not None

    def _replaces(self, calls: Sequence[str], *more: str) -> list[str]:
        """Those of ``calls`` of the maths library that are not left as they are, with ``more`` flags."""
        if not calls:
            return []
        suffix = ".c" if is_fortran(self._suffix) else self._suffix
        assembly = self._assembly(calls_to_try(calls), suffix, *more)
        return list(calls) if assembly is None else replaced_calls(calls, assembly)

    def _relaxed(self) -> list[str]:
        """The options in force, of GCC's, that let values change."""
        return [option for option, state in self._in_force() if _RELAXING.get(option) == state]

    def _rounds_at_run_time(self) -> bool:
        """Whether no inexact operation may be folded (GCC's ``-frounding-math``)."""
        return ("-frounding-math", "enabled") in self._in_force()

    def _has_excess_precision(self) -> bool:
        """Whether float or double is computed in a wider type, by ``FLT_EVAL_METHOD`` of the C standard."""
        macros = ask(
            [self.program, *self.flags, "-w", "-dM", "-E", "-x", "c", "/dev/null"], cwd=self.commands.rootdir
        ).output
        method = re.search(r"^#define __FLT_EVAL_METHOD__ (-?\d+)", macros, re.MULTILINE)
        return method is not None and method[1] not in ("0", "16")

    def _in_force(self) -> list[tuple[str, str]]:
        shown = ask([self.program, *self.flags, "-Q", "--help=optimizers"], cwd=self.commands.rootdir).output
        return re.findall(r"^\s+(-f[\w-]+)\s+\[(enabled|disabled)\]", shown, re.MULTILINE)

    def _assembly(self, text: str, suffix: str, *more: str) -> str | None:
        """The assembly of ``text`` without its file's name; None if it does not compile with these flags."""
        tried = self.commands.out_dir / f"tried{suffix}"
        tried.write_text(text, encoding="ascii")
        language = ["-x", "c"] if suffix == ".c" else []
        argv = [self.program, *self.flags, *more, "-O2", "-w", "-Wno-error", "-S", *language, str(tried), "-o", "-"]
        finished = ask(argv, cwd=self.commands.rootdir)
        return finished.output if finished.returncode == 0 else None

    @property
    def _suffix(self) -> str:
        return Path(self.source).suffix

    def _in_project(self, where: Where) -> Where:
        """``where``, or the source if that is a header elsewhere, whose path is another on another machine."""
        return self.source if where.startswith("/") else where.removeprefix("./")

    @cached_property
    def _seen(self) -> FloatingPoint:
        if self.is_clang:
            return united(read_ir(self._ir), FloatingPoint(bits=read_ir(self._ir_of("-O2")).bits))
        try:
            unoptimised = self._dumped("-O0")
        except BuildError as error:
            if error.kind == "timeout":
                raise
            return self._dumped(*_SCALAR)  # an intrinsic may need optimisation to see that an argument is a constant
        return unoptimised if unoptimised.is_absent else united(unoptimised, self._dumped(*_SCALAR))

    def _dumped(self, *more: str) -> FloatingPoint:
        dumps = rtl, gimple = self.commands.out_dir / "rtl", self.commands.out_dir / "gimple"
        for dump in dumps:
            dump.unlink(missing_ok=True)  # that of the source before: gcc writes none of a source without functions
        compiled = self._compile(
            *more, NO_CONTRACTION, f"-fdump-rtl-expand={rtl}", f"-fdump-tree-gimple-lineno={gimple}"
        )
        operations, statements, assembly = (_text(path) if path.exists() else "" for path in (*dumps, compiled))
        seen = united(read_operations(operations), read_statements(statements))
        named = {symbol: self.source for symbol in library_symbols(assembly) if f"__builtin_{symbol}" not in seen.calls}
        return united(seen, FloatingPoint(calls=named))

    @cached_property
    def _ir(self) -> str:
        return self._ir_of("-Xclang", "-disable-llvm-passes")

    def _ir_of(self, *more: str) -> str:
        return _text(self._compile(*more, "-emit-llvm", "-gline-tables-only"))

    def _compile(self, *more: str) -> Path:
        output = self.commands.out_dir / "compiled"
        modules = ("-J", str(output.parent)) if is_fortran(self._suffix) else ()  # later sources use them
        argv = [self.program, *self.flags, *modules, *more, "-w", "-S", self.source, "-o", str(output)]
        self.commands.run(argv, self.source)
        return output


def _text(path: Path) -> str:
    return path.read_text(encoding="utf-8", errors="replace")
