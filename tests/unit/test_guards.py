"""A first call of a function that may be wrong."""

from __future__ import annotations

import ctypes
import os
import shutil
import signal
import subprocess
import sys
import time

import numpy as np
import pytest

from pytest_compileiq.guards import guarded, module_of, try_call

N = 16


def _write(address: int, offset: int) -> None:
    ctypes.memset(address + offset, 0, 1)


@pytest.mark.parametrize("offset", [0, N - 1])
def test_try_call_within_the_array_changes_nothing_here(offset):
    array = guarded(np.ones(N, np.uint8))
    try_call(_write, [array.ctypes.data, offset], array=array)
    assert array.tolist() == [1] * N


@pytest.mark.parametrize("offset", [-1, N, N + 8, N * N * N - 1])
def test_try_call_beyond_an_array_names_it(offset):
    array, other = guarded(np.ones((4, 4), np.uint8)), guarded(np.zeros(N))
    with pytest.raises(AssertionError, match="_write writes outside of array, an array of 16 elements: only its"):
        try_call(_write, [array.ctypes.data, offset], other=other, array=array)


def test_try_call_that_copies_one_guard_into_another_is_seen():
    source, target = guarded(np.ones(N)), guarded(np.zeros(N))
    with pytest.raises(AssertionError, match="> writes outside of target, an array of 16 elements"):
        try_call(ctypes.memmove, [target.ctypes.data, source.ctypes.data, 8 * N + 1], target=target, source=source)


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize(
    ("call", "argument", "why"),
    [
        (ctypes.string_at, 0, r"crashes \(SIGSEGV\)"),
        (lambda number: os.kill(os.getpid(), number), signal.SIGRTMIN + 1, r"crashes \(signal 35\)"),
        (os._exit, 3, "ends the process with exit code 3"),
        (os._exit, 0, "ends the process with exit code 0"),
        (time.sleep, 60, "does not end within 0.2 s"),
    ],
)
def test_try_call_that_crashes_or_hangs_fails_with_a_sentence(call, argument, why):
    with pytest.raises(AssertionError, match=why):
        try_call(call, [argument], timeout_s=0.2 if argument == 60 else 60)


@pytest.mark.skipif(shutil.which("gcc") is None, reason="needs gcc")
def test_module_of_either_initialisation_is_made_with_its_content(tmp_path):
    (tmp_path / "m.c").write_text("""
void *PyModule_New(const char *); void *PyModuleDef_Init(void *); int PyModule_AddIntConstant(void *, const char *, long);
static int fill(void *module) { return PyModule_AddIntConstant(module, "answer", 42); }
static struct { int slot; void *value; } slots[] = {{2, fill}, {0, 0}}; /* Py_mod_exec */
static struct { long head[5]; const char *name, *doc; long size; void *methods, *slots, *rest[3]; } definition =
    {{1}, "several", 0, 0, 0, slots};
void *PyInit_several(void) { return PyModuleDef_Init(&definition); }
void *PyInit_single(void) { void *module = PyModule_New("single"); fill(module); return module; }
""")
    subprocess.run(["gcc", "-shared", "-fPIC", "m.c", "-o", "m.so"], cwd=tmp_path, check=True)
    library = ctypes.CDLL(str(tmp_path / "m.so"))
    for name in ("single", "several"):
        module = module_of(library[f"PyInit_{name}"], f"package.{name}")
        assert module.answer == 42 and name not in sys.modules
    assert module.__name__ == "package.several"
