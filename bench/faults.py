"""Faults drawn over the whole package, one at a time in a copy of this checkout: which does the suite not notice?

python bench/faults.py [--faults 150] [--seed 1] [--unit] [--results FILE.jsonl]

Each fault turns one comparison, sign or connective round (as bench/mutants.py does), decides one condition, drops one
statement, or shifts one number. The unit tests of its room are run first, and the whole suite where they all pass. A
fault that no test notices is printed with its file and line. An interrupted run goes on where its results end.
"""

import argparse
import ast
import json
import os
import random
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from mutants import PACKAGE, ROOT, changes

LIMIT_S = 300, 1200  # for the unit tests of a room and for the suite: a fault that makes them hang is noticed


class Fault(NamedTuple):
    path: str
    line: int
    old: str
    new: str
    text: str  # of the whole faulty file


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--faults", type=int, default=150, help="how many are drawn (default: %(default)s)")
    parser.add_argument("--seed", type=int, default=1, help="of the draw (default: %(default)s)")
    parser.add_argument("--unit", action="store_true", help="run unit tests alone, never the whole suite")
    parser.add_argument("--results", type=Path, help="a line of JSON a fault, read again by the next run")
    asked = parser.parse_args()
    known = {}
    if asked.results and asked.results.exists():
        known = {row["fault"]: row for row in map(json.loads, asked.results.read_text().splitlines())}
    caught: dict[str, int] = {}
    with tempfile.TemporaryDirectory(prefix="faults-") as name:
        copy = Path(name, "checkout")
        subprocess.run(["git", "clone", "-q", ROOT, copy], check=True)
        for fault in drawn(asked.faults, asked.seed):
            key = f"{fault.path}:{fault.line}: {fault.old}  →  {fault.new}"
            row = known.get(key)
            if row is None or (row["by"] == "" and not row["suite"] and not asked.unit):
                row = {"fault": key, "by": judged(copy, fault, unit=asked.unit), "suite": not asked.unit}
                if asked.results:
                    with asked.results.open("a") as file:
                        file.write(json.dumps(row, ensure_ascii=False) + "\n")
            caught[row["by"].partition("/")[0]] = caught.get(row["by"].partition("/")[0], 0) + 1
            if not row["by"]:
                print(f"{PACKAGE}/{key}", flush=True)
    print(f"{sum(caught.values())} faults, by what noticed them: {caught}; '' is nothing")


def drawn(count: int, seed: int) -> list[Fault]:
    """Faults in places that are equally likely over the whole package."""
    paths = sorted((ROOT / PACKAGE).rglob("*.py"))
    places = [(path, number) for path in paths for number, _ in enumerate(faults(ast.parse(path.read_text())))]
    return [_fault(path, number) for path, number in random.Random(seed).sample(places, count)]


def _fault(path: Path, number: int) -> Fault:
    source = path.read_text()
    old, new = list(faults(ast.parse(source)))[number]
    lines = source.encode().splitlines(keepends=True)
    start = sum(map(len, lines[: old.lineno - 1])) + old.col_offset
    end = sum(map(len, lines[: (old.end_lineno or 0) - 1])) + (old.end_col_offset or 0)
    segment, put = source.encode()[start:end].decode(), f"({new})" if isinstance(old, ast.expr) else new
    text = (source.encode()[:start] + put.encode() + source.encode()[end:]).decode()
    return Fault(str(path.relative_to(ROOT / PACKAGE)), old.lineno, " ".join(segment.split()), new, text)


def faults(tree: ast.AST) -> Iterator[tuple[ast.expr | ast.stmt, str]]:
    """Each place with the text that may stand there instead."""
    yield from ((old, ast.unparse(ast.fix_missing_locations(new))) for old, new in changes(tree))
    for node in ast.walk(tree):
        match node:
            case ast.If(test) | ast.While(test) | ast.IfExp(test) if not _is_for_types(test):
                yield from ((test, text) for text in ("True", "False"))
            case ast.Expr(ast.Call()) | ast.AugAssign():
                yield node, "pass"
            case ast.Constant(int() | float() as value) if not isinstance(value, bool):
                yield node, repr(value + 1)


def _is_for_types(test: ast.expr) -> bool:
    return isinstance(test, ast.Name) and test.id == "TYPE_CHECKING"


_SUITE = "-nauto", "-m", "not slow"  # as make test


def judged(copy: Path, fault: Fault, *, unit: bool) -> str:
    """The test that notices the fault first, as a path from ``tests/``; an empty text for none."""
    file = copy / PACKAGE / fault.path
    before = file.read_text()
    file.write_text(fault.text)
    try:
        room = Path("tests/unit", fault.path)
        tests = next(tests for tests in room.parents if (copy / tests).is_dir())
        return failed(copy, LIMIT_S[0], "-n0", str(tests)) or ("" if unit else failed(copy, LIMIT_S[1], *_SUITE))
    finally:
        file.write_text(before)


def failed(copy: Path, limit_s: float, *tests: str) -> str:
    """The first test that fails in the copy, else an empty text."""
    environment: Mapping[str, str] = {**os.environ, "PYTHONPATH": str(copy), "PYTHONDONTWRITEBYTECODE": "1"}
    command = [sys.executable, "-m", "pytest", "-xq", "-p", "no:cacheprovider", "-p", "no:randomly", *tests]
    try:
        run = subprocess.run(
            command, cwd=copy, env=environment, capture_output=True, text=True, timeout=limit_s, check=False
        )
    except subprocess.TimeoutExpired:
        return "a hang"
    if run.returncode == 0:
        return ""
    named = [line for line in run.stdout.splitlines() if line.startswith(("FAILED", "ERROR"))]
    return named[0].split()[1].removeprefix("tests/") if named else f"pytest's exit code {run.returncode}"


if __name__ == "__main__":
    main()
