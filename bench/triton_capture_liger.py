"""Ten kernels of liger-kernel, as they are installed, launched without torch, captured, and compiled to the same PTX?

``python -m bench.triton_capture_liger`` from the repository's root: above the driver of tests/driver, with the
arguments of tests/compilers/triton/test_liger.py.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.driver.build import build_driver, ptxas
from tests.driver.launching import TENSORS_PY

ROOT = Path(__file__).parents[1]
PROGRAM = """
from pathlib import Path

import triton
import triton.language as tl
from pytest_compileiq.toolchains.base import Place
from pytest_compileiq.toolchains.triton.source import find_kernel
from pytest_compileiq.toolchains.triton.torch_stub import answers_of, load_module, stand_in
from tensors import Tensor
from tests.compilers.triton.test_liger import KERNELS

triton.runtime.driver.active.get_current_device()  # before a stand-in for torch is there, which Triton would ask
HERE = Path.cwd()
GIVEN = {
    "*bf16:16": Tensor("bf16", 8, 1024), "*fp32:16": Tensor("fp32", 8, 1024), "*i64:16": Tensor("i64", 8),
    "i32:16": 1024, "i32:1": 1, "i32": 7, "fp32": 0.5,
}
for name, marker in KERNELS.items():
    source = find_kernel(f"liger_kernel.ops.{name}", Place(HERE, HERE))
    with stand_in(answers_of((9, 0), None)):
        kernel = getattr(load_module(source.module, source.parts()), name.partition(":")[2])
    while not hasattr(kernel, "params"):
        kernel = kernel.fn
    arguments = {name: GIVEN[kind] for name, kind in marker["signature"].items()}
    for constexpr, value in marker["constexprs"].items():
        is_dtype = isinstance(value, str) and value.startswith("tl.")
        arguments[constexpr] = getattr(tl, value[3:]) if is_dtype else value
    chosen = {"BLOCK_N": 512} if name.startswith("dyt") else {}  # by @triton.autotune, which would time it
    kernel[(8,)](**arguments, **chosen, **{key: marker[key] for key in ("num_warps",) if key in marker})
"""


def main() -> None:
    with TemporaryDirectory() as folder:
        for name, text in (("tensors.py", TENSORS_PY), ("serve.py", PROGRAM), ("pytest.ini", "[pytest]\n")):
            Path(folder, name).write_text(text)
        environment = {**os.environ, **build_driver(Path(folder)), "TRITON_CACHE_DIR": f"{folder}/cache"}
        environment |= {"TRITON_PTXAS_BLACKWELL_PATH": ptxas().program, "PYTHONPATH": str(ROOT)}
        acf = [sys.executable, "-m", "pytest_compileiq.cli", "capture", "--tests", "tests"]
        done = subprocess.run(
            [*acf, "--", sys.executable, "serve.py"],
            check=False,
            cwd=folder,
            env=environment,
            capture_output=True,
            text=True,
        )
    compiled = [line for line in done.stdout.splitlines() if " compiles" in line or "could not" in line]
    print(*compiled or [done.stdout, done.stderr], sep="\n")


if __name__ == "__main__":
    main()
