"""Which options of gcc the build cache models: only those whose effect on what is read is known.

All others, such as ``-flto``, ``-Wl,…``, ``-B``, ``-specs=`` and ``-fplugin=``, make a build that is not cached.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import lru_cache

from pytest_compileiq.rules.build_key import NotModelled
from pytest_compileiq.toolchains.cc.includes import named_in
from pytest_compileiq.toolchains.cc.known_options import GCC

_PLAIN = re.compile(
    r"-O(?:[0-3sgz]|fast)?"
    r"|-[DU][A-Za-z_]\w*(?:\(\w*\))?(?:=.*)?"
    r"|-(?:I|iquote|isystem|idirafter|include|imacros|L)(?![=-])[^\0]+"
    r"|-l[\w.+-]+"
    r"|-std=[\w+:]+|-ansi|-pedantic(?:-errors)?|-w|-W[a-z][\w=+-]*"
    r"|-g[0-3]?|-ggdb[0-3]?|-x(?:c|c\+\+)|-pthread|-pipe|-shared"
    r"|-m(?:arch|cpu|tune)=[\w.+-]+|-m(?:no-)?(?:sse|avx|fma|bmi|popcnt|lzcnt|movbe|f16c|aes|vaes|pclmul|vpclmulqdq|gfni|sha|adx|abm|ssse)"
    r"[\w.]*"
    r"|-f(?:no-)?(?:PIC|pic|PIE|pie|gnu-unique|strict-aliasing|wrapv|exceptions|rtti|openmp-simd|openmp|common|builtin"
    r"|signed-char|unsigned-char|fast-math|plt|semantic-interposition|stack-protector|stack-protector-strong|stack-protector-all"
    r"|omit-frame-pointer|asynchronous-unwind-tables|threadsafe-statics|function-sections|data-sections)"
    r"|-fvisibility=(?:default|hidden|internal|protected)|-fvisibility-inlines-hidden|-fcf-protection(?:=\w+)?",
    re.DOTALL,
)


def expect_modelled(options: Iterable[str]) -> None:
    """Have every option be one that is modelled.

    Raises:
        NotModelled: naming the first that is not.
    """
    for option in options:
        if not _is_modelled(option):
            raise NotModelled(f"{option[:100]} is not modelled")
        if option.startswith("-D"):
            named = named_in(option.encode(errors="surrogateescape"), is_the_compilers=False)
            if named.to_the_assembler:
                raise NotModelled(f"{option[:100]} may hold assembly")


@lru_cache(maxsize=4096)  # the candidates of a search share their options
def _is_modelled(option: str) -> bool:
    return "native" not in option and (_PLAIN.fullmatch(option) is not None or GCC.knows(option))


def included_by(options: Iterable[str]) -> frozenset[str]:
    """The files that options include before a source."""
    names = (re.fullmatch(r"-(?:include|imacros)(.+)", option, re.DOTALL) for option in options)
    return frozenset(name[1] for name in names if name)
