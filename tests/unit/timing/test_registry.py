"""Which device runs what was built."""

from __future__ import annotations

import pytest
from msgspec import structs

from pytest_compileiq.timing import registry


@pytest.mark.parametrize(
    ("built_for", "runs"), [("sm_90", True), ("sm_90a", True), ("sm_100a", False), ("sm_103", False)]
)
def test_code_for_another_architecture_does_not_run_here(monkeypatch, built_for, runs):
    gpu = structs.replace(registry.find_device("cpu"), name="a GPU", architecture="sm_90a")
    monkeypatch.setattr(registry, "find_device", lambda kind: gpu)
    told = None if runs else f"it is compiled for {built_for}; this machine has a GPU (sm_90a)"
    assert registry.why_not_here("cuda", built_for) == told
