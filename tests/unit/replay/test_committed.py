"""What is read from the store before anything is built on it."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from pytest_compileiq.errors import StoreError
from pytest_compileiq.replay.committed import Integrity, Stop
from pytest_compileiq.store.store import Store
from tests.unit.artifacts import CONTROLS, TARGET, make_artifact


@pytest.mark.parametrize("tuned", [10, 12], ids=["unchanged", "worse"])
def test_an_artifact_of_which_no_claim_is_a_gain_is_corrupt(tmp_path, tuned):
    (claim,) = make_artifact().claims
    artifact = make_artifact(claims=(claim.model_copy(update={"baseline_value": 10, "tuned_value": tuned}),))
    integrity = Integrity(SimpleNamespace(name="k", nodeid="t.py::t"), Store(tmp_path / "acf"))
    with pytest.raises(Stop, match="claims no gain") as stopped:
        integrity.recompute_claims(artifact, None, None)
    assert stopped.value.verdict == "CORRUPT"


def test_controls_of_which_other_classes_are_said_are_corrupt(tmp_path):
    store, parsed = Store(tmp_path / "acf"), SimpleNamespace(parse=lambda *_: CONTROLS)
    store.write("k", make_artifact(classes=("opaque",)), controls=[CONTROLS], samples=())
    integrity = Integrity(SimpleNamespace(name="k", nodeid="t.py::t", builder=parsed), store)
    with pytest.raises(Stop, match="says classes opaque, and its controls have value-safe") as stopped:
        integrity.controls(store.read("k", TARGET))
    assert stopped.value.verdict == "CORRUPT"


def test_the_remedy_is_the_one_of_the_file_that_is_broken_and_said_once(tmp_path):
    store = Store(tmp_path / "acf")
    integrity = Integrity(SimpleNamespace(name="k", nodeid="t.py::t", builder=None), store)
    store.write("k", make_artifact(), controls=[CONTROLS], samples=())
    store.metadata_path("k", TARGET).write_text("x = [")
    with pytest.raises(StoreError) as unreadable:
        store.read("k", TARGET)
    stopped = integrity.corrupt(unreadable.value)
    assert "git checkout" not in str(stopped)
    assert (
        stopped.remedy == f"restore it with git checkout -- acf/k/{TARGET}.toml, or tune anew: pytest --tune {{test}}"
    )
    stopped = integrity.corrupt("it claims no gain")
    assert stopped.remedy == "restore it with git checkout -- acf/k, or tune anew: pytest --tune {test}"
