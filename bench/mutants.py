"""Every comparison, sign and connective of the rules turned round, one at a time: which change no test notices?

python bench/mutants.py [rules.gate search.loop …]

The rules are its default; it also knows the state machines that fakes drive. Exit status 1 when a mutant survives that
is not explained in EQUIVALENT below. Nothing is written: a mutant is compiled
in memory and imported in a forked child, whose parent has numpy, scipy and hypothesis loaded, so that one costs as long
as its tests take and no more.

The kept tools do less here. mutmut 3 leaves out decorated functions, so that no property of ``Evidence``, the sign of a
maximised metric among them, would be mutated. cosmic-ray puts every other comparison in the place of each, starts an
interpreter for every one, and changes the files of the tree in place.
"""

import argparse
import ast
import importlib
import importlib.abc
import importlib.util
import os
import signal
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from types import CodeType, ModuleType

import pytest

PRELOADED = ("hypothesis", "pydantic", "numpy", "scipy.stats")
ROOT = Path(__file__).resolve().parents[1]
PACKAGE = "pytest_compileiq"
LIMIT_S = 60  # for a mutant that does not end

# The tests of each module, the quickest and most telling first: the run of a mutant ends with the first failure.
TESTS = {
    "rules.calls": ("test_calls.py",),
    "rules.claims": ("test_claims.py", "test_claimed_devices.py", "test_diff.py"),
    "rules.diff": ("test_diff.py",),
    "rules.fingerprint": ("test_fingerprint.py",),
    "rules.evidence": (
        "test_gate_limits.py",
        "test_gate.py",
        "test_tails.py",
        "test_gate_fleet.py",
        "test_gate_differences.py",
    ),
    "rules.fleet": ("test_fleet.py", "test_gate_fleet.py"),
    "rules.gate": ("test_gate_limits.py", "test_gate.py", "test_tails.py", "test_gate_fleet.py"),
    "rules.noise": ("test_noise.py",),
    "rules.recompute": ("test_gate.py", "test_gate_fleet.py"),
    "rules.comparison": ("test_design.py", "test_tails.py"),
    "rules.staleness": ("test_staleness.py",),
    "rules.stats": ("test_stats.py",),
    "rules.words": ("test_words.py", "test_claimed_devices.py"),
    "search.journal": ("test_journal.py", "test_journal_file.py"),
    "search.loop": ("test_loop.py",),
    "proof.remeasure": ("test_prove.py", "test_devices.py"),
    "proof.prove": ("test_prove.py", "test_devices.py"),
    "replay.run": ("test_run.py", "test_committed.py"),
    "replay.committed": ("test_committed.py", "test_run.py"),
    "store.store": ("test_store.py",),
    "workers.pool": ("test_pool.py", "test_worker.py"),
}
RULES = [name for name in TESTS if name.startswith("rules.")]

# What no test can notice, with the reason. A line that no longer meets a survivor is an error too.
DEVIATIONS = "2 * math.sqrt(count * (count - 1) * (2 * count + 5) / 18)"
EQUIVALENT = {
    (
        "rules.claims",
        "claim.speedup is None or claim.speedup_low is None or claim.speedup_high is None",
        "claim.speedup is None and claim.speedup_low is None and (claim.speedup_high is None)",
    ): "a claim has all three of them or none",
    ("rules.evidence", "tuned - middle", "tuned + middle"): "a spread does not see where its arm lies",
    ("rules.noise", "drifted > 0", "drifted >= 0"): "a drift of 0 is not above DRIFT, and this line is not reached",
    ("rules.noise", f"abs(concordance) < {DEVIATIONS}", f"abs(concordance) <= {DEVIATIONS}"): (
        "a concordance is whole, and two standard deviations of it are not for any count from 6 to 2000"
    ),
}

COMPARISONS: dict[type[ast.cmpop], tuple[type[ast.cmpop], ...]] = {
    ast.Lt: (ast.LtE, ast.GtE),
    ast.LtE: (ast.Lt, ast.Gt),
    ast.Gt: (ast.GtE, ast.LtE),
    ast.GtE: (ast.Gt, ast.Lt),
    ast.Eq: (ast.NotEq,),
    ast.NotEq: (ast.Eq,),
    ast.Is: (ast.IsNot,),
    ast.IsNot: (ast.Is,),
    ast.In: (ast.NotIn,),
    ast.NotIn: (ast.In,),
}
OPPOSITES: dict[type[ast.AST], type[ast.AST]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.BitOr: ast.BitAnd,
    ast.BitAnd: ast.BitOr,
    ast.And: ast.Or,
    ast.Or: ast.And,
}
EXTREMES = {"min": "max", "max": "min"}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("modules", nargs="*", default=RULES, metavar="module", help=", ".join(TESTS))
    chosen = parser.parse_args().modules
    os.chdir(ROOT)
    sys.path.insert(0, str(ROOT))
    os.environ["OPENBLAS_NUM_THREADS"] = "1"  # a process of several threads is not to be forked
    for name in PRELOADED:
        importlib.import_module(name)
    began, tried, explained, unexplained = time.monotonic(), 0, set(), 0
    for module in chosen:
        path = (ROOT / PACKAGE).joinpath(*module.split(".")).with_suffix(".py")
        if not passes(module, compile(path.read_text(), str(path), "exec")):
            sys.exit(f"{module}: its tests fail on the module as it is")
        for line, old, new, code in mutants(path):
            tried += 1
            if not passes(module, code):
                continue
            if (module, old, new) in EQUIVALENT:
                explained.add((module, old, new))
                continue
            unexplained += 1
            print(f"{module}:{line}: {old}  →  {new}", flush=True)
    killed = tried - unexplained - len(explained)
    seconds = time.monotonic() - began
    print(f"{tried} mutants: {killed} killed, {len(explained)} equivalent, {unexplained} survived; {seconds:.0f} s")
    unused = [key for key in EQUIVALENT if key[0] in chosen and key not in explained]
    for module, old, new in unused:
        print(f"EQUIVALENT names a mutant of {module}.py that is gone or is killed: {old}  →  {new}")
    sys.exit(bool(unexplained or unused))


