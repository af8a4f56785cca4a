"""Calls ``run`` of one library after the other on the same inputs, each in a fork of its own, for ``value_safe.py``.

    python bench/run_libraries.py INPUTS.npz TYPE SECONDS

Reads the path of a library a line; what ``run`` gives for every input, values of TYPE, goes into ``LIBRARY.npz``.
Answers with the fork's exit code a line: 0, or negative for a signal, which is 14 where it took longer than SECONDS.
"""

import ctypes
import os
import signal
import sys

import numpy as np

OUT_BYTES = 1 << 20


def call(library: str, inputs: dict[str, np.ndarray], dtype: np.dtype) -> None:
    """Write what a library's ``run`` gives."""
    run = ctypes.CDLL(library).run
    run.restype, run.argtypes = ctypes.c_long, [ctypes.c_void_p, ctypes.c_long, ctypes.c_void_p]
    results = {}
    for name, values in inputs.items():
        out = np.zeros(OUT_BYTES // dtype.itemsize, dtype)
        count = run(values.ctypes.data, len(values), out.ctypes.data)
        results[name] = out[:count]
    np.savez(f"{library}.npz", **results)


def main() -> None:
    """Answer until the input ends."""
    with np.load(sys.argv[1]) as arrays:
        inputs = {name: arrays[name] for name in arrays.files}
    dtype, seconds = np.dtype(sys.argv[2]), int(sys.argv[3])
    for line in sys.stdin:
        child = os.fork()
        if child == 0:
            signal.alarm(seconds)
            call(line.rstrip("\n"), inputs, dtype)
            os._exit(0)
        print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)


if __name__ == "__main__":
    main()
