"""Do the recorded outputs catch what changes a program's output? Mutants of its kernels by universalmutator's rules.

The sources of ``captured_program`` are changed one place at a time by somebody else's rules (universalmutator, PyPI).
Of all mutants that compile to other machine code some are drawn. With each the program is run: does it still find what
it found, or does it crash or hang? And the test that ``acf capture --tests`` wrote for the kernel is run on the mutant:
does it fail? All that change what the program does must be caught; those that are missed are printed, and end the bench
with 1.

    python -m venv /tmp/mutator && /tmp/mutator/bin/pip install universalmutator
    python bench/captured_mutants.py --mutate /tmp/mutator/bin/mutate [--mutants 50] [--seed 1] [--results FILE.json]
"""

from __future__ import annotations

import argparse
import collections
import difflib
import itertools
import json
import os
import random
import re
import resource
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from captured import KERNELS, LIBRARY, build, capture, copied, machine_and_load

FLAGS = "-O2"
FRAMES = ("24", "--shrink", "2")
PROGRAM_S, TEST_S = 15, 40  # plain they take less than one
# How a test fails that compared something; any other failure is no catch, and is shown.
COMPARED = re.compile(
    r"AssertionError: \w+, call \d+: .* differs from (the record|the same call before)|nondeterministic"
)
SAME, HANGS = "same", "hangs"


@dataclass(frozen=True)
class Mutant:
    """What became of one."""

    kernel: str
    change: str
    program: str
    test: str

    @property
    def changes_the_program(self) -> bool:
        return self.program != SAME

    @property
    def is_caught(self) -> bool:
        return self.test in ("differs", HANGS) or self.test.startswith("signal")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--mutate", type=Path, required=True, help="universalmutator's command")
    parser.add_argument("--mutants", type=int, default=50, help="how many are judged (default: %(default)s)")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--results", type=Path, metavar="FILE")
    asked = parser.parse_args()
    print(machine_and_load(), flush=True)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    with tempfile.TemporaryDirectory() as folder:
        root = copied(Path(folder, "program"))
        (root / "pytest.ini").write_text("[pytest]\n")
        original = machine_code(build(root, FLAGS))
        capture(root, "--share", "0.9999", "--tests", "tests", program=(*FRAMES, "--save", "found.npz"))
        if program(root) != SAME or any(tested(root, kernel) != "passes" for kernel in KERNELS):
            sys.exit("the program as it is does not pass")
        drawn = mutants(root, asked.mutate.absolute(), random.Random(asked.seed))
        built: collections.Counter[str] = collections.Counter()
        judged = []
        for kernel, text in drawn:
            mutant = judge(root, kernel, text, original, built)
            if mutant:
                judged.append(mutant)
                told = "caught" if mutant.is_caught else "NOT caught"
                print(f"{kernel}: {mutant.change}: program {mutant.program}; {told} ({mutant.test})", flush=True)
            if len(judged) == asked.mutants:
                break
    show(judged, built)
    if asked.results:
        told = {"machine": machine_and_load(), "seed": asked.seed, "built": built, "mutants": [*map(asdict, judged)]}
        asked.results.write_text(json.dumps(told, indent=1), encoding="utf-8")
    sys.exit(any(each.changes_the_program and not each.is_caught for each in judged) or len(judged) < asked.mutants)


def mutants(root: Path, mutate: Path, order: random.Random) -> Iterator[tuple[str, str]]:
    """Kernel and changed source, of each kernel in turn, in random order."""
    by_kernel = []
    for kernel in KERNELS:
        out = root / "mutants" / kernel
        out.mkdir(parents=True)
        command = [mutate, f"{kernel}.c", "c", "--noCheck", "--mutantDir", out]
        subprocess.run(command, cwd=root, check=True, stdout=subprocess.DEVNULL)
        drawn = [(kernel, path.read_text()) for path in sorted(out.iterdir())]
        by_kernel.append(order.sample(drawn, len(drawn)))
    for turn in itertools.zip_longest(*by_kernel):
        yield from (each for each in turn if each)


