"""What ``measure(outputs=…)`` takes, and what it says of what it cannot take."""

from __future__ import annotations

import array
import ctypes
from types import SimpleNamespace

import numpy as np
import pytest

from pytest_compileiq.errors import BodyError
from pytest_compileiq.timing.outputs import as_outputs, difference, equal

VALUES = [1, 2, 3, 4, 5, 6]


class ByDLPack:
    """As an array of a framework whose memory numpy may only read."""

    def __init__(self) -> None:
        self.array = np.array(VALUES, np.int32)

    def __dlpack__(self, **more):
        return self.array.__dlpack__(**more)

    def __dlpack_device__(self):
        return self.array.__dlpack_device__()


class LikeTorch:
    """As a tensor of a dtype that no interface but torch's own knows."""

    is_cuda = False
    dtype = "torch.bfloat16"

    def __init__(self) -> None:
        self.array = np.array(VALUES, np.int32)
        self.data_ptr = lambda: self.array.ctypes.data
        self.element_size = lambda: 4
        self.numel = lambda: 6
        self.is_contiguous = lambda: True


TAKEN = {
    "numpy": lambda: np.array(VALUES, np.int32),
    "Fortran order": lambda: np.asfortranarray(np.array(VALUES, np.int32).reshape(2, 3)),
    "a part": lambda: np.array([0, *VALUES, 0], np.int32)[1:-1],
    "ctypes": lambda: (ctypes.c_int * 6)(*VALUES),
    "array": lambda: array.array("i", VALUES),
    "bytearray": lambda: bytearray(24),
    "memoryview": lambda: memoryview(array.array("i", VALUES)),
    "DLPack": ByDLPack,
    "torch": LikeTorch,
}


@pytest.mark.parametrize("make", TAKEN.values(), ids=TAKEN)
def test_an_array_is_read_and_overwritten_where_it_is(make):
    (output,) = as_outputs([make()])
    before = output.now().copy()
    output.write(before + np.uint8(1))
    assert (output.now() - before == 1).all() and before.size == 24
    assert output.item_bytes in (1, 4)


def test_the_owners_own_memory_is_written():
    owner = ByDLPack()
    as_outputs([owner])[0].write(np.zeros(24, np.uint8))
    assert owner.array.tolist() == [0] * 6


class LikeTorchOfInt32(LikeTorch):
    dtype = "torch.int32"


@pytest.mark.parametrize(
    ("made", "dtype"),
    [
        (np.array(VALUES, np.float16), np.float16), ((ctypes.c_double * 2)(), np.float64), (bytearray(24), np.uint8),
        (ByDLPack(), np.int32), (LikeTorchOfInt32(), np.int32), (LikeTorch(), None),
        ((ctypes.POINTER(ctypes.c_int) * 2)(), None),
    ],
)  # fmt: skip
def test_the_type_of_its_values_is_known_where_numpy_has_it(made, dtype):
    assert as_outputs([made])[0].dtype == (None if dtype is None else np.dtype(dtype))


class NoPointer:
    @property
    def __cuda_array_interface__(self):
        raise RuntimeError("requires grad")


REFUSED = {
    "no list": (np.zeros(3), r"outputs=ndarray\): expected a list of arrays that the call writes: numpy or ctypes"),
    "a string": ("out", "expected a list of arrays"),
    "a number": ([3], r"outputs\[0\] is int\(3\): expected arrays"),
    "a list": ([np.zeros(3), [1.0]], r"outputs\[1\] is list: expected arrays"),
    "a pointer": ([np.zeros(3).ctypes.data_as(ctypes.c_void_p)], r"outputs\[0\] is a pointer.*give the array itself"),
    "a typed pointer": ([ctypes.pointer(ctypes.c_int(3))], "is a pointer"),
    "read-only": ([b"bytes"], r"outputs\[0\], bytes, is read-only"),
    "gaps": ([np.zeros(9)[::2]], "is a view with gaps: give the array that it is a view of"),
    "objects": ([np.array([None])], "holds Python objects"),
    "empty": ([np.zeros(0)], "is empty"),
    "refuses": ([NoPointer()], r"outputs\[0\], NoPointer, gives no memory: requires grad"),
    "on no GPU": ([SimpleNamespace(__cuda_array_interface__={"typestr": "<f4", "shape": (2,), "data": (64, True)})],
                  "is read-only"),
}  # fmt: skip


@pytest.mark.parametrize(("given", "said"), REFUSED.values(), ids=REFUSED)
def test_what_is_no_memory_to_overwrite_is_refused_in_a_sentence(given, said):
    with pytest.raises(BodyError, match=said):
        as_outputs(given)


@pytest.mark.parametrize("size", [1, 7, 8, 17])
def test_every_byte_is_compared_but_those_that_do_not_count(size):
    one = np.arange(size, dtype=np.uint8)
    for place in range(size):
        other, where = one.copy(), np.ones(size, bool)
        other[place] ^= 1
        assert equal(one, one.copy(), None) and not equal(one, other, None) and not equal(one, other, where)
        where[place] = False
        assert equal(one, other, where)


def test_values_that_differ_are_counted_not_bytes():
    (output,) = as_outputs([np.zeros(4, np.int32)])
    other = output.now().copy()
    other[5:8] = other[12] = 1
    assert difference(output, output.now(), other, None) == "2 of 4 values, the first at index 1"
