"""The files that gcc and clang read, by their own answer, and those that a source names and that another may answer.

The latter are found by a scan of its text that finds too much, never too little. Directives count wherever they stand,
in comments and in branches that are not taken too. Text whose meaning a scan cannot know, such as a file's name that a
macro makes, is refused.

The build cache models the options of gcc whose effect on the files that are read is known. All others, such as
``-flto``, ``-Wl,…``, ``-B``, ``-specs=`` and ``-fplugin=``, make a build that is not cached.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from functools import lru_cache
from pathlib import Path

from msgspec import Struct

from pytest_compileiq.errors import BuildError
from pytest_compileiq.rules.build_key import NotModelled
from pytest_compileiq.system.files import Unfit, inside
from pytest_compileiq.system.process import TAIL_BYTES
from pytest_compileiq.toolchains.cc.compiler import first_error
from pytest_compileiq.toolchains.cc.flags import recorded_compilations
from pytest_compileiq.toolchains.cc.known_options import CLANG, GCC
from pytest_compileiq.toolchains.inputs import is_installed, preprocessed, read_source

_SPLICE = re.compile(rb"\\[ \t\r\f\v]*\n")  # gcc takes blanks behind the backslash too
_NO_CODE = re.compile(
    rb"""//[^\n]*|/\*.*?\*/|("(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*')""",
    re.DOTALL,
)
_BLANK = rb"(?:\s|/\*.*?\*/)*"
_DIRECTIVE = re.compile(rb"(?:\#|%:)" + _BLANK + rb"(?:include|include_next|import)\b" + _BLANK + rb"(\S?)", re.DOTALL)
_DEFINITION = re.compile(rb"(?:\#|%:)\s*define\s+(\w+)(\([^)\n]*\))?([^\n]*)")
_HAS_INCLUDE = frozenset({"__has_include", "__has_include_next"})
_PIECE = re.compile(rb"\b__has_?\b")
_NAMED = re.compile(rb'"([^"\n]*)"|<([^>\n]*)>')
_NEVER = (
    (re.compile(rb"incbin|\#\s*embed\b|%:\s*embed\b|__has_embed"), "reads a file that no list of headers names"),
    (re.compile(rb"__(?:DATE|TIME|TIMESTAMP)__"), "holds the time of its build"),
    (re.compile(rb"\?\?[=/]"), "is written in trigraphs"),
    (re.compile(rb"GCC\s+(?:dependency|pch_preprocess)"), "has a pragma that looks at another file"),
    (re.compile(rb"(?<!\d)=\s*native\b"), "asks for the processor that it is compiled on"),  # Python.h: 0=native
)
# gcc's preprocessor alone passes over these pragmas, whose macros (__AVX2__, __OPTIMIZE__) its compiler defines.
_SETS_MACROS = re.compile(rb"\bGCC\s+(?:target|optimize|push_options|pop_options|reset_options)\b|\b_Pragma\b")
# Assembly itself, and what else of a source's strings the compiler hands to the assembler as it is; a macro may paste
# either together.
_TO_THE_ASSEMBLER = re.compile(
    rb"\b(?:asm|__asm|__asm__|__REDIRECT\w*|__ASMNAME\w*|redefine_extname|(?:__)?(?:section|alias|ifunc|symver|weakref)(?:__)?)\b"
    rb"|\#\#|%:%:"
)


class Named(Struct, frozen=True):
    """Files of ``#include``, quoted and angled, and whether strings may reach the assembler as they are."""

    quoted: frozenset[str] = frozenset()
    angled: frozenset[str] = frozenset()
    to_the_assembler: bool = False


def may_branch_by_pragma(text: bytes) -> bool:
    """Whether gcc may compile other branches of ``text`` than its preprocessor takes alone, as for ``-M``."""
    return _SETS_MACROS.search(_SPLICE.sub(b"", text)) is not None


