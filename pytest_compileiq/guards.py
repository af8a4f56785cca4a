"""A first call that may be wrong: arrays between guards, a call in a process of its own, and a module of Python.

``x = guarded(acf.rng.random(N))``, then ``try_call(function, [x.ctypes.data, N], x=x)``: a size that is guessed wrong
fails the test with a sentence, where a plain call would write into other memory or end pytest.
"""

from __future__ import annotations

import ctypes
import faulthandler
import itertools
import multiprocessing
import signal
import sys
import warnings
from collections.abc import Callable, Sequence
from contextlib import suppress
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

import numpy as np
from numpy.typing import NDArray

GUARD_BYTES = 8 << 20  # on both sides: of 1,024 elements of 8 bytes, a matrix of as many rows
_PATTERNS = itertools.cycle(range(0xA1, 0xF0))  # one an array: what was copied from a guard into another shows
_PYTHON_API = 1013  # PYTHON_API_VERSION, which is the same in every Python 3
_RETURNED, _FIRST_BROKEN = 99, 100  # exit codes; from the second on they are places of arrays


def guarded(values: NDArray[Any]) -> NDArray[Any]:
    """A copy of ``values`` with 8 MiB of guards before and behind it."""
    memory = np.full(2 * GUARD_BYTES + values.nbytes, next(_PATTERNS), dtype=np.uint8)
    array = memory[GUARD_BYTES : GUARD_BYTES + values.nbytes].view(values.dtype).reshape(values.shape)
    array[...] = values
    return array


def try_call(
    function: Callable[..., object], arguments: Sequence[object], *, timeout_s: float = 60, **arrays: NDArray[Any]
) -> None:
    """Call ``function`` once in a forked process, which changes nothing here.

    Args:
        function: a function of a loaded library.
        arguments: its arguments.
        timeout_s: how long it may take.
        arrays: all that it is given, made by ``guarded``, by their names.

    Raises:
        AssertionError: it crashes, does not end, or writes outside of an array.
    """
    process = multiprocessing.get_context("fork").Process(target=_call, args=(function, arguments, arrays), daemon=True)
    with warnings.catch_warnings(action="ignore", category=DeprecationWarning):  # threads of numpy's, at rest
        process.start()
    process.join(timeout_s)
    if process.exitcode == _RETURNED:
        return
    if process.exitcode is None:
        process.kill()
        process.join()
        why = f"does not end within {timeout_s:g} s"
    elif 0 <= process.exitcode - _FIRST_BROKEN < len(arrays):
        name, array = list(arrays.items())[process.exitcode - _FIRST_BROKEN]
        why = f"writes outside of {name}, an array of {array.size} elements"
    elif process.exitcode < 0:
        why = f"crashes ({_signal(-process.exitcode)})"
    else:
        why = f"ends the process with exit code {process.exitcode}"
    called = getattr(function, "__name__", repr(function))
    raise AssertionError(f"{called} {why}: only its author knows which sizes and values it takes")


def module_of(function: Any, name: str) -> ModuleType:
    """Make an extension module, holding the interpreter's lock, which a call of ``ctypes.CDLL`` releases.

    Args:
        function: ``PyInit_…`` of a loaded library.
        name: the module's, with its package.
    """
    made: Any = ctypes.PYFUNCTYPE(ctypes.py_object)(ctypes.cast(function, ctypes.c_void_p).value or 0)()
    if isinstance(made, ModuleType):
        return made
    api, definition = ctypes.pythonapi, ctypes.py_object(made)  # for an initialisation in several phases
    api.Py_IncRef(definition)  # it was borrowed
    api.PyModule_FromDefAndSpec2.restype = ctypes.py_object
    module: ModuleType = api.PyModule_FromDefAndSpec2(definition, ctypes.py_object(ModuleSpec(name, None)), _PYTHON_API)
    api.PyModule_ExecDef(ctypes.py_object(module), definition)
    return module


def _call(function: Callable[..., object], arguments: Sequence[object], arrays: dict[str, NDArray[Any]]) -> None:
    faulthandler.disable()
    function(*arguments)
    for place, array in enumerate(arrays.values()):
        memory = array.base
        if memory is None or (memory[:GUARD_BYTES] != memory[0]).any() or (memory[-GUARD_BYTES:] != memory[0]).any():
            sys.exit(_FIRST_BROKEN + place)
    sys.exit(_RETURNED)


def _signal(number: int) -> str:
    with suppress(ValueError):
        return signal.Signals(number).name
    return f"signal {number}"
