"""The toolchain of captured kernels keeps the promises of all toolchains, and a replay those of a record."""

from __future__ import annotations

import json
import shutil

import msgspec
import pytest

from pytest_compileiq import Captured
from pytest_compileiq.capture.bundle import Call, fitting
from pytest_compileiq.errors import MarkerError, StoreError
from pytest_compileiq.testing import ToolchainConformance
from pytest_compileiq.toolchains.base import Place
from tests.files import write_files

pytestmark = pytest.mark.skipif(shutil.which("gcc") is None, reason="no gcc: apt-get install gcc")

NUMBER = {"code": "i", "value": "03000000"}
CALL = {
    "number": 1,
    "arguments": [{"number": NUMBER, "memory": None}],
    "regions": [],
    "result": {"code": "i", "value": "06000000"},
}
KERNEL = {
    "schema": 1, "function": "twice", "library": "gone.so", "library_sha256": None, "share": 0.5,
    "shapes": [{"shape": [3], "calls": 9, "own_ns": 5, "kept": [CALL]}],
}  # fmt: skip
SOURCE = "int twice(int n) { int sum = 0; for (int i = 0; i < n; i++) sum += 2; return sum; }\n"
FILES = {"kernels/twice.c": SOURCE, "kernels/acf-capture/twice/kernel.json": json.dumps(KERNEL)}


class TestCaptured(ToolchainConformance):
    files = FILES
    test_dir = "kernels"
    knobs = ({"-O": 3}, {"-O": 1, "-funroll-loops": ""})
    broken = {"kernels/twice.c": "} no compiler takes this {\n"}  # noqa: RUF012

    def make(self) -> Captured:
        return Captured("acf-capture/twice", "twice.c", flags="-O2 -march=x86-64")


def test_captured_sum_beyond_its_bound_is_refused_before_memory_is_taken(tmp_path):
    zeros = {"kind": "integers", "sha256": "0" * 64, "sample": None}
    region = {"size": 256 << 20, "page_offset": 0, "before": zeros, "after": zeros}
    regions = [region] * 8
    arguments = [
        {"number": None, "memory": {"region": at, "offset": 0, "dtype": "|u1", "extents": [], "strides": []}}
        for at in range(len(regions))
    ]
    call = CALL | {"arguments": arguments, "regions": regions}
    shape = {"shape": [3], "calls": 9, "own_ns": 5, "kept": [call]}
    with pytest.raises(StoreError, match=r"kernel\.json: the calls of a shape take 2415919104 bytes, and at most 2147"):
        loaded(tmp_path, shapes=[shape])
    kept = fitting([msgspec.convert(call | {"regions": [region] * 4, "arguments": arguments[:4]}, Call)] * 3)
    assert len(kept) == 1, "acf capture keeps as many calls as can be made again together"


def loaded(root, **changed):
    write_files(root, FILES | {"kernels/acf-capture/twice/kernel.json": json.dumps(KERNEL | changed)})
    builder = Captured("acf-capture/twice", "twice.c").resolve(Place(root / "kernels", root))
    return builder.load(builder.build(None, root / "out", timeout_s=60), set())


def test_a_recorded_call_is_made_again_without_the_program(tmp_path):
    kernel = loaded(tmp_path)
    assert kernel.shapes == [(3,)]
    assert kernel.call()() == 6
    kernel.check()


def test_the_calls_of_a_shape_are_made_in_turn(tmp_path):
    numbers = ["03000000", "05000000", "08000000"]
    kept = [
        CALL | {"arguments": [{"number": NUMBER | {"value": given}, "memory": None}], "result": None}
        for given in numbers
    ]
    results = [{"code": "i", "value": f"{int(given[:2]) * 2:02x}000000"} for given in numbers]
    kept = [call | {"number": at + 1, "result": results[at]} for at, call in enumerate(kept)]
    call = loaded(tmp_path, shapes=[KERNEL["shapes"][0] | {"kept": kept}]).call()
    made = [call()]
    call.check()
    for _ in range(3):
        call.reset()
        made.append(call())
        call.check()
    assert made == [6, 10, 16, 6]


def test_another_result_is_a_failed_assertion(tmp_path):
    other = CALL | {"result": {"code": "i", "value": "07000000"}}
    kernel = loaded(tmp_path, shapes=[KERNEL["shapes"][0] | {"kept": [other]}])
    with pytest.raises(
        AssertionError, match="twice, call 1: the result differs from the record in 1 of 1 values, the first"
    ):
        kernel.check(rtol=1.0)


