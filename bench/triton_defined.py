"""Of how many kernels of a package Triton can be told the definition, with no GPU: ``triton_defined.py DIRECTORY``.

The directory is what a package's modules are imported from, as the unpacked wheel of fla-core. Of each function with
``@triton.jit`` its file is executed as far as the kernel needs it, for ``sm_90a``, and Triton is asked for its
arguments and configs; nothing is compiled. Printed are the refusals, with how many kernels each one is of.

    python bench/triton_defined.py DIRECTORY [--device "NVIDIA H100 80GB HBM3"] [--jobs 2]
"""

from __future__ import annotations

import argparse
import ast
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from importlib.util import find_spec
from pathlib import Path

from machine import describe as describe_machine
from pytest_compileiq.errors import CompileIQError
from pytest_compileiq.toolchains.base import Place
from pytest_compileiq.toolchains.triton.builder import describe
from pytest_compileiq.toolchains.triton.source import find_kernel

ARCHITECTURE = "sm_90a"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("directory", type=Path)
    parser.add_argument("--device", help="the name of a GPU, as torch gives it")
    parser.add_argument("--jobs", type=int, default=2)
    asked = parser.parse_args()
    root = asked.directory.resolve()
    kernels = list(kernels_in(root))
    with ThreadPoolExecutor(asked.jobs) as threads:
        refusals = Counter(threads.map(partial(refusal, root=root, device=asked.device), kernels))
    print(f"{describe_machine()}, {'with' if find_spec('torch') else 'without'} torch")
    print(f"{refusals.pop('', 0)} of {len(kernels)} kernels are defined")
    for reason, count in refusals.most_common():
        print(f"{count}: {reason}")


def kernels_in(root: Path) -> Iterator[str]:
    """``file.py::function`` of each function that ``@triton.jit`` decorates."""
    for path in sorted(root.rglob("*.py")):
        for node in ast.parse(path.read_bytes()).body:
            decorators = map(ast.unparse, node.decorator_list) if isinstance(node, ast.FunctionDef) else ()
            if any(decorator.partition("(")[0] == "triton.jit" for decorator in decorators):
                yield f"{path.relative_to(root)}::{node.name}"


def refusal(kernel: str, *, root: Path, device: str | None) -> str:
    """Why Triton cannot be told the definition of ``kernel``; empty where it can."""
    place = Place(root, root)
    try:
        describe(replace(find_kernel(kernel, place), device=device), ARCHITECTURE)
    except CompileIQError as error:
        return str(error).replace(kernel, "the kernel")
    return ""


if __name__ == "__main__":
    main()
