"""What a C or C++ source names that another file may answer: a scan of its text that finds too much, never too little.

Directives count wherever they stand, in comments and in branches that are not taken too. Text whose meaning a scan
cannot know, such as a file's name that a macro makes, is refused.
"""

from __future__ import annotations

import re

from msgspec import Struct

from pytest_compileiq.rules.build_key import NotModelled

_SPLICE = re.compile(rb"\\[ \t\r\f\v]*\n")  # gcc takes blanks behind the backslash too
_NO_CODE = re.compile(
    rb"""//[^\n]*|/\*.*?\*/|("(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*')""",
    re.DOTALL,
)
_BLANK = rb"(?:\s|/\*.*?\*/)*"
_DIRECTIVE = re.compile(rb"(?:\#|%:)" + _BLANK + rb"(?:include|include_next|import)\b" + _BLANK + rb"(\S?)", re.DOTALL)
_ASKED = re.compile(rb"__has_include(?:_next)?\b" + _BLANK + rb"\(" + _BLANK + rb"(\S?)", re.DOTALL)
_ASKED_AT_ALL = re.compile(rb"(?:(?:ifdef|ifndef|defined)[\s(]+)?__has_include(?:_next)?\b\s*(\(?)")
_NAMED = re.compile(rb'"([^"\n]*)"|<([^>\n]*)>')
_NEVER = (
    (re.compile(rb"incbin|\#\s*embed\b|%:\s*embed\b|__has_embed"), "reads a file that no list of headers names"),
    (re.compile(rb"__(?:DATE|TIME|TIMESTAMP)__"), "holds the time of its build"),
    (re.compile(rb"\?\?[=/]"), "is written in trigraphs"),
    (re.compile(rb"GCC\s+(?:dependency|pch_preprocess)"), "has a pragma that looks at another file"),
    (re.compile(rb"(?<!\d)=\s*native\b"), "asks for the processor that it is compiled on"),  # Python.h: 0=native
)
# Assembly itself, and what else of a source's strings the compiler hands to the assembler as it is; a macro may paste
# either together.
_TO_THE_ASSEMBLER = re.compile(
    rb"\b(?:asm|__asm|__asm__|__REDIRECT\w*|__ASMNAME\w*|redefine_extname|(?:__)?(?:section|alias|ifunc|symver|weakref)(?:__)?)\b"
    rb"|\#\#|%:%:"
)


class Named(Struct, frozen=True):
    """What a source names.

    Attributes:
        quoted: files, as in ``#include "quoted"``.
        angled: files, as in ``#include <angled>``.
        to_the_assembler: whether it may hold text that the assembler gets as it is, and which may name a file to it.
    """

    quoted: frozenset[str] = frozenset()
    angled: frozenset[str] = frozenset()
    to_the_assembler: bool = False


def named_in(text: bytes, *, is_the_compilers: bool) -> Named:
    """The files that ``text`` may include, or may ask for.

    Args:
        is_the_compilers: it is a header of the compiler's own directories, whose assembly names symbols and reads no
            file.

    Raises:
        NotModelled: it may depend on more than that.
    """
    text = _SPLICE.sub(b"", text)
    for pattern, reason in _NEVER:
        if pattern.search(text):
            raise NotModelled(f"it {reason}")
    code = _NO_CODE.sub(lambda match: match[1] or b" ", text)
    for asked in _ASKED_AT_ALL.finditer(code):
        if not asked[1] and not asked[0].startswith((b"ifdef", b"ifndef", b"defined")):
            raise NotModelled("it gives __has_include another name")
    quoted, angled = set(), set()
    for pattern in (_DIRECTIVE, _ASKED):
        # The bare code says where a name is made by a macro; the whole text, what a scan may take for a comment.
        for scanned in (code, text):
            for match in pattern.finditer(scanned):
                name = _NAMED.match(scanned, match.start(1))
                if name is None:
                    if scanned is code:
                        raise NotModelled("it includes a file whose name a macro makes")
                elif name[1] is not None:
                    quoted.add(name[1].decode(errors="surrogateescape"))
                else:
                    angled.add(name[2].decode(errors="surrogateescape"))
    to_the_assembler = not is_the_compilers and _TO_THE_ASSEMBLER.search(code) is not None
    return Named(frozenset(quoted), frozenset(angled), to_the_assembler)
