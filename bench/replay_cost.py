"""What a plain replay of unchanged artifacts costs, with and without the build cache, beside reading the same files.

One kernel is tuned; its artifact is cloned under other names, each with a test and, for several sources, a copy of the
source of its own. Then ``pytest --acf-check=replay`` runs on all of them: with an empty cache, and again.

    python bench/replay_cost.py [--artifacts 100] [--sources 1] [--keep DIRECTORY]
"""

import argparse
import hashlib
import importlib.util
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from machine import describe
from pytest_compileiq.benchmark.digest import digest_benchmark
from pytest_compileiq.model import digest_of_command, sha256_hex
from pytest_compileiq.store.store import Store

KERNEL = """\
#include <ctype.h>
#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "scale.h"
void kernel(const float *x, float *y, int n) {
    for (int i = 0; i < n; i++)
        y[i] = SCALE * sqrtf(x[i] * x[i] + 1.0f);
}
""" + "".join(
    f"""\
double more_{number}(double *a, const double *b, int n) {{
    double sum = 0;
    for (int i = 0; i < n; i++)
        for (int k = 0; k < n; k++) {{
            a[i * n + k] = b[k * n + i] * {number}.5 + a[i * n + k];
            sum += a[i * n + k] > {number} ? b[k] : -b[i];
        }}
    return sum;
}}
"""
    for number in range(12)
)
HEADER = """\
import ctypes

import pytest

from pytest_compileiq import Cc, literal

FLAGS = "-O2 -march=x86-64-v3"
SPACE = {"-fno-math-errno": literal(""), "-ftree-vectorize": literal("", knockout_prob=0.5)}
FLOATS = ctypes.c_float * 4096
X, Y = FLOATS(*range(4096)), FLOATS()


def check(acf):
    kernel = acf.build().load().kernel
    acf.measure(lambda: kernel(X, Y, 4096))
    assert Y[0] == 2.0

"""
TEST = """\

@pytest.mark.tune(Cc({source!r}, flags=FLAGS, neighbours="allow"), space=SPACE, name={name!r})
def test_{name}(acf):
    check(acf)

"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--artifacts", type=int, default=100, help="(default: %(default)s)")
    parser.add_argument("--sources", type=int, default=1, help="that they are spread over (default: %(default)s)")
    parser.add_argument("--runs", type=int, default=3, help="with the filled cache (default: %(default)s)")
    parser.add_argument("--without-cache", action="store_true", help="time --acf-check=rebuild too")
    parser.add_argument("--keep", type=Path, help="where the project is made, and stays")
    asked = parser.parse_args()
    print(describe())
    with tempfile.TemporaryDirectory() as folder:
        root = (asked.keep or Path(folder) / "project").resolve()
        if not root.exists():
            make(root, asked.artifacts, asked.sources)
        pytest_s = seconds(root, "-p", "no:compileiq", "plain", runs=2)
        print(f"pytest alone, {asked.artifacts} tests that only run the kernel: {pytest_s}")
        print(f"reading and hashing each artifact's files: {hashing_s(root, asked.artifacts):.2f} s")
        if asked.without_cache:
            print(f"without the cache: {seconds(root, '--acf-check=rebuild', runs=1)}")
        print(f"filling the cache: {seconds(root, '--acf-check=replay', runs=1)}")
        print(f"unchanged: {seconds(root, '--acf-check=replay', runs=asked.runs)} (median of {asked.runs})")


def make(root: Path, artifacts: int, sources: int) -> None:
    """A project of ``artifacts`` proven ones, cloned from one."""
    root.mkdir(parents=True)
    (root / "pytest.ini").write_text("[pytest]\ntune_reduce = false\nacf_orphans = ignore\n")
    (root / "scale.h").write_text("#define SCALE 2.0f\n")
    names = [f"k{number:04}" for number in range(artifacts)]
    of = {name: f"kernel_{number % sources:03}.c" for number, name in enumerate(names)}
    for source in set(of.values()):
        (root / source).write_text(KERNEL)
    (root / "test_all.py").write_text(HEADER + "".join(TEST.format(name=name, source=of[name]) for name in names))
    (root / "plain").mkdir()
    (root / "plain" / "test_plain.py").write_text(plain(root, names))
    subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "--tune", "--tune-budget=3", "--tune-engine=grid",
         f"test_all.py::test_{names[0]}"], cwd=root, check=True, stdout=subprocess.DEVNULL,
    )  # fmt: skip
    clone(root, names, of)


def plain(root: Path, names: list[str]) -> str:
    """The same tests without this plugin: each loads a library and runs its kernel."""
    library = root / "plain" / "kernel.so"
    subprocess.run(["gcc", "-O2", "-fPIC", "-shared", root / "kernel_000.c", "-o", library], check=True)
    lines = ["import ctypes", "FLOATS = ctypes.c_float * 4096", "X, Y = FLOATS(*range(4096)), FLOATS()"]
    for name in names:
        lines += [
            f"def test_{name}():",
            f"    ctypes.CDLL({str(library)!r}).kernel(X, Y, 4096)",
            "    assert Y[0] == 2.0",
        ]
    return "\n".join(lines) + "\n"


def clone(root: Path, names: list[str], of: dict[str, str]) -> None:
    """Store the first artifact under every name, as if it had been tuned for that test."""
    store = Store(root / "acf")
    (target,) = store.targets(names[0])
    first = store.read(names[0], target)
    controls = store.read_controls(names[0], first)
    folder = root / "acf" / names[0]
    spec = importlib.util.spec_from_file_location("test_all", root / "test_all.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules["test_all"] = module
    spec.loader.exec_module(module)
    for name in names[1:]:
        benchmark = digest_benchmark(
            getattr(module, f"test_{name}"), fixtures=(), rootdir=root, workloads={"default": ({}, 1.0)},
            objectives=[("runtime", "minimize")], functions=("neighbours allow",),
        )  # fmt: skip
        command = tuple(of[name] if word == of[names[0]] else word for word in first.compiler.command)
        own = sorted({of[name], "scale.h"})
        fingerprint = first.fingerprint.model_copy(
            update={
                "benchmark": benchmark.sha256,
                "parts": dict(benchmark.parts),
                "command": digest_of_command(command),
                "sources": {file: sha256_hex((root / file).read_bytes()) for file in own},
            }
        )
        compiler = first.compiler.model_copy(update={"command": command})
        artifact = first.model_copy(
            update={"benchmark": f"test_all.py::test_{name}", "fingerprint": fingerprint, "compiler": compiler}
        )
        (root / "acf" / name).mkdir()
        for file in folder.glob("*.csv"):
            shutil.copy(file, root / "acf" / name)
        store.write(name, artifact, controls=[controls], samples=())


def hashing_s(root: Path, artifacts: int) -> float:
    """Seconds to read and hash, for each artifact, its source, its headers, its store, and the compiler's programs."""
    line = subprocess.run(["gcc", "-M", "kernel_000.c"], cwd=root, check=True, capture_output=True, text=True).stdout
    read = [root / word for word in line.replace("\\\n", " ").split()[1:]]
    tools = [
        subprocess.run(["gcc", f"-print-prog-name={tool}"], check=True, capture_output=True, text=True).stdout.strip()
        for tool in ("cc1", "as", "ld")
    ]
    read += [Path(found) for tool in tools if (found := shutil.which(tool))]
    begun = time.perf_counter()
    for path in read[-3:]:
        hashlib.sha256(path.read_bytes()).hexdigest()
    for number in range(artifacts):
        for path in (*read[:-3], *(root / "acf" / f"k{number:04}").iterdir()):
            hashlib.sha256(path.read_bytes()).hexdigest()
    return time.perf_counter() - begun


def seconds(root: Path, *arguments: str, runs: int) -> str:
    """Median wall time of pytest in ``root``, which has to pass, and the processor's for a machine that others use."""
    environment = {key: value for key, value in os.environ.items() if not key.startswith("PYTEST_")}
    where = [] if arguments[-1] == "plain" else ["test_all.py"]
    taken = []
    for _ in range(runs):
        before, begun = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
        subprocess.run(
            [sys.executable, "-m", "pytest", "-q", *arguments, *where], cwd=root, env=environment, check=True,
            stdout=subprocess.DEVNULL,
        )  # fmt: skip
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        used = sum(getattr(after, name) - getattr(before, name) for name in ("ru_utime", "ru_stime"))
        taken.append((time.perf_counter() - begun, used))
    wall_s, used_s = sorted(taken)[len(taken) // 2]
    return f"{wall_s:.2f} s, {used_s:.2f} s of a processor"


if __name__ == "__main__":
    main()
