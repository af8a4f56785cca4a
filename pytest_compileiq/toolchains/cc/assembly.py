"""Whether a compiler's output may have the assembler read a file: ``.incbin``, ``.include``, or a macro that makes one.

Only what gcc itself writes is let through: lines of a few shapes that hold strings, and statements without one whose
directives are on a list. So a scan that knows neither strings nor comments finds every statement, and some that the
assembler does not see.
"""

from __future__ import annotations

import re

_STRING = rb'"(?:[^"\\\n]|\\[^\n])*"'
# The whole of a line, so that no string or comment is open behind it.
_WITH_STRINGS = re.compile(
    rb"""[ \t]*(?:
        \.(?:ascii|string|ident)[ \t]+%(string)s
      | \.file[ \t]+(?:\d+[ \t]+)?%(string)s(?:[ \t]+%(string)s)?(?:[ \t]+md5[ \t]+0x[0-9a-f]+)?
      | \.(?:push)?section[ \t]+[\w.$-]+,[ \t]*"[a-zA-Z?]*"(?:,[ \t]*[@%%\w.$]+)*
      | \#[ \t]+\d+[ \t]+%(string)s(?:[ \t]+\d+)*
    )"""
    % {b"string": _STRING},
    re.VERBOSE,
)
_NO_TEXT = re.compile(rb"[\0-\x08\x0b-\x1f\x7f]")
_LABELS = re.compile(rb"(?:[^\s:%,()*]+[ \t]*:[ \t]*)*")  # whatever stands there and is no segment, as in %fs:x
_DIRECTIVE = re.compile(rb"\.[^ \t]*")
_READS_NO_FILE = frozenset(
    b"""
    2byte 4byte 8byte align att_syntax balign bss byte cfi_adjust_cfa_offset cfi_def_cfa cfi_def_cfa_offset
    cfi_def_cfa_register cfi_endproc cfi_escape cfi_lsda cfi_offset cfi_personality cfi_register
    cfi_rel_offset cfi_remember_state cfi_restore cfi_restore_state cfi_same_value cfi_sections
    cfi_startproc cfi_undefined comm data double else elseif endif fill float global globl hidden if ifc
    ifdef ifnc ifndef int internal lcomm loc local long octa p2align popsection previous protected
    pushsection quad section set short size skip sleb128 space text type uleb128 value weak weakref word
    zero
    """.split()
)


def why_it_may_read_a_file(assembly: bytes) -> str | None:
    """The first statement of ``assembly``, as gcc gives it to the GNU assembler for x86, that may read a file, or None.

    What the scan does not understand counts as one that may.
    """
    if control := _NO_TEXT.search(assembly):
        return repr(control[0])
    for line in assembly.split(b"\n"):
        if _WITH_STRINGS.fullmatch(line):
            continue
        if b'"' in line or b"/*" in line:
            return _shown(line)
        for statement in map(bytes.strip, line.split(b";")):
            directive = _DIRECTIVE.match(_LABELS.sub(b"", statement, count=1))
            if directive and directive[0][1:].lower() not in _READS_NO_FILE:
                return _shown(statement)
    return None


def _shown(text: bytes) -> str:
    return text.strip()[:80].decode(errors="replace")