@lru_cache(maxsize=4096)
def other_names_in(text: bytes, known: frozenset[str] = frozenset()) -> frozenset[str]:
    """The macros of ``text`` that stand for ``__has_include`` or for one of ``known`` alone, as xxHash has one."""
    text, asking = _SPLICE.sub(b"", text), _HAS_INCLUDE | known
    if not _mentions(text, asking):
        return frozenset()
    definitions = [*_DEFINITION.finditer(_code_of(text)), *_DEFINITION.finditer(text)]
    return frozenset(each[1].decode() for each in definitions if _is_name(each, asking))


@lru_cache(maxsize=4096)
def named_in(text: bytes, *, is_the_compilers: bool, other_names: frozenset[str] = frozenset()) -> Named:
    """The files that ``text`` may include, or may ask for."""
    text = _SPLICE.sub(b"", text)
    for pattern, reason in _NEVER:
        if pattern.search(text):
            raise NotModelled(f"it {reason}")
    code, asking = _code_of(text), _HAS_INCLUDE | other_names
    if not is_the_compilers and _PIECE.search(code):
        raise NotModelled("it may put __has_include together from pieces")
    patterns = [_DIRECTIVE]
    if _mentions(text, asking):
        code = _asking_code(code, asking, is_the_compilers=is_the_compilers)
        patterns.append(_asked(asking))
    quoted, angled = set(), set()
    for pattern in patterns:
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
    # Assembly in headers of the compiler's own directories names symbols, and reads no file.
    to_the_assembler = not is_the_compilers and _TO_THE_ASSEMBLER.search(code) is not None
    return Named(frozenset(quoted), frozenset(angled), to_the_assembler)


_ERRNO = re.compile(rb"\b(?:errno|math_errhandling)\b")
_FENV = re.compile(
    rb"\b(?:fenv\.h|cfenv|FENV_ACCESS|fe(?:clear|test|raise|enable|disable|get)except|fe[gs]etexceptflag|fe[gs]etenv"
    rb"|feholdexcept|feupdateenv|_mm_[gs]etcsr|_MM_[GS]ET_EXCEPTION_\w+|ieee_(?:exceptions|arithmetic|features))\b",
    re.IGNORECASE,
)


def named_by(contents: Iterable[bytes]) -> frozenset[str]:
    """The options of the class ``environment`` that change what one of ``contents`` names, if only in a comment."""
    options: set[str] = set()
    for content in contents:
        options |= {"-fno-math-errno"} if _ERRNO.search(content) else set()
        options |= {"-fno-trapping-math"} if _FENV.search(content) else set()
    return frozenset(options)


def _code_of(text: bytes) -> bytes:
    return _NO_CODE.sub(lambda match: match[1] or b" ", text)


def _mentions(text: bytes, asking: frozenset[str]) -> bool:
    return any(name.encode() in text for name in asking)


def _asking_code(code: bytes, asking: frozenset[str], *, is_the_compilers: bool) -> bytes:
    """``code`` without the names of the macros that it defines."""
    # In a macro's body other macros make the name; c++config.h, one of the compiler's own, asks so for <tbb/tbb.h>, in
    # words of which none is a macro.
    bodies = [each[3] for each in _DEFINITION.finditer(code) if not _is_name(each, asking)]
    if not is_the_compilers and any(_asked(asking).search(body) for body in bodies):
        raise NotModelled("it has a macro that asks by __has_include")
    code = b"\n".join([_DEFINITION.sub(b" ", code), *bodies])
    for mention in _mentioned(asking).finditer(code):
        if not mention[1] and not mention[0].startswith((b"ifdef", b"ifndef", b"undef", b"defined")):
            raise NotModelled("it gives __has_include another name")
    return code


@lru_cache(maxsize=64)
def _asked(names: frozenset[str]) -> re.Pattern[bytes]:
    """A call of one of ``names``, and where its argument begins."""
    return re.compile(_any_of(names) + _BLANK + rb"\(" + _BLANK + rb"(\S?)", re.DOTALL)


