"""An artifact whose digests an earlier version made: it holds, and --tune-stale-only renews them once."""

from __future__ import annotations

import subprocess

import pytest

from pytest_compileiq.machine_code.cubin import read_cubin
from pytest_compileiq.rules.staleness import proof_of
from pytest_compileiq.store.store import Store
from pytest_compileiq.toolchains.nvidia.tools import installed
from tests import needs
from tests.projects import make_project
from tests.ptx import HEAD, SMALL

TEST_PY = """\
import pytest
from pytest_compileiq import Ptxas, minimize

@pytest.mark.tune(Ptxas("k.ptx", arch="sm_90a"), objectives=[minimize("registers")], space="options")
def test_k(acf):
    acf.build()
"""


@pytest.mark.slow
@needs.ptxas
def test_digests_of_a_former_format_hold_and_are_renewed_once(tmp_path):
    project = make_project(tmp_path / "project", {"k.ptx": HEAD + SMALL, "test_k.py": TEST_PY})
    project.pytest("--tune", "--tune-budget=2", code=0)
    (metadata,) = project.root.glob("acf/*/*.toml")
    program = next(installed("ptxas")).program
    subprocess.run([program, "-arch=sm_90a", "-o", tmp_path / "k.cubin", project.root / "k.ptx"], check=True)
    code = read_cubin(tmp_path / "k.cubin").entries["small"]
    assert code.sha256 in metadata.read_text()
    metadata.write_text(metadata.read_text().replace(code.sha256, code.former[-1]))
    former = metadata.read_bytes()
    store = Store(project.root / "acf")
    proof = proof_of(store.read("k", metadata.stem))
    project.pytest(code=0)
    assert metadata.read_bytes() == former, "a run without --tune wrote"

    assert "are renewed" in project.pytest("--tune", "--tune-stale-only", "-rs", code=0)
    renewed = store.read("k", metadata.stem)
    assert renewed.code["small"].baseline.sha256 == code.sha256
    assert proof_of(renewed) == proof
    assert "are renewed" not in project.pytest("--tune", "--tune-stale-only", "-rs", code=0)
    project.pytest(code=0)
