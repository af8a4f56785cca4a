"""What an entry of a built file is found to be."""

from __future__ import annotations

from pathlib import Path

import pytest

from pytest_compileiq.ship.verify import Match, compare
from pytest_compileiq.toolchains.machine_code.binaries import Contents, Kernel
from tests.unit.artifacts import make_artifact


@pytest.mark.parametrize("is_separate", [True, False])
def test_compare_code_of_neither_arm_says_that_it_is_relocatable(is_separate):
    target = "sm_90a-nvcc13.3"
    kernel = Kernel(Path("k.so"), "sm_90a", "k", "0" * 64, is_separate=is_separate)
    found = compare(Contents((kernel,)), {("k", target): make_artifact(target=target)}, "k.so", named=False)
    (finding,) = found.findings
    assert finding.verdict is Match.DIFFERS
    assert finding.what == f"neither proven arm of k ({target}){'; other code: -rdc' if is_separate else ''}"
