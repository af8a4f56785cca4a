"""What a user says of memory whose size no object tells: read as arithmetic, and never executed."""

from __future__ import annotations

import ctypes
import mmap
import re

import pytest

from pytest_compileiq.capture.inside.values import Number, Refused, Unsized, parsed, with_extents

ROOM = (ctypes.c_double * 100)()
ADDRESS = ctypes.addressof(ROOM)


def sized(text: str, *integers: int, address: int = ADDRESS):
    numbers = [Number("l", integer.to_bytes(8, "little", signed=True)) for integer in integers]
    return with_extents([Unsized(address, "a bare address"), *numbers], parsed(text))[0]


@pytest.mark.parametrize(
    ("text", "integers", "size"),
    [
        ("f(x, n): x=8*n", (10,), 80),
        ("f(x, n, step): x = 8 * ((n - 1) * abs(step) + 1)", (10, -3), 224),
        ("f(x, n, m): x=min(n, m, 700) + max(n // 4, -m) % 7", (100, 9), 13),
        ("void f(const double *x, long n): x=8*n", (10,), 80),
        ("struct point *f(double x[N], unsigned long n):x=n", (3,), 3),
        ("f(x, n): x=0", (1,), 0),
    ],
)
def test_an_extent_is_worked_out_of_the_integers_of_the_call(text, integers, size):
    memory = sized(text, *integers)
    assert (memory.pointer, memory.start, memory.size) == (ADDRESS, ADDRESS, size)


def test_a_prototype_tells_floats_and_names_alone_tell_bytes():
    assert (sized("f(double *x, int n): x=8*n", 3).dtype, sized("f(x, n): x=8*n", 3).dtype) == ("<f8", "|u1")
    assert sized("f(const float *x, int n): x=8*n", 3).extents == (6,)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("blur", "expected 'FUNCTION(ARGUMENTS): ARGUMENT=BYTES, …'"),
        ("blur(x): ", "expected"),
        ("blur(x, n): x", "expected ARGUMENT=BYTES, …, not 'x'"),
        ("blur(in, n): out=8*n", "blur has no argument 'out', but in, n"),
        ("blur(x, n): x=8*m", "'m' is none of its arguments, which are x, n"),
        ("blur(x, n): x=8*", "'8*' is no expression of integers"),
        ("blur(x, n): x=8/n", "'8 / n' is not of integers, arguments, + - * // %, min, max and abs"),
        ("blur(x, n): x=n**n", "is not of integers"),
        ("blur(x, n): x=__import__('os').system('x')", "is not of integers"),
        ("blur(x, n): x=n.real", "is not of integers"),
        ("blur(x, n): x=8.5", "is not of integers"),
        ("blur(x, n): x=abs(n, n)", "'abs(n, n)' is not how abs is called"),
        ("blur(double **x, long n): x=8*n", "'double **x' points to pointers, which are not recorded"),
        ("blur(x, n): x=" + "(" * 900 + "n" + ")" * 900, "is no expression of integers"),
        ("blur(x, n): x=n" + "+n" * 1000, "expected"),
    ],
)
def test_what_is_no_arithmetic_of_its_arguments_is_refused(text, why):
    with pytest.raises(ValueError, match=re.escape(why)):
        parsed(text)


def test_what_cannot_be_is_refused_of_the_call():
    mapped = mmap.mmap(-1, 1 << 20)
    address = ctypes.addressof(ctypes.c_char.from_buffer(mapped))
    assert sized("f(x, n): x=n", 4096, address=address).size == 4096
    for text, integers, why in (
        ("f(x, n): x=0-n", (8,), "argument 1 has -8 bytes, by --extents, which are not all memory of the program"),
        ("f(x, n): x=n", (1 << 46,), "which are not all memory of the program"),
        ("f(x, n): x=8//n", (0,), "by --extents, that divides by 0"),
        ("f(x, n): x=x", (1,), "of 'x', which is no integer here"),
        ("f(x, n, m): x=8", (1,), "it is called with 2 arguments, and --extents names 3"),
        ("f(x, n): n=8", (1,), "argument 1 is a bare address"),
    ):
        with pytest.raises(Refused) as refused:
            sized(text, *integers)
        assert why in str(refused.value)
    with pytest.raises(Refused, match="not all memory"):
        sized("f(x, n): x=n", 4096, address=4096)
