"""The real cuda-core, cuda-bindings and pynvml under our GPU code, above a driver and an NVML that need no GPU.

The ``cases_*.py`` beside this file are ordinary tests that are run in a process whose ``libcuda.so.1`` is ``libcuda.c``.
"""

from __future__ import annotations

import pytest

from tests import needs
from tests.driver.conftest import HERE

pytestmark = [needs.ptxas, needs.cuda_core]
PYTEST = ("-m", "pytest", *(f"-pno:{plugin}" for plugin in ("cacheprovider", "randomly", "xdist", "hypothesispytest")))
SHOW = """
from pytest_compileiq.errors import NoDevice
from pytest_compileiq.timing.cuda import cuda_device
from pytest_compileiq.timing.cuda_context import L2Cache
for ask in (cuda_device, L2Cache, cuda_device):
    try:
        print(ask())
    except NoDevice as error:
        print("NoDevice:", error)
"""


@pytest.mark.slow
def test_the_clock_the_kernels_and_nvml(above):
    cases = ("checked", "clock", "clocks", "kernels", "nvml", "watch")
    above(*PYTEST, *(str(HERE / f"cases_{name}.py") for name in cases))


def test_a_fault(above):
    above(*PYTEST, str(HERE / "cases_fault.py"))


@pytest.mark.parametrize(
    ("mask", "name", "architecture"), [("1", "Stub A100", "sm_80"), ("0,7", "Stub H200", "sm_90a")]
)
def test_the_device_is_the_first_that_cuda_shows(above, mask, name, architecture):
    first, cache, again = above("-c", SHOW, CUDA_VISIBLE_DEVICES=mask).splitlines()

    assert first == again
    assert f"name='{name}', architecture='{architecture}'" in first
    assert "L2Cache" in cache


@pytest.mark.parametrize("mask", ["", "7"])
def test_no_visible_device_says_what_hides_it_however_often_it_is_asked(above, mask):
    said = above("-c", SHOW, CUDA_VISIBLE_DEVICES=mask).splitlines()

    assert len(said) == 3
    assert all("NoDevice: CUDA shows no device (CUDA_ERROR_NO_DEVICE" in one for one in said)
    assert all(f"CUDA_VISIBLE_DEVICES={mask!r}): see what nvidia-smi -L lists" in one for one in said)
