"""A recorded call of the right types may still contradict itself; then it is refused before anything is called."""

from __future__ import annotations

import msgspec
import pytest

from pytest_compileiq.capture.bundle import SCHEMA, Bundle, Call, CapturedKernel, fault_in
from pytest_compileiq.errors import UserError

CONTENT = {"kind": "floats", "sha256": "0" * 64, "sample": None}
REGION = {"size": 80, "page_offset": 16, "before": CONTENT, "after": CONTENT}
MEMORY = {"region": 0, "offset": 0, "dtype": "<f8", "extents": [10], "strides": [8]}
NUMBER = {"code": "l", "value": "0a00000000000000"}


def call(memory=MEMORY, region=REGION, number=NUMBER, result=None, regions=1) -> Call:
    told = {
        "number": 1,
        "arguments": [{"number": None, "memory": memory}, {"number": number, "memory": None}],
        "regions": [region] * regions,
        "result": result,
    }
    return msgspec.convert(told, Call)


@pytest.mark.parametrize(
    "changed",
    [
        {"memory": MEMORY | {"dtype": "<f8\n"}},
        {"number": NUMBER | {"code": "l\n"}},
        {"number": NUMBER | {"value": NUMBER["value"] + "\n"}},
        {"region": REGION | {"before": CONTENT | {"sha256": "0" * 64 + "\n"}}},
        {"region": REGION | {"before": CONTENT | {"sha256": None, "sample": "00\n"}}},
    ],
)
def test_recorded_call_text_with_newline_is_refused(changed):
    with pytest.raises(msgspec.ValidationError):
        call(**changed)


@pytest.mark.parametrize(
    "memory",
    [
        {},
        {"offset": 72, "strides": [-8]},
        {"extents": [0], "offset": 80},
        {"extents": [2, 5], "strides": [40, 8]},
        {"extents": [], "strides": []},
    ],
)
def test_what_lies_within_its_region_is_taken(memory):
    assert fault_in(call(memory=MEMORY | memory)) is None


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"memory": MEMORY | {"offset": 1}}, "argument 1 reaches out of its region"),
        ({"memory": MEMORY | {"strides": [9]}}, "argument 1 reaches out of its region"),
        ({"memory": MEMORY | {"strides": [-8]}}, "argument 1 reaches out of its region"),
        ({"memory": MEMORY | {"strides": [8, 8]}}, "argument 1 reaches out of its region"),
        ({"memory": MEMORY | {"extents": [-1]}}, "argument 1 reaches out of its region"),
        ({"regions": 2}, "region 1 is reached by no argument"),
        ({"regions": 0}, "argument 1 is in region 0, which is not there"),
        ({"number": {"code": "l", "value": "0a"}}, "0a is no number of type l"),
        ({"result": {"code": "g", "value": "0a" * 8}}, "0a0a0a0a0a0a0a0a is no number of type g"),
        ({"region": REGION | {"after": CONTENT | {"sha256": None}}}, "a region is neither kept nor sampled as floats"),
        ({"region": REGION | {"after": CONTENT | {"sample": "00"}}}, "a region is neither kept nor sampled as floats"),
        ({"region": REGION | {"after": {"kind": "integers", "sha256": None, "sample": "00"}}}, "a region is neither kept nor"),
    ],
)  # fmt: skip
def test_what_contradicts_itself_is_refused(changed, said):
    assert fault_in(call(**changed)).startswith(said)


def test_write_into_a_directory_of_the_program_is_refused(tmp_path):
    with pytest.raises(UserError, match="is there already"):
        Bundle(tmp_path).write({"f": CapturedKernel(SCHEMA, "f", "f.so", None, 1.0, ())}, tmp_path)
    assert not list(tmp_path.iterdir())
