"""Times the recorded calls of a capture with one library, as a test of it does: ``reset``, and one call a sample.

``python bench/captured_replay.py LIBRARY BUNDLE FILE`` writes kernel → shape → slots of samples in ns, and is a process
of its own for ``captured_order.py``.
"""

from __future__ import annotations

import ctypes
import json
import sys
import time
from pathlib import Path

from pytest_compileiq.capture.bundle import Bundle
from pytest_compileiq.capture.toolchain.replay import RecordedKernel

SLOTS, SAMPLES = 8, 5  # four quads of two slots for each arm, as in the gate's blocks


def main(library: str, directory: str, out: str) -> None:
    bundle, loaded = Bundle(Path(directory)), ctypes.CDLL(library)
    calls = {}
    for name in bundle.names():
        kernel = bundle.read(name)
        recorded = RecordedKernel(bundle, kernel, loaded[kernel.function])
        calls[name] = [(recorded.call(place), shape.calls) for place, shape in enumerate(kernel.shapes)]
    times: dict[str, list[list[list[int]]]] = {name: [[] for _ in each] for name, each in calls.items()}
    for _ in range(SLOTS):
        for name, shapes in calls.items():
            for place, (call, _) in enumerate(shapes):
                slot = []
                for _ in range(SAMPLES):
                    call.reset()
                    began = time.thread_time_ns()
                    call()
                    slot.append(time.thread_time_ns() - began)
                times[name][place].append(slot)
    counts = {name: [count for _, count in shapes] for name, shapes in calls.items()}
    Path(out).write_text(json.dumps({"times": times, "counts": counts}), encoding="utf-8")


if __name__ == "__main__":
    main(*sys.argv[1:])
