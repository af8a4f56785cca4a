"""What ``acf_runtime`` costs: its import, and ``resolve`` at a launch, on this repository's artifacts, exported.

python bench/runtime.py [--calls 200000]
"""

import argparse
import importlib.util
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from machine import describe
from pytest_compileiq.named_options import NamedOptions
from pytest_compileiq.ship.export import export_runtime
from pytest_compileiq.store.store import Store

ACF = Path(__file__).parents[1] / "acf"
IMPORTS = 31
BUILD = "cuda_13.3.r13.3/compiler.38244171_0"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--calls", type=int, default=200_000)
    options = parser.parse_args()
    print(describe())
    with tempfile.TemporaryDirectory() as home:
        export_runtime(Store(ACF), Path(home), (), omit_stale=True, triton_cache=None, named=NamedOptions())
        imports = sorted(import_ms(Path(home)) for _ in range(IMPORTS))
        print(f"import: median {statistics.median(imports):.1f} ms, from {imports[0]:.1f} to {imports[-1]:.1f}")
        resolve = load(Path(home) / "acf_runtime.py").resolve
        question = ("triton-softmax", "sm_90a", "NVIDIA H200", BUILD)
        start = time.perf_counter()
        found = resolve(*question)
        print(f"first call: {(time.perf_counter() - start) * 1e6:.0f} µs ({found.reason})")
        seconds = sorted(timed(resolve, question) for _ in range(options.calls))
    median, rare = statistics.median(seconds), seconds[int(len(seconds) * 0.999)]
    print(f"after it: median {median * 1e6:.2f} µs, 99.9 % within {rare * 1e6:.2f} µs, {options.calls} calls")


def import_ms(home: Path) -> float:
    """Milliseconds that the import takes in a process that has imported nothing else."""
    code = f"import sys, time; sys.path.insert(0, {str(home)!r}); t = time.perf_counter(); import acf_runtime; "
    code += "print((time.perf_counter() - t) * 1e3)"
    return float(subprocess.run([sys.executable, "-I", "-c", code], capture_output=True, check=True).stdout)


def load(path: Path):
    spec = importlib.util.spec_from_file_location("exported_runtime", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def timed(resolve, question) -> float:
    start = time.perf_counter()
    resolve(*question)
    return time.perf_counter() - start


if __name__ == "__main__":
    main()