def test_a_function_that_differs_from_itself_is_called_nondeterministic_with_the_least_tolerance(tmp_path):
    noisy = "double noisy(double x) { static int n; return x + 1e-9 * n++; }\n"
    one = {"code": "d", "value": "000000000000f03f"}
    call = CALL | {"arguments": [{"number": one, "memory": None}], "result": one}
    files = {
        "noisy.c": noisy,
        "acf-capture/noisy/kernel.json": json.dumps(
            KERNEL | {"function": "noisy", "shapes": [KERNEL["shapes"][0] | {"kept": [call]}]}
        ),
    }
    write_files(tmp_path, files)
    builder = Captured("acf-capture/noisy", "noisy.c").resolve(Place(tmp_path, tmp_path))
    kernel = builder.load(builder.build(None, tmp_path / "out", timeout_s=60), set())
    said = "the same call before, so it is nondeterministic, in 1 of 1 values.*the largest relative difference is 1e-09"
    with pytest.raises(AssertionError, match=said):
        kernel.check()
    kernel.check(rtol=1e-8)


STEADY, JITTERS = "return x;", "static int n; return x + {size} * (n++ % 2);"


def beside(root, body: str, baseline: str):
    """A recorded ``double f(double)`` that returned its argument, of ``body``, beside a baseline of its own."""
    one = {"code": "d", "value": "000000000000f03f"}
    call = CALL | {"arguments": [{"number": one, "memory": None}], "result": one}
    record = KERNEL | {"function": "f", "shapes": [KERNEL["shapes"][0] | {"kept": [call]}]}
    write_files(root, {"acf-capture/f/kernel.json": json.dumps(record)})
    built = []
    for name, text in (("tuned", body), ("baseline", baseline)):
        write_files(root, {"f.c": f"double f(double x) {{ {text} }}\n"})
        builder = Captured("acf-capture/f", "f.c").resolve(Place(root, root))
        built.append(builder.build(None, root / name, timeout_s=60))
    return builder.load_beside(built[0], set(), lambda: built[1])


def test_what_the_baseline_differs_from_itself_is_the_least_tolerance(tmp_path):
    jitters = JITTERS.format(size="1e-12")
    kernel = beside(tmp_path, jitters, jitters)
    kernel.check()
    call = kernel.call()
    for _ in range(2):
        call()
        call.check()
    wrong = beside(tmp_path / "wrong", "return x + 1e-11;", jitters)
    with pytest.raises(AssertionError, match="differs from the record in 1 of 1 values beyond rtol=0, atol=4"):
        wrong.check()


def test_a_candidate_gives_itself_no_tolerance(tmp_path):
    kernel = beside(tmp_path, JITTERS.format(size="1e-12"), STEADY)
    with pytest.raises(AssertionError, match="differs from the same call before, so it is nondeterministic, in 1 of 1"):
        kernel.check()


def test_a_baseline_that_differs_beyond_its_type_is_nondeterministic_and_sets_no_tolerance(tmp_path):
    jitters = JITTERS.format(size="1e-6")
    kernel = beside(tmp_path, jitters, jitters)
    with pytest.raises(
        AssertionError, match="differs from itself by 1e-06 of its largest value, beyond 1e-07, the prec"
    ):
        kernel.check()
    kernel.check(rtol=1e-5)


def test_nothing_to_compare_is_no_pass(tmp_path):
    kernel = loaded(tmp_path, shapes=[KERNEL["shapes"][0] | {"kept": []}])
    with pytest.raises(StoreError, match="no call of twice was recorded exactly"):
        kernel.check()
    with pytest.raises(StoreError, match="no call on shape 0 is recorded exactly"):
        kernel.call()
    silent = loaded(tmp_path, shapes=[KERNEL["shapes"][0] | {"kept": [CALL | {"result": None}]}])
    with pytest.raises(StoreError, match="no recorded call of twice changes memory or has a result"):
        silent.check()
    with pytest.raises(StoreError, match="captured with 1 shapes, and there is no 4"):
        kernel.call(4)


def test_other_data_are_another_source(tmp_path):
    write_files(tmp_path, FILES)
    builder = Captured("acf-capture/twice", "twice.c").resolve(Place(tmp_path / "kernels", tmp_path))
    assert set(builder.sources()) == set(FILES)
    recorded = builder.data
    (shape,) = KERNEL["shapes"]
    path = tmp_path / "kernels/acf-capture/twice/kernel.json"
    path.write_text(json.dumps(KERNEL | {"share": 0.6, "shapes": [shape | {"own_ns": 7, "calls": 10}]}))
    assert builder.data == recorded  # another time of the same calls
    path.write_text(json.dumps(KERNEL | {"shapes": [shape | {"kept": [CALL | {"result": NUMBER}]}]}))
    assert builder.data != recorded and builder.data.keys() == recorded.keys()


def test_a_record_outside_the_project_is_refused(tmp_path):
    write_files(tmp_path, FILES | {"inner/twice.c": SOURCE})
    with pytest.raises(MarkerError, match="lies outside the project"):
        Captured("../kernels/acf-capture/twice", "twice.c").resolve(Place(tmp_path / "inner", tmp_path / "inner"))
