"""What the scan of a source's text finds, and what it refuses."""

from __future__ import annotations

import pytest

from pytest_compileiq.rules.build_key import NotModelled
from pytest_compileiq.toolchains.cc.includes import Named, expect_modelled, included_by, named_in, other_names_in


def named(text: str, *, is_the_compilers: bool = False) -> Named:
    content = text.encode()
    return named_in(content, is_the_compilers=is_the_compilers, other_names=other_names_in(content))


@pytest.mark.parametrize(
    "text",
    [
        '#include "a.h"',
        '#include"a.h"',
        '  #\tinclude\t"a.h"',
        '#/* why */include/**/"a.h"',
        '/* first */ #include "a.h"',
        '#inc\\\nlude "a.h"',
        '#inc\\ \nlude "a.h"',
        '%:include "a.h"',
        '#include_next "a.h"',
        '#import "a.h"',
        '#if 0\n#include "a.h"\n#endif',
        '/*\n#include "a.h"\n*/',
        '// #include "a.h"',
        '#if __has_include("a.h")\n#endif',
        '#if __has_include_next ( "a.h" )\n#endif',
        'char *quote = "/*";\n#include "a.h"\nchar *end = "*/";',
        'int apostrophe = \'"\';\n#include "a.h"',
        "#error don't /* it's\n#include \"a.h\"\n*/",
    ],
)
def test_an_include_is_found_however_it_is_written(text):
    assert named(text) == Named(quoted=frozenset({"a.h"}))


def test_angled_and_quoted_are_told_apart():
    text = '#include <sys/a.h>\n#include "b.h"\n#if __has_include(<c.h>)\n#endif\n'
    assert named(text) == Named(frozenset({"b.h"}), frozenset({"sys/a.h", "c.h"}))


def test_what_is_asked_for_by_another_name_is_found():
    text = '#define HAS __has_include\n#define KNOWS HAS\n#if HAS(<a.h>) || KNOWS ( "b.h" )\n#endif\n'
    names = other_names_in(text.encode().replace(b"_include", b"_in\\\nclude"))
    assert names == {"HAS"} and other_names_in(text.encode(), names) == {"HAS", "KNOWS"}
    elsewhere = named_in(b"#if KNOWS(<c.h>)\n#endif", is_the_compilers=False, other_names=frozenset({"KNOWS"}))
    assert elsewhere == Named(angled=frozenset({"c.h"}))


@pytest.mark.parametrize(
    "text",
    ["#define NAME other", "#define HAS(x) __has_include", "int __has_include_next_to;", "#define __has_include 0"],
)
def test_no_other_name_is_made_up(text):
    assert other_names_in(text.encode()) == frozenset()


@pytest.mark.parametrize(
    "text",
    [
        "// every #include is counted",
        "#ifdef __has_include\n#endif",
        "#if defined(__has_include)\n#endif",
        "#if defined __has_include && 1\n#endif",
        "#ifndef __has_include\n#define __has_include(x) 0\n#endif",
        "#ifdef __has_include\n#define HAS __has_include // not HAS(x)\n#else\n#define HAS(x) 0\n#endif\n#undef HAS",
        "int include(int); int x = include (3);",
        '#pragma GCC optimize("O3")',
        "/* byte order: 0=native;-1=LE */",
    ],
)
def test_what_includes_nothing(text):
    assert named(text) == Named()


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("#include HEADER", "a macro makes"),
        ("#include HEADER(a)", "a macro makes"),
        ("#if __has_include(HEADER)\n#endif", "a macro makes"),
        ("#define HAS 1 + __has_include", "another name"),
        ("#define APPLY(f, x) f(x)\n#if APPLY(__has_include, <a.h>)\n#endif", "another name"),
        ("#define HAS __has_include\n#define APPLY(f, x) f(x)\n#if APPLY(HAS, <a.h>)\n#endif", "another name"),
        ("#define HAS __has_include\n#if HAS(HEADER)\n#endif", "a macro makes"),
        ("#define HAS(x) __has_include(x)", "a macro that asks"),
        ("#define HAS(x) __has_include(<x.h>)", "a macro that asks"),
        ("#define HAS_A __has_include(<a.h>)", "a macro that asks"),
        ("#define HAS __has_include\n#define HAS_A HAS(<a.h>)", "a macro that asks"),
        ("#define HAS(what) __has_##what", "from pieces"),
        ("#if JOINED(__has, _include)(<a.h>)\n#endif", "from pieces"),
        ('asm(".incbin \\"a\\"");', "reads a file"),
        ("#embed <a>", "reads a file"),
        ("#if __has_embed(<a>)\n#endif", "reads a file"),
        ("char *when = __DATE__;", "time of its build"),
        ("char *when = __TIME__;", "time of its build"),
        ("char *when = __TIME\\\nSTAMP__;", "time of its build"),
        ('??=include "a.h"', "trigraphs"),
        ('#pragma GCC dependency "a.h"', "looks at another file"),
        ('_Pragma("GCC dependency \\"a.h\\"")', "looks at another file"),
        ('__attribute__((target("arch=native"))) void f(void);', "the processor"),
    ],
)
def test_what_a_scan_cannot_follow_is_not_modelled(text, why):
    with pytest.raises(NotModelled, match=why):
        named(text)


