"""What flags let gcc or clang do with floating point, tried on a few lines that are compiled."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from pytest_compileiq.toolchains.cc.maths_library import calls_to_try, replaced_calls
from pytest_compileiq.toolchains.commands import ask

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
_VECTORISED = ("-ftree-vectorize", "-fvect-cost-model=unlimited")
_FUSED_IN_PAIRS = re.compile(r"\bvfm(?:addsub|subadd)\w+")
_IN_FORTRAN = """
function f(a, b, c)
real(8) :: f, a, b, c
f = a * b + c
end function
"""
# GCC manual, "Options That Control Optimization": in these states values may change.
_RELAXING = {
    "-fassociative-math": "enabled",
    "-ffinite-math-only": "enabled",
    "-freciprocal-math": "enabled",
    "-fsigned-zeros": "disabled",
    "-funsafe-math-optimizations": "enabled",
}
_ROUNDS_AT_RUN_TIME = {"-frounding-math": "enabled"}


def is_fortran(suffix: str) -> bool:
    """Whether a source of this suffix is in Fortran."""
    return _FORTRAN.fullmatch(suffix) is not None


@dataclass(frozen=True)
class Trial:
    """One compiler with the flags that some functions of a source are compiled with.

    Attributes:
        rootdir: where the compiler runs.
        directory: an empty one for what is tried.
        suffix: of the source, which decides the language.
    """

    program: str
    flags: tuple[str, ...]
    rootdir: Path
    directory: Path
    suffix: str

    def fuses(self) -> bool:
        """Whether ``a * b + c`` becomes one operation; true too where that cannot be told."""
        text = _IN_FORTRAN if is_fortran(self.suffix) else _IN_C
        as_it_is, never = self._assembly(text, self.suffix), self._assembly(text, self.suffix, NO_CONTRACTION)
        return as_it_is is None or as_it_is != never

    def fuses_in_pairs(self, *more: str) -> bool:
        """Whether gcc fuses differences and sums that stand side by side although contraction is off.

        gcc 12 makes x86's ``vfmaddsub`` of them in vectorised code under ``-ffp-contract=off`` too.
        """
        assembly = self._assembly(_IN_PAIRS, ".c", NO_CONTRACTION, *_VECTORISED, *more)
        return assembly is None or _FUSED_IN_PAIRS.search(assembly) is not None

    def replaces(self, calls: Sequence[str], *more: str) -> list[str]:
        """Those of ``calls`` of the maths library that are not left as they are, with ``more`` flags."""
        if not calls:
            return []
        suffix = ".c" if is_fortran(self.suffix) else self.suffix
        assembly = self._assembly(calls_to_try(calls), suffix, *more)
        return list(calls) if assembly is None else replaced_calls(calls, assembly)

    def relaxed(self) -> frozenset[str]:
        """The options in force, of GCC's, that let values change."""
        return self._in_force(_RELAXING)

    def rounds_at_run_time(self) -> bool:
        """Whether no inexact operation may be folded (GCC's ``-frounding-math``)."""
        return bool(self._in_force(_ROUNDS_AT_RUN_TIME))

    def has_excess_precision(self) -> bool:
        """Whether float or double is computed in a wider type, by ``FLT_EVAL_METHOD`` of the C standard."""
        macros = ask([self.program, *self.flags, "-w", "-dM", "-E", "-x", "c", "/dev/null"], cwd=self.rootdir).output
        method = re.search(r"^#define __FLT_EVAL_METHOD__ (-?\d+)", macros, re.MULTILINE)
        return method is not None and method[1] not in ("0", "16")

    def _in_force(self, states: Mapping[str, str]) -> frozenset[str]:
        shown = ask([self.program, *self.flags, "-Q", "--help=optimizers"], cwd=self.rootdir).output
        found = re.findall(r"^\s+(-f[\w-]+)\s+\[(enabled|disabled)\]", shown, re.MULTILINE)
        return frozenset(option for option, state in found if states.get(option) == state)

    def _assembly(self, text: str, suffix: str, *more: str) -> str | None:
        """The assembly of ``text`` without its file's name; None if it does not compile with these flags."""
        tried = self.directory / f"tried{suffix}"
        tried.write_text(text, encoding="ascii")
        language = ["-x", "c"] if suffix == ".c" else []
        argv = [self.program, *self.flags, *more, "-O2", "-w", "-Wno-error", "-S", *language, str(tried), "-o", "-"]
        finished = ask(argv, cwd=self.rootdir)
        return finished.output if finished.returncode == 0 else None