@lru_cache(maxsize=64)
def _mentioned(names: frozenset[str]) -> re.Pattern[bytes]:
    """One of ``names``: with the word before it that asks whether it is defined, and the parenthesis of a call."""
    return re.compile(rb"(?:(?:ifdef|ifndef|undef|defined)[\s(]+)?" + _any_of(names) + rb"\s*(\(?)")


def _any_of(names: frozenset[str]) -> bytes:
    return rb"\b(?:" + b"|".join(re.escape(name.encode()) for name in sorted(names)) + rb")\b"


def _is_name(definition: re.Match[bytes], asking: frozenset[str]) -> bool:
    """Whether a macro is one of ``asking`` by another name."""
    return definition[2] is None and definition[3].strip().decode(errors="surrogateescape") in asking


class Read(Struct, frozen=True):
    """Files by the compiler's names; ``own`` are those inside rootdir, and outside it all but system headers."""

    everything: frozenset[str]
    own: frozenset[str]


def read_again(command: Sequence[str], program: str, options: Sequence[str], rootdir: Path) -> frozenset[str]:
    """The files of the project that a recorded command of gcc or clang reads here.

    Args:
        program: the compiler to ask; of a command with several, whatever ``PATH`` calls as they are called.
        options: of the controls, behind the command's own.

    Raises:
        BuildError: it refuses a source, or a file cannot be read.
    """
    compilations = [
        [program if compiler == command[0] else compiler, *flags, *options, source]
        for compiler, flags, source in recorded_compilations(command)
    ]
    own = Reader(command[0], rootdir).read_by(compilations).own
    return frozenset(name for name in own if not is_installed(name))


class Reader(Struct, frozen=True):
    """One compiler in one directory, by its name in messages."""

    name: str
    rootdir: Path

    def read_by(self, compilations: Sequence[Sequence[str]]) -> Read:
        read = self._read(self._by_rules(compilations, "-M"), self._by_rules(compilations, "-MM"))
        if not any(may_branch_by_pragma(self.content(name)) for name in read.own):
            return read
        # The compiler takes twenty times as long as its preprocessor for a source of templates.
        by_compiler = [(*command[:-1], "-fsyntax-only", command[-1]) for command in compilations]
        return self._read(self._by_rules(by_compiler, "-MD"), self._by_rules(by_compiler, "-MMD"))

    def content(self, name: str) -> bytes:
        return read_source(self.rootdir / name)

    def inside_rootdir(self, name: str) -> str | None:
        try:
            return inside(self.rootdir, name).relative_to(self.rootdir.resolve()).as_posix()
        except Unfit:
            return None

    def _read(self, everything: frozenset[str], not_system: frozenset[str]) -> Read:
        inside_it = frozenset(name for name in map(self.inside_rootdir, everything) if name is not None)
        return Read(everything, inside_it | {name for name in not_system if self.inside_rootdir(name) is None})

    def _by_rules(self, compilations: Sequence[Sequence[str]], option: str) -> frozenset[str]:
        everything = set[str]()
        for command in compilations:
            finished, read = preprocessed((*command[:-1], option, command[-1]), self.rootdir)
            if finished.returncode != 0:
                raise BuildError(
                    f"{self.name} cannot read the sources: {first_error(finished.output)}",
                    kind="compile",
                    log=finished.output[-TAIL_BYTES:],
                )
            everything |= read
        return frozenset(everything)


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
    r"|omit-frame-pointer|asynchronous-unwind-tables|threadsafe-statics|function-sections|data-sections|unwind-tables"
    r"|strict-overflow|stack-clash-protection|merge-all-constants|delete-null-pointer-checks|ident)|-ftls-model=[a-z-]+"
    r"|-fvisibility=(?:default|hidden|internal|protected)|-fvisibility-inlines-hidden|-fcf-protection(?:=\w+)?",
    re.DOTALL,
)