@pytest.mark.parametrize(
    "text",
    [
        'asm(".inc" "bin \\"a\\"");',
        '__asm__ volatile ("nop");',
        "__asm { nop }",
        "#if 0\nasm\n#endif",
        'int renamed(void) __asm /* it */ ("other");',
        '__attribute__((section(".a\\n.include k"))) int placed;',
        '__attribute__((__alias__("other"))) int named(void);',
        '#define JOINED(a, b) a##b\nJOINED(__a, sm__)("nop");',
        "#define JOINED(a, b) a%:%:b",
        "#define S __REDIRECT_NTH",
    ],
)
def test_what_the_assembler_may_get_as_it_stands_is_seen(text):
    assert named(text).to_the_assembler
    assert not named(text, is_the_compilers=True).to_the_assembler


def test_other_words_go_to_the_compiler_alone():
    assert not named("int assembly, plasma, sections; // asm\n/* __asm__ */").to_the_assembler


def test_the_compilers_own_headers_name_symbols_in_assembly():
    text = 'int scan(void) __asm__ ("__isoc99_scan");'
    assert named(text, is_the_compilers=True) == Named()
    asking = "#define USES_TBB __has_include(<tbb/tbb.h>)\n#define TESTS(type) struct __has_##type"
    assert named(asking, is_the_compilers=True) == Named(angled=frozenset({"tbb/tbb.h"}))
    with pytest.raises(NotModelled):
        named("#define X incbin", is_the_compilers=True)


# ── options ──────────────────────────────────────────────────────────────────────────────────────────────────────


def test_options_that_tests_use_are_modelled():
    options = (
        "-O2 -O -Os -Ofast -march=x86-64-v3 -mtune=generic -mavx2 -mno-fma -fPIC -fno-gnu-unique -shared -std=c++20 "
        "-DN=3 -DNAME -UNAME -Iinclude -I../include -I/opt/include -iquote. -isystemvendor -idirafterlast -Llib -lm "
        "-Wall -Wextra -Werror=date-time -Wno-unused -w -g -g3 -funroll-loops -fno-math-errno -ffp-contract=off "
        "-fopenmp -pthread -fvisibility=hidden -includeconfig.h -xc++ -fno-exceptions"
    )
    expect_modelled(options.split())


@pytest.mark.parametrize(
    "option",
    [
        "-Wl,-rpath,/x", "-Wa,-I,x", "-Wp,-D,x", "-flto", "-flto=auto", "-fplugin=x.so", "-fprofile-use", "-fprofile-use=x",
        "-fauto-profile", "-B/x", "-specs=x", "--specs=x", "--sysroot=/x", "-isysroot/x", "-I=/x", "-I-", "@file", "-wrapper",
        "-Xlinker", "-Xassembler", "-Xclang", "-mllvm", "-fuse-ld=lld", "-march=native", "-mtune=native", "-m32", "-static",
        "-nostdinc", "-fmodules-ts", "-ftest-coverage", "--coverage", "-fsanitize=address", "-save-temps", "-dumpdir",
        "-gsplit-dwarf", "-fdump-tree-all", "-foffload=nvptx-none", "-finput-charset=latin1", "-imultilibx", "-l:x.a",
        "-fself-test=x", "-xassembler", "-DX=__asm__", "-DX=__has_include", "-DX=__DATE__", "-T", "x.ld", "-fmade-up", "-O9",
    ],
)  # fmt: skip
def test_what_nobody_modelled_is_not_cached(option):
    with pytest.raises(NotModelled):
        expect_modelled(["-O2", option])


def test_options_include_files():
    assert included_by(["-O2", "-includea.h", "-imacrosb/c.h", "-Iinclude"]) == {"a.h", "b/c.h"}
