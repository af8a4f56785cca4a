"""The test of a captured Triton kernel is text that Python reads as what was captured, whatever it is."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from pytest_compileiq.capture.launches import Launch, LaunchedKernel, Ptx, Specialisation
from pytest_compileiq.capture.written_tests import by_ptx, by_source, launched_test

PAGE = Path(__file__).parents[3] / "docs/how-to/capture-triton.md"
FLOATS = "torch.float32[128,1920]"
LAUNCHED = Launch((128,), (FLOATS, FLOATS, 1920, 1920), 30)


def specialisation(**changed) -> Specialisation:
    given = {
        "signature": {"out": "*fp32:16", "x": "*fp32:16", "row_stride": "i32:16", "columns": "i32:16"},
        "constexprs": {"BLOCK": 2048}, "options": {"num_stages": 3, "num_warps": 8}, "capability": 90,
        "ptx_options": None, "ptx": Ptx("0" * 64, 1), "others": 10, "calls": (LAUNCHED,),
    }  # fmt: skip
    return Specialisation(**given | changed)


def kernel(*each: Specialisation) -> LaunchedKernel:
    return LaunchedKernel(1, "softmax", "/p/kernels.py", "kernels", "3.9.0", 1.0, each)


def marker_in(text: str) -> tuple[tuple, dict]:
    """What the only toolchain of a test file is given."""
    (call,) = re.findall(r"^    (?:Triton|Ptxas)\(.*?^    \)", text, re.M | re.S)
    seen = []
    names = {name: lambda *args, **named: seen.append((args, named)) for name in ("Triton", "Ptxas")}
    eval(call.strip(), {"__builtins__": {}, **names})
    return seen[0]


def test_the_page_shows_what_is_written():
    each = specialisation()
    text = launched_test("softmax", kernel(each), [by_source("../kernels.py::softmax", each, {}, "softmax")])
    assert f"```python\n# tests/test_softmax.py\n{text}```" in PAGE.read_text(encoding="utf-8")


@pytest.mark.parametrize(
    "constexprs",
    [
        {"a": None, "b": True, "c": -1.5, "d": 'it\'s "quoted"\n', "e": "tl.float16"},
        {"tile": [64, [32, None]], "single": [1]},
        {f"A_LONG_NAME_{n}": n for n in range(12)},
    ],
)
def test_values_come_back_as_they_were(constexprs):
    each = specialisation(constexprs=constexprs, options={"num_warps": 4, "num_stages": 2, "maxnreg": 64})
    text = launched_test("softmax", kernel(each), [by_source("k.py::f", each, {"num_ctas": 1}, "f")])
    compile(text, "test_softmax.py", "exec")
    assert all(len(line) <= 120 for line in text.splitlines())
    (source,), named = marker_in(text)
    assert source == "k.py::f"
    as_lists = {name: [64, [32, None]] if name == "tile" else [1] if name == "single" else value
                for name, value in named["constexprs"].items()}  # fmt: skip
    assert as_lists == constexprs
    assert named["options"] == {"num_ctas": 1, "maxnreg": 64}
    assert (named["num_warps"], named["num_stages"], named["arch"]) == (4, 2, "sm_90a")


def test_an_option_that_is_a_constexpr_too_is_named_once():
    each = specialisation(constexprs={"num_warps": 8}, options={"num_warps": 8, "num_stages": 3})
    _, named = marker_in(launched_test("f", kernel(each), [by_source("k.py::f", each, {}, "f")]))
    assert named["constexprs"] == {"num_warps": 8}
    assert "num_warps" not in named


def test_what_a_program_says_of_itself_is_never_code():
    call = Launch((1,), ("x[1]\nimport os  # ", 'y"""'), 1)
    each = specialisation(calls=(call,), why="is\ninteresting\r\x1b[2J", capability=100)
    text = launched_test("a b\n'", kernel(each), [by_ptx("k.ptx", each, "entry", each.why)])
    compile(text, "test_a.py", "exec")
    assert "\nimport os" not in text
    assert "\x1b" not in text
    assert 'load()["entry"]' in text
    assert marker_in(text) == (("k.ptx",), {"arch": "sm_100a", "flags": "--regAllocOptLevel=2"})