def mutants(path: Path) -> Iterator[tuple[int, str, str, CodeType]]:
    """Line, old text, new text and the compiled module, for each change of one place."""
    source = path.read_text()
    for number in range(len(list(changes(ast.parse(source))))):
        tree = ast.parse(source)
        old, new = list(changes(tree))[number]
        texts = ast.unparse(old), ast.unparse(new)
        mutated = ast.fix_missing_locations(Replaced(old, new).visit(tree))
        yield old.lineno, *texts, compile(mutated, str(path), "exec")


def changes(tree: ast.AST) -> Iterator[tuple[ast.expr | ast.stmt, ast.AST]]:
    """Each place with what may stand there instead; annotations, which nothing evaluates, are left out."""
    for name, value in ast.iter_fields(tree):
        if name not in ("annotation", "returns"):
            for node in value if isinstance(value, list) else [value]:
                if isinstance(node, ast.AST):
                    yield from ((node, other) for other in alternatives(node))
                    yield from changes(node)


def alternatives(node: ast.AST) -> Iterator[ast.AST]:
    match node:
        case ast.Compare(left, ops, comparators):
            for place, op in enumerate(ops):
                for other in COMPARISONS[type(op)]:
                    yield ast.Compare(left, [*ops[:place], other(), *ops[place + 1 :]], comparators)
        case ast.BinOp(left, op, right) if type(op) in OPPOSITES:
            yield ast.BinOp(left, OPPOSITES[type(op)](), right)
        case ast.AugAssign(target, op, value) if type(op) in OPPOSITES:
            yield ast.AugAssign(target, OPPOSITES[type(op)](), value)
        case ast.BoolOp(op, values):
            yield ast.BoolOp(OPPOSITES[type(op)](), values)
        case ast.UnaryOp(ast.USub() | ast.Not() | ast.Invert(), operand):
            yield operand
        case ast.Call(ast.Name(name), args, keywords) if name in EXTREMES:
            yield ast.Call(ast.Name(EXTREMES[name], ast.Load()), args, keywords)


class Replaced(ast.NodeTransformer):
    """The tree with one node replaced by another."""

    def __init__(self, old: ast.AST, new: ast.AST):
        self.old, self.new = old, new

    def visit(self, node: ast.AST) -> ast.AST:
        return self.new if node is self.old else self.generic_visit(node)


class Mutant(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Gives one module its mutated code, wherever it is imported from."""

    def __init__(self, name: str, code: CodeType):
        self.name, self.code = name, code

    def find_spec(self, name, path, target=None):
        return importlib.util.spec_from_loader(name, self) if name == self.name else None

    def exec_module(self, module: ModuleType) -> None:
        exec(self.code, module.__dict__)


def passes(module: str, code: CodeType) -> bool:
    """Whether the module's tests all pass, in a child of its own, where ``code`` is the module's."""
    child = os.fork()
    if child == 0:
        run_tests(module, code)
    _, status = os.waitpid(child, 0)
    if os.WIFEXITED(status) and os.WEXITSTATUS(status) == pytest.ExitCode.USAGE_ERROR:
        sys.exit(f"{module}: pytest did not run: {TESTS[module]}")
    return status == 0


def run_tests(module: str, code: CodeType) -> None:
    """Never returns; the exit status is pytest's, or the alarm's signal."""
    status = 1
    try:
        signal.alarm(LIMIT_S)
        silence = os.open(os.devnull, os.O_WRONLY)
        os.dup2(silence, 1)
        os.dup2(silence, 2)
        name = f"{PACKAGE}.{module}"
        sys.meta_path.insert(0, Mutant(name, code))
        importlib.import_module(name)
        room = module.partition(".")[0]
        tests = [f"tests/unit/{room}/{file}" for file in TESTS[module]]
        # Rewritten asserts would ask to import the rules anew, from their files.
        status = pytest.main(["-xq", "--assert=plain", "-p", "no:cacheprovider", "-p", "no:randomly", *tests])
    finally:
        os._exit(status)


if __name__ == "__main__":
    main()
