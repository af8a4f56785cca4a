"""A first call that may be wrong: arrays between guards, and a call in a process of its own.

``x = guarded(acf.rng.random(N))``, then ``try_call(function, [x.ctypes.data, N], x=x)``: a size that is guessed wrong
fails the test with a sentence, where a plain call would write into other memory or end pytest.
"""

from __future__ import annotations

import faulthandler
import itertools
import multiprocessing
import signal
import sys
import warnings
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

import numpy as np
from numpy.typing import NDArray

GUARD_BYTES = 8 << 20  # on both sides: of 1,024 elements of 8 bytes, a matrix of as many rows
_PATTERNS = itertools.cycle(range(0xA1, 0xF0))  # one an array: what was copied from a guard into another shows
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
