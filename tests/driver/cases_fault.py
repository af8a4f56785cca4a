"""A kernel that writes where it may not: one test, since nothing runs in its process afterwards."""

from __future__ import annotations

import numpy as np
import pytest

from pytest_compileiq.errors import BodyError
from pytest_compileiq.timing.cuda import CudaClock, context_is_poisoned
from pytest_compileiq.timing.launching import Launching
from pytest_compileiq.toolchains.nvidia.device_array import DeviceArray


def test_an_illegal_address_names_itself_and_poisons_the_context(cubin, request):
    assert not context_is_poisoned()  # nothing in this process has used the GPU yet

    eager = Launching("eager", all_streams=False, kernel_s=1e-3, eager_ratio=None, why_eager="")
    array, clock, fault = DeviceArray(np.zeros(4)), CudaClock(eager), request.getfixturevalue("kernels").fault
    assert not context_is_poisoned()
    with pytest.raises(Exception, match="CUDA_ERROR_ILLEGAL_ADDRESS"):
        clock.seconds(lambda: fault(1, 32), 1)

    assert context_is_poisoned()
    with pytest.raises(BodyError, match="CUDA_ERROR_ILLEGAL_ADDRESS"):
        array.host()
