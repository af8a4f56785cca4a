"""What an assembler is given is let through only if each statement of it is known to read no file."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from pytest_compileiq.toolchains.cc.assembly import why_it_may_read_a_file

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
