"""The controls of gcc and clang: an options file with one option per line, and the options that it may never hold.

A compiler's options can run programs and write files. So an option needs a plain spelling and one of five beginnings,
and must not be one that does more than choose how code is generated. Which of the others may be committed is decided
in ``pytest_compileiq.toolchains.options``.
"""

from __future__ import annotations

import re

from pytest_compileiq.errors import MarkerError
from pytest_compileiq.model import Candidate, ControlsFile, KnobValue
from pytest_compileiq.toolchains.macros import DEFINITION

_MOST_OPTIONS = 1000
_LONGEST_OPTION = 200

# No slash, colon, bar, quote, blank or backslash: a value cannot be a path, a program or a second option.
_PLAIN = (
    r"-(?:O(?:[0-3sgz]|fast)?|[fm][A-Za-z0-9][A-Za-z0-9_=.,+-]*|-param=[A-Za-z0-9][A-Za-z0-9_=.,+-]*)"
    rf"|{DEFINITION}"
)
_DOES_MORE = (
    r"-f(?:no-)?(?:"
    r"plugin|pass-plugin|module|pch|load|integrated|"  # run other programs, or read other files
    r"dump|opt-info|stack-usage|callgraph-info|save-|time-trace|diagnostics|crash-diagnostics|mem-report|proc-stat|"
    r"deps-|profile|auto-profile|branch-probabilities|test-coverage|coverage|cs-profile|memory-profile|instrument|"
    r"sanitize|xray|self-test|report-bug|"  # write some
    r"lto|whole-program|wpa|ltrans|thin-?lto|embed|use-ld|linker|resolution|"  # reach the link
    r"syntax-only|preprocessed|directives|working-directory|(?:file|macro|debug)-prefix|debug-compilation-dir|"
    r"(?:input|exec|wide-exec)-charset|random-seed|compare-debug|dbg-cnt|"
    r"PIC|PIE|pic|pie|visibility|common|short-|pack-struct|abi|signed-char|unsigned-char|openmp(?!-simd)|openacc|permissive|"
    # An option named after a file takes one; so does an option with a second "=".
    r"[a-z-]*(?:file|dir|path|list|report|record|index|map|cache|bitcode)[a-z-]*=|[a-z-]+=[A-Za-z0-9_.,+-]*="
    r")"
    r"|-m(?:arch=|cpu=|llvm|abi|32|64|x32|16|fentry|record-mcount|nop-mcount|instrument|cmodel|code-model|no-red-zone)"
)
NAMEABLE = re.compile(f"(?!{_DOES_MORE})(?:{_PLAIN})")


def render_options(candidate: Candidate) -> ControlsFile:
    """The options file of ``candidate``: knobs beginning with ``-``, name and value joined, sorted, one per line.

    Raises:
        MarkerError: a knob is not an option that a controls file may hold, or the candidate is an opaque blob.
    """
    if candidate.blob is not None:
        raise MarkerError("gcc and clang read options, not an opaque controls blob: give Cc a space of named knobs")
    options = sorted(_option(name, value) for name, value in candidate.knobs.items() if name.startswith("-"))
    if len(options) > _MOST_OPTIONS:
        raise MarkerError(f"{len(options)} compiler options in one candidate: expected at most {_MOST_OPTIONS}")
    data = "".join(f"{option}\n" for option in options).encode("ascii")
    return ControlsFile("options", data, dict(candidate.knobs))


def _option(name: str, value: KnobValue) -> str:
    if isinstance(value, bool):
        raise MarkerError(
            f"knob {name!r} = {value}: a compiler option takes no boolean; use literal('', knockout_prob=…)"
        )
    option = f"{name}{value}"
    if len(option) > _LONGEST_OPTION or not re.fullmatch(_PLAIN, option):
        raise MarkerError(
            f"knob {name!r} = {value!r}: {option[:_LONGEST_OPTION]!r} is not an option that a controls file may hold; "
            "expected -f…, -m…, -O… or --param=… in letters, digits and _=.,+-, or a macro -DNAME=VALUE, its value in "
            "letters, digits and _.+-"
        )
    if not NAMEABLE.fullmatch(option):
        raise MarkerError(
            f"knob {name!r} = {value!r}: {option!r} does more than choose how code is generated; "
            "put it in the toolchain's flags, where it applies to both arms"
        )
    return option
