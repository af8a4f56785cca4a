"""Triton's driver of a GPU that is not here."""

from __future__ import annotations

import pytest

from pytest_compileiq.errors import MarkerError
from pytest_compileiq.toolchains.triton.torch_stub import TargetDriver


def test_the_driver_answers_for_the_target_and_refuses_what_only_a_gpu_knows():
    driver = TargetDriver("sm_90a", (9, 0))
    assert (driver.get_current_target(), driver.get_device_capability(), driver.get_current_device()) == (
        "sm_90a",
        (9, 0),
        0,
    )
    assert driver.utils.get_device_properties(0)["warpSize"] == 32
    with pytest.raises(MarkerError, match="asks Triton's driver for max_shared_mem, which only a GPU can answer"):
        _ = driver.utils.get_device_properties(0)["max_shared_mem"]
    with pytest.raises(MarkerError, match="asks Triton's driver for launcher_cls, which only a GPU can answer"):
        _ = driver.launcher_cls
