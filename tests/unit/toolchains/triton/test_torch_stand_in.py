"""What takes torch's place where a kernel is defined, and what torch itself is told to answer."""

from __future__ import annotations

import importlib
import sys

import pytest

from pytest_compileiq.errors import MarkerError
from pytest_compileiq.toolchains.triton.torch_stub import (
    StandIn,
    Undecided,
    answer_for_the_target,
    answers_of,
    is_installed,
    stand_in,
)
from tests.files import write_files

INSTALLED = {
    "torch/__init__.py": "from . import cuda, version\n__version__ = '2.14'\n",
    "torch/cuda.py": "def is_available():\n    return False\ndef get_device_name(device=None):\n    raise RuntimeError\n"
    "class get_device_properties:\n    def __init__(self, device):\n        self.major, self.multi_processor_count = 8, 108\n",
    "torch/version.py": "hip = '7.0'\n",
}


@pytest.fixture
def torch() -> StandIn:
    return StandIn("torch", {"torch.cuda.is_available()": True, "torch.version.hip": None})


def test_what_is_read_of_it_can_be_named_called_subclassed_and_be_a_key(torch):
    class Function(torch.autograd.Function):
        pass

    assert {torch.float16: 1, torch.float32: 2}[torch.float16] == 1
    assert torch.float16 == torch.float16
    assert torch.float16 != torch.float32
    assert repr(torch.compile(mode="max")(Function)) == "torch.compile(…)(…)"
    assert (torch.cuda.is_available(), torch.version.hip) == (True, None)


@pytest.mark.parametrize(
    "decide",
    [
        bool,
        int,
        len,
        list,
        str,
        abs,
        "{}".format,
        lambda one: one > 8,
        lambda one: one == "12.4",
        lambda one: one[0],
        lambda one: "a" in one,
        lambda one: 2 * one,
        lambda one: one // 2,
        lambda one: 2**one,
    ],
)
def test_whatever_would_decide_on_what_is_compiled_names_the_package_and_the_remedy(torch, decide):
    with pytest.raises(
        MarkerError, match=r"depends on torch\.version\.cuda, and torch is not installed here: pip install"
    ):
        decide(torch.version.cuda)
    for module in (torch, torch.cuda):
        with pytest.raises(Undecided, match=r"depends on torch[.\w]*\.__version__, and torch is not installed here"):
            _ = module.__version__
    assert not hasattr(torch, "__wrapped__")


def test_the_target_answers_for_its_capability_and_the_marker_for_its_name():
    torch = StandIn("torch", answers_of((9, 0), "NVIDIA H200"))
    assert torch.cuda.get_device_capability(0) == (9, 0)
    assert "H200" in torch.cuda.get_device_name(0)
    properties = torch.cuda.get_device_properties(torch.cuda.current_device())
    assert (properties.warp_size, properties.major, properties.name) == (32, 9, "NVIDIA H200")


def test_the_types_of_an_annotation_may_be_joined(torch):
    assert (torch.Tensor | None) is torch.Tensor and (None | torch.Tensor) is torch.Tensor


@pytest.mark.parametrize(
    ("decide", "remedy"),
    [
        (
            lambda torch: "H" in torch.cuda.get_device_name(0),
            r"get_device_name\(…\), .* Triton\(…, device='NVIDIA H200'\)$",
        ),
        (
            lambda torch: torch.cuda.get_device_properties(0).multi_processor_count > 8,
            r"\.multi_processor_count, which only a GPU can answer: ask for it in the function that launches",
        ),
        (
            lambda torch: f"{torch.cuda.get_device_properties(0).name}",
            r"get_device_properties\(…\)\.name, .* Triton\(…, device='NVIDIA H200'\)$",
        ),
    ],
)
def test_what_only_a_gpu_knows_is_refused_with_what_to_do(decide, remedy):
    with pytest.raises(Undecided, match=remedy) as refused:
        decide(StandIn("torch", answers_of((9, 0), None)))
    assert refused.value.is_of_a_gpu


@pytest.fixture
def installed(tmp_path, monkeypatch):
    for name in [name for name in sys.modules if name.partition(".")[0] == "torch"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setattr(sys, "path", [str(write_files(tmp_path, INSTALLED)), *sys.path])
    yield
    for name in [name for name in sys.modules if name.partition(".")[0] == "torch"]:
        del sys.modules[name]


@pytest.mark.usefixtures("installed")
def test_the_stand_in_comes_before_an_installed_torch_and_goes_again():
    with stand_in({}) as imported:
        assert isinstance(importlib.import_module("torch.nn.functional"), StandIn)
    assert imported == ["torch", "torch.nn", "torch.nn.functional"]
    assert is_installed()
    assert importlib.import_module("torch").__version__ == "2.14"
    with stand_in({}) as imported:
        pass
    assert imported == []


@pytest.mark.usefixtures("installed")
def test_a_module_that_got_hold_of_the_stand_in_goes_with_it(tmp_path):
    write_files(tmp_path, {"holds_torch.py": "import torch.nn as nn\n", "holds_none.py": "import torch\ndel torch\n"})
    with stand_in({}):
        importlib.import_module("holds_torch")
        importlib.import_module("holds_none")
    assert "holds_torch" not in sys.modules
    assert sys.modules.pop("holds_none")


@pytest.mark.usefixtures("installed")
def test_torch_itself_answers_as_the_target_does():
    answer_for_the_target(answers_of((10, 0), "NVIDIA B200"))
    torch = importlib.import_module("torch")
    assert (torch.cuda.is_available(), torch.version.hip, torch.__version__) == (True, None, "2.14")
    assert (torch.cuda.get_device_capability(0), torch.cuda.get_device_name(device=0)) == ((10, 0), "NVIDIA B200")
    properties = torch.cuda.get_device_properties(0)
    assert (properties.warp_size, properties.major, properties.multi_processor_count) == (32, 10, 108)