def judge(root: Path, kernel: str, text: str, original: str, built: collections.Counter[str]) -> Mutant | None:
    """None for one that does not compile, or to the machine code of the kernel as it is; ``built`` counts these."""
    source = root / f"{kernel}.c"
    plain = source.read_text()
    source.write_text(text)
    try:
        try:
            is_same = machine_code(build(root, FLAGS, is_silent=True)) == original
        except subprocess.CalledProcessError:
            built["not compiled"] += 1
            return None
        built["the same machine code" if is_same else "judged"] += 1
        return None if is_same else Mutant(kernel, changed(plain, text), program(root), tested(root, kernel))
    finally:
        source.write_text(plain)


def machine_code(library: Path) -> str:
    command = ["objdump", "-d", "--no-show-raw-insn", library.name]
    return subprocess.run(command, cwd=library.parent, check=True, capture_output=True, text=True).stdout


def changed(plain: str, text: str) -> str:
    lines = difflib.unified_diff(plain.splitlines(), text.splitlines(), n=0, lineterm="")
    return " → ".join(line[1:].strip() for line in lines if line[0] in "+-" and line[:3] not in ("+++", "---"))


def program(root: Path) -> str:
    """What the program does with the library at hand."""
    command = [sys.executable, "program.py", LIBRARY, *FRAMES, "--expect", "found.npz"]
    status, output = ended(root, command, PROGRAM_S)
    if status == 1:
        return "differs" if "not as expected" in output else "fails"
    return _how(status, SAME)


def tested(root: Path, kernel: str) -> str:
    """What the kernel's test says of the source at hand."""
    command = [sys.executable, "-m", "pytest", "-q", "--acf-check=off", "-pno:cacheprovider", f"tests/test_{kernel}.py"]
    status, output = ended(root, command, TEST_S)
    if status == 1:
        return "differs" if COMPARED.search(" ".join(output.split())) else f"fails: {output[-300:]}"
    return _how(status, "passes")


def _how(status: int | None, well: str) -> str:
    if status is None:
        return HANGS
    return f"signal {signal.Signals(-status).name}" if status < 0 else f"status {status}" if status else well


def ended(root: Path, command: Sequence[str], limit_s: float) -> tuple[int | None, str]:
    """The exit status, None where it took too long and was killed with all that it started; and what it printed."""
    with tempfile.TemporaryFile("w+") as printed:
        process = subprocess.Popen(
            command, cwd=root, stdout=printed, stderr=subprocess.STDOUT, text=True, start_new_session=True
        )
        try:
            status: int | None = process.wait(limit_s)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            status = None
        printed.seek(0)
        return status, printed.read()


def show(judged: Sequence[Mutant], built: collections.Counter[str]) -> None:
    print(machine_and_load())
    print(f"drawn {sum(built.values())}: {', '.join(f'{count} {what}' for what, count in built.items())}")
    for kernel in (*KERNELS, None):
        own = [each for each in judged if kernel in (None, each.kernel)]
        changing = [each for each in own if each.changes_the_program]
        caught = sum(each.is_caught for each in changing)
        more = sum(each.is_caught for each in own) - caught
        how = collections.Counter(each.program for each in changing)
        print(
            f"{kernel or 'all':<10} {len(own):>3} mutants; {len(changing)} change the program "
            f"({', '.join(f'{count} {what}' for what, count in how.items())}), {caught} of them caught; "
            f"{len(own) - len(changing)} leave it as it is, {more} of them caught all the same"
        )
    missed = [each for each in judged if each.changes_the_program and not each.is_caught]
    for each in missed:
        print(f"MISSED {each.kernel}: {each.change}: program {each.program}; test {each.test}")


if __name__ == "__main__":
    main()
