"""What ``acf_runtime.resolve`` costs at a launch: this repository's artifacts, exported; the first call and the rest.

python bench/runtime.py [--calls 200000]
"""

import argparse
import importlib.util
import statistics
import tempfile
import time
from pathlib import Path

from machine import describe
from pytest_compileiq.named_options import NamedOptions
from pytest_compileiq.ship.export import export_runtime
from pytest_compileiq.store.store import Store

ACF = Path(__file__).parents[1] / "acf"
BUILD = "cuda_13.3.r13.3/compiler.38244171_0"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--calls", type=int, default=200_000)
    options = parser.parse_args()
    print(describe())
    with tempfile.TemporaryDirectory() as home:
        export_runtime(Store(ACF), Path(home), (), omit_stale=True, triton_cache=None, named=NamedOptions())
        resolve = load(Path(home) / "acf_runtime.py").resolve
        question = ("triton-softmax", "sm_90a", "NVIDIA H200", BUILD)
        start = time.perf_counter()
        found = resolve(*question)
        print(f"first call: {(time.perf_counter() - start) * 1e6:.0f} µs ({found.reason})")
        seconds = sorted(timed(resolve, question) for _ in range(options.calls))
    median, rare = statistics.median(seconds), seconds[int(len(seconds) * 0.999)]
    print(f"after it: median {median * 1e6:.2f} µs, 99.9 % within {rare * 1e6:.2f} µs, {options.calls} calls")


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
