"""``python -m tests.fuzz``: hostile stores through every verb of ``acf``, and some of them through pytest.

A store that broke something is written to ``.fuzz/``; what was mended moves to ``tests/fuzz/corpus/``, which the suite
runs for ever. ``--case FILE`` looks at one of them again.
"""

from __future__ import annotations

import argparse
import functools
import random
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

from tests.fuzz import projects
from tests.fuzz.drafts import BASES, finished
from tests.fuzz.stores import make
from tests.fuzz.trees import Tree, from_json, to_json
from tests.fuzz.watch import Report, Room, run

FOUND = Path(".fuzz")


def main() -> int:
    """Returns 1 where something is wrong."""
    options = _options()
    with tempfile.TemporaryDirectory(prefix="fuzz-") as home:
        rooms = Path(home)
        if options.case:
            return _told(
                _one(rooms, from_json(options.case.read_text())), lambda number: from_json(options.case.read_text())
            )
        store = functools.partial(make, options.seed)
        worst = _told(_verbs(rooms, options, store), store)
        if options.pytest:
            worst |= _told(
                projects.run(
                    rooms / "pytest", options.seed, options.first, options.pytest, _progress("pytest", options.pytest)
                ),
                store,
            )
        return worst


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("--cases", type=int, default=1000, help="distinct stores through every verb (default: 1000)")
    parser.add_argument("--pytest", type=int, default=20, help="distinct stores through pytest (default: 20)")
    parser.add_argument("--seed", type=int, default=1, help="other seeds are other stores (default: 1)")
    parser.add_argument("--first", type=int, default=0, help="the number to begin with (default: 0)")
    parser.add_argument("--case", type=Path, metavar="FILE", help="one store of .fuzz/ or of the corpus")
    return parser.parse_args()


def new_room(home: Path) -> Room:
    """A room whose project holds a valid, measured artifact, and an object file to verify."""
    room = Room(home)
    room.prepare(finished(random.Random(0), BASES[1]()))
    subprocess.run(["gcc", "-c", "k.c", "-o", "k.o"], cwd=room.project, check=True)
    return room


def _one(rooms: Path, tree: Tree) -> Report:
    return run(new_room(rooms / "one"), [0], lambda number: tree)


def _verbs(rooms: Path, options: argparse.Namespace, store) -> Report:
    """So many distinct stores: numbers that give one that was there before do not count."""
    room, report, number = new_room(rooms / "verbs"), Report(), options.first
    told = _progress("verbs", options.cases)
    while len(report.stores) < options.cases:
        numbers = list(range(number, number + options.cases - len(report.stores)))
        run(room, numbers, store, report=report, told=told)
        number = numbers[-1] + 1
    return report


def _progress(what: str, wanted: int):
    """A line now and then, and each violation at once: a long run may be interrupted."""
    last, shown = [0.0], [0]

    def told(report: Report) -> None:
        for violation in report.violations[shown[0] :]:
            print(f"store {violation.number}, {' '.join(map(ascii, violation.argv))}: {violation.what}", flush=True)
        shown[0] = len(report.violations)
        if time.monotonic() - last[0] > 30:
            last[0] = time.monotonic()
            print(f"{what}: {len(report.stores)} of {wanted} stores, {report.calls} calls", flush=True)

    return told


def _told(report: Report, store) -> int:
    print(f"{len(report.stores)} distinct stores, {report.calls} calls, {len(report.violations)} violations")
    for label, call in (("slowest", report.slowest), ("largest", report.largest)):
        if call is not None:
            print(f"{label}: {' '.join(call.argv)}: {call.seconds:.2f} s, {call.mib} MiB")
    print("exit codes:", ", ".join(f"{verb} {code}: {count}" for (verb, code), count in sorted(report.codes.items())))
    alike = Counter((one.argv[0], one.what[:50]) for one in report.violations)
    shown: set[tuple[str, str]] = set()
    for one in report.violations:
        key = one.argv[0], one.what[:50]
        if key not in shown:
            shown.add(key)
            FOUND.mkdir(exist_ok=True)
            (FOUND / f"{one.number}-{one.argv[0]}.json").write_text(to_json(store(one.number)))
            print(f"\n{alike[key]} × store {one.number}, {' '.join(map(ascii, one.argv))}: {one.what}")
    return int(bool(report.violations))


if __name__ == "__main__":
    sys.exit(main())
