"""The text of a first benchmark."""

from __future__ import annotations

import ast

import pytest

from pytest_compileiq.cli.first_benchmark import AuthorKnows, FirstBuild, c_benchmark, triton_benchmark
from pytest_compileiq.cli.kernels import look
from pytest_compileiq.machine_code.prototypes import CType, Prototype
from pytest_compileiq.toolchains.cc.marker import Cc

DOUBLE, COUNT = CType("float", 8, is_signed=True), CType("integer", 4, is_signed=True)
ARRAY = CType("array", 8, element="float", is_constant=True)


@pytest.mark.parametrize("arguments", [(("x", DOUBLE),), (("n", COUNT),), (("x", ARRAY), ("n", COUNT))])
def test_c_benchmark_uses_every_name_that_it_imports_or_sets(arguments):
    text, lacking = c_benchmark(Prototype(DOUBLE, arguments), FirstBuild(Cc("f.c"), "f", has_neighbours=False))
    tree = ast.parse(text)
    names = [node for node in ast.walk(tree) if isinstance(node, ast.Name)]
    used = {node.id for node in names if isinstance(node.ctx, ast.Load)}
    imported = {each.asname or each.name for node in tree.body if isinstance(node, ast.ImportFrom | ast.Import)
                for each in node.names}  # fmt: skip
    assert text.splitlines()[1] == "# Written by acf init; yours to edit."
    assert lacking is None and {*imported, *(node.id for node in names if isinstance(node.ctx, ast.Store))} <= used


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ("a_ptr, x_pointer, M, stride_am, n_elements, BLOCK_M: tl.constexpr", ""),
        ("a_ptr, eps", "the type of eps"),
        ("x: unknown_ptr", "the type of x"),
        ("a_ptr, CAUSAL: tl.constexpr", "the value of CAUSAL"),
    ],
)
def test_triton_benchmark_guesses_by_name_and_refuses_the_rest(tmp_path, arguments, told):
    (tmp_path / "k.py").write_text(f"import triton\n@triton.jit\ndef k({arguments}): pass\n")
    (kernel,) = look(tmp_path, frozenset()).kernels
    if told:
        with pytest.raises(AuthorKnows, match=f"only its launch tells {told}: "):
            triton_benchmark(kernel, "k.py")
        return
    text = triton_benchmark(kernel, "k.py")
    assert '"a_ptr": "*fp32:16", "x_pointer": "*fp32:16", "M": "i32", "stride_am": "i32", "n_elements": "i32"' in text
    assert 'constexprs={"BLOCK_M": 1024}' in text
