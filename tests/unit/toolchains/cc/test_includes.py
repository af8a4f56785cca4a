"""What the scan of a source's text finds, and what it refuses."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from pytest_compileiq.rules.build_key import NotModelled
from pytest_compileiq.toolchains.cc.includes import (
    Named,
    expect_modelled,
    included_by,
    named_by,
    named_in,
    other_names_in,
    why_it_may_read_a_file,
)


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
        "-fopenmp -pthread -fvisibility=hidden -includeconfig.h -xc++ -fno-exceptions "
        "-fno-strict-overflow -ftls-model=local-dynamic -fstack-clash-protection -fno-unwind-tables -fno-ident"
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


AS_GCC_WRITES = r"""	.file	"k.c"
	.text
	.section	.rodata.str1.1,"aMS",@progbits,1
.LC0:
	.string	"a: \"b\"; .incbin \\"
	.globl	kernel
	.type	kernel, @function
kernel:
.LFB0:
	.cfi_startproc
#APP
# 5 "k.c" 1
	nop # twice
	1: jmp 1b; nop
# 0 "" 2
#NO_APP
	movl	%fs:.LC0@tpoff, %eax
	ret
	.cfi_endproc
.LFE0:
	.size	kernel, .-kernel
	.file 1 "k.c" "d" md5 0x0123456789abcdef
	.ident	"GCC: (Debian) 12.2.0"
	.section	.note.GNU-stack,"",@progbits
"""


def test_what_gcc_writes_reads_no_file():
    assert why_it_may_read_a_file(AS_GCC_WRITES.encode()) is None


@pytest.mark.parametrize(
    "line",
    [
        '.incbin "x"', ".include x", ".INCLUDE x", "nop; .include x", "1: .include x", "1:2:.include x", "é: .include x", "a : b:.include x", "/**/ .include x",
        "/*", "nop /* \n.string \"*/ ; .include x ; # \"", '"\n.string "', '.ident "a" ; .include x', '".incbin" x',
        '.byte \'" ; .include x # "', ".macro m", ".irp a, b", ".irpc a, b", ".rept 2", ".altmacro", ".mri 1", ".made_up",
        ".include\tx", "\v.include x", "\r.include x", "\0.include x", '.string "a" "b"\n.include x',
        '.string "a\\', '.section .a,"a"; .include x', '# 1 "x" 2 ; .include x "', ".text;.include x", ".incbin(x)",
    ],
)  # fmt: skip
def test_what_may_read_a_file_is_named(line):
    assert why_it_may_read_a_file(f"{AS_GCC_WRITES}\t{line}\n{AS_GCC_WRITES}".encode())


def test_the_statement_is_shown():
    assert why_it_may_read_a_file(b"\t.text\n\tnop; .incbin x\n") == ".incbin x"
    assert why_it_may_read_a_file(b".octet 1\n") == ".octet 1"


@pytest.mark.skipif(shutil.which("gcc") is None, reason="needs gcc")
@pytest.mark.parametrize("flags", ["-O0 -g3", "-O3 -march=x86-64-v3 -fPIC -ffunction-sections", "-O2 -fcf-protection"])
def test_a_source_with_much_in_it_is_let_through(tmp_path: Path, flags):
    source = tmp_path / "k.c"
    source.write_text(
        "#include <cpuid.h>\n#include <stdio.h>\nstatic __thread int own; float data[3] = {1, 2, 3};\n"
        'int kernel(int x) { unsigned a, b, c, d; __cpuid(0, a, b, c, d); printf("a;b: \\"%s\\\\\\n", ".incbin"); '
        "switch (x) { case 0: return a; case 1: return 7; case 2: return b; case 3: return 9; case 4: return own++; } return d; }\n"
    )
    made = subprocess.run(["gcc", *flags.split(), "-S", source, "-o", "-"], check=True, capture_output=True).stdout
    assert why_it_may_read_a_file(made) is None


@pytest.mark.parametrize(
    ("source", "options"),
    [
        (b"if (errno == EDOM) return;", {"-fno-math-errno"}),
        (b"switch (math_errhandling) {}", {"-fno-math-errno"}),
        (b"#include <fenv.h>", {"-fno-trapping-math"}),
        (b"#include <cfenv>\nextern int errno;", {"-fno-trapping-math", "-fno-math-errno"}),
        (b"x = feTestExcept(1);", {"-fno-trapping-math"}),
        (b"#pragma STDC FENV_ACCESS ON", {"-fno-trapping-math"}),
        (b"      USE, INTRINSIC :: IEEE_EXCEPTIONS", {"-fno-trapping-math"}),
        (b"_mm_setcsr(0x8040);", {"-fno-trapping-math"}),
        (b"int errnos, my_errno_; /* fenvironment */", set()),
        (b"\xff\xfe\0", set()),
    ],
)
def test_a_source_that_names_errno_or_exception_flags_keeps_them(source, options):
    assert named_by([b"float x;", source]) == options
