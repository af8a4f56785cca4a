"""What takes torch's place where it is not installed, and Triton's driver of a GPU that is not here."""

from __future__ import annotations

import pytest

from pytest_compileiq.errors import MarkerError
from pytest_compileiq.toolchains.triton.loader import StandIn, TargetDriver


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
    [bool, int, len, list, lambda one: one > 8, lambda one: one == "12.4", lambda one: one[0], lambda one: "a" in one],
)
def test_whatever_would_decide_on_what_is_compiled_names_the_package_and_the_remedy(torch, decide):
    with pytest.raises(
        MarkerError, match=r"depends on torch\.version\.cuda, and torch is not installed here: pip install"
    ):
        decide(torch.version.cuda)
    with pytest.raises(AttributeError, match=r"torch\.__version__, and torch is not installed here"):
        _ = torch.__version__


def test_the_driver_answers_for_the_target_and_refuses_what_only_a_gpu_knows():
    driver = TargetDriver("sm_90a", (9, 0))
    assert (driver.get_current_target(), driver.get_device_capability(), driver.get_current_device()) == (
        "sm_90a",
        (9, 0),
        0,
    )
    with pytest.raises(MarkerError, match="asks Triton's driver for utils, which only a GPU can answer"):
        _ = driver.utils
