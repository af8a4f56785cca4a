"""Reads the metrics that ``ptxas -v`` prints for each entry: registers, spills, stack, shared memory, barriers."""

from __future__ import annotations

import re

_ENTRY = re.compile(r"Compiling entry function '(?P<name>[^']+)' for '(?P<arch>[^']+)'")
_FRAME = re.compile(r"(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads")
_USED = re.compile(r"Used (\d+) registers")
_PARTS = {
    "barriers": re.compile(r"used (\d+) barriers"),
    "shared_bytes": re.compile(r"(\d+) bytes smem"),
}
_SUMMED = ("spill_store_bytes", "spill_load_bytes", "spill_bytes", "stack_bytes", "shared_bytes")


def read_ptxas_log(output: str) -> dict[tuple[str, str], dict[str, int]]:
    """(entry, architecture) → its exact metrics.

    ``stack_bytes`` and the spills are summed over an entry and the functions it calls; ``spill_bytes`` is the sum of
    spill stores and loads.
    """
    by_entry: dict[tuple[str, str], dict[str, int]] = {}
    current: dict[str, int] | None = None
    for line in output.splitlines():
        if entry := _ENTRY.search(line):
            current = by_entry.setdefault((entry["name"], entry["arch"]), dict.fromkeys(("registers", "barriers"), 0))
            current |= dict.fromkeys(_SUMMED, 0)
        elif current is not None:
            _add(current, line)
    return by_entry


def _add(metrics: dict[str, int], line: str) -> None:
    if frame := _FRAME.search(line):
        stack, stores, loads = map(int, frame.groups())
        metrics["stack_bytes"] += stack
        metrics["spill_store_bytes"] += stores
        metrics["spill_load_bytes"] += loads
        metrics["spill_bytes"] += stores + loads
    if used := _USED.search(line):
        metrics["registers"] = int(used[1])
        for name, pattern in _PARTS.items():
            part = pattern.search(line)
            metrics[name] = int(part[1]) if part else 0