def expect_modelled(options: Iterable[str]) -> None:
    """Have every option be one that is modelled."""
    for option in options:
        if not _is_modelled(option):
            raise NotModelled(f"{option[:100]} is not modelled")
        if option.startswith("-D"):
            named = named_in(option.encode(errors="surrogateescape"), is_the_compilers=False)
            if named.to_the_assembler:
                raise NotModelled(f"{option[:100]} may hold assembly")


@lru_cache(maxsize=4096)  # the candidates of a search share their options
def _is_modelled(option: str) -> bool:
    return "native" not in option and (_PLAIN.fullmatch(option) is not None or GCC.knows(option) or CLANG.knows(option))


def included_by(options: Iterable[str]) -> frozenset[str]:
    """The files that options include before a source."""
    names = (re.fullmatch(r"-(?:include|imacros)(.+)", option, re.DOTALL) for option in options)
    return frozenset(name[1] for name in names if name)


# Only text that the compiler itself writes is let through: lines of a few shapes that hold strings, and statements
# without one whose directives are on a list. So a scan that knows neither strings nor comments finds every statement.
_STRING = rb'"(?:[^"\\\n]|\\[^\n])*"'
# The whole of a line, so that no string or comment is open behind it.
_WITH_STRINGS = re.compile(
    rb"""[ \t]*(?:
        \.(?:asciz?|string|ident)[ \t]+%(string)s
      | \.file[ \t]+(?:\d+[ \t]+)?%(string)s(?:[ \t]+%(string)s)?(?:[ \t]+md5[ \t]+0x[0-9a-f]+)?
      | \.(?:push)?section[ \t]+(?:[\w.$-]+|"[\w.$-]*"),[ \t]*"[a-zA-Z?]*"(?:,[ \t]*[@%%\w.$]+)*
      | \#[ \t]+\d+[ \t]+%(string)s(?:[ \t]+\d+)*
    )"""
    % {b"string": _STRING},
    re.VERBOSE,
)
_NO_TEXT = re.compile(rb"[\0-\x08\x0b-\x1f\x7f]")
_LABELS = re.compile(rb"(?:[^\s:%,()*]+[ \t]*:[ \t]*)*")  # whatever stands there and is no segment, as in %fs:x
_ASSEMBLER_DIRECTIVE = re.compile(rb"\.[^ \t]*")
_READS_NO_FILE = frozenset(
    b"""
    2byte 4byte 8byte addrsig addrsig_sym align att_syntax balign bss byte cfi_adjust_cfa_offset cfi_def_cfa
    cfi_def_cfa_offset cfi_def_cfa_register cfi_endproc cfi_escape cfi_lsda cfi_offset cfi_personality cfi_register
    cfi_rel_offset cfi_remember_state cfi_restore cfi_restore_state cfi_same_value cfi_sections
    cfi_startproc cfi_undefined comm data double else elseif endif fill float global globl hidden if ifc
    ifdef ifnc ifndef int internal lcomm loc local long octa p2align popsection previous protected
    pushsection quad section set short size skip sleb128 space text type uleb128 value weak weakref word
    zero
    """.split()
)


def why_it_may_read_a_file(assembly: bytes) -> str | None:
    """The first statement of a compiler's ``assembly`` for x86 that may read a file or is not understood, or None."""
    if control := _NO_TEXT.search(assembly):
        return repr(control[0])
    for line in assembly.split(b"\n"):
        if _WITH_STRINGS.fullmatch(line):
            continue
        if b'"' in line or b"/*" in line:
            return _shown(line)
        for statement in map(bytes.strip, line.split(b";")):
            directive = _ASSEMBLER_DIRECTIVE.match(_LABELS.sub(b"", statement, count=1))
            if directive and directive[0][1:].lower() not in _READS_NO_FILE:
                return _shown(statement)
    return None


def _shown(text: bytes) -> str:
    return text.strip()[:80].decode(errors="replace")
