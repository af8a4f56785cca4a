"""A proof over the devices of a real cluster: its claim names them, and each of them can be asked again.

The nodes are on one machine, and tell their names themselves.
"""

from __future__ import annotations

import csv
import json
import tomllib

import pytest

from tests import needs
from tests.cluster.clusters import real_cluster
from tests.examples import KERNEL_C, KERNEL_H, TEST_PY
from tests.projects import make_project

MACHINES = ("machine-0", "machine-1", "machine-2")


@pytest.fixture
def three_nodes(monkeypatch):
    """The address of a cluster of three nodes, each of which says that it is a machine of its own."""
    with real_cluster(0) as cluster:
        for machine in MACHINES:
            cluster.add_node(env_vars={"ACF_MACHINE": machine})
        for name, value in cluster.environment.items():
            monkeypatch.setenv(name, value)
        yield cluster.address


@needs.ray
def test_a_gain_that_is_proven_on_three_machines_is_claimed_on_these_and_asked_again_on_each(
    tmp_path, three_nodes, monkeypatch
):
    made = make_project(tmp_path / "project", {"kernel.c": KERNEL_C, "kernel.h": KERNEL_H, "test_kernel.py": TEST_PY})
    output = made.pytest("--tune", "--tune-budget=6", f"--tune-on={three_nodes}", code=0)
    assert ", on these 3 devices" in output, output
    (claim,) = tomllib.loads(made.one("acf/kernel/*.toml").read_text())["claims"]
    assert [device["unit"] for device in claim["devices"]] == list(MACHINES)
    assert {device["processes"] for device in claim["devices"]} == {claim["test"]["processes"] // 3}
    samples = csv.DictReader(made.one("acf/kernel/*.csv").read_text().splitlines())
    assert {row["unit"] for row in samples} == set(MACHINES)
    assert "1 claim recomputed, 0 problems" in made.acf("check")
    for machine, of_device in (("machine-1", "this is machine-1 of them"), ("machine-7", "; this is another")):
        monkeypatch.setenv("ACF_MACHINE", machine)
        made.pytest("--acf-report=report.json", code=0)
        (item,) = json.loads((made.root / "report.json").read_text())["items"]
        assert item["verdict"] == "PROVEN" and of_device in item["message"]
