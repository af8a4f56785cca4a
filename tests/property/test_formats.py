"""Whatever is written comes back bit for bit; whatever is read either is an artifact or is refused."""

from __future__ import annotations

import contextlib
import tempfile
from dataclasses import replace
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_compileiq.claim import Claim, ClaimedDevice, FleetTable
from pytest_compileiq.errors import StoreError
from pytest_compileiq.model import FLEET, UNIT
from pytest_compileiq.samples import ClockReading, SampleRow
from pytest_compileiq.space import OFF, Space, choice, literal, log_sampling
from pytest_compileiq.space import range as steps
from pytest_compileiq.store.metadata import parse, render
from pytest_compileiq.store.samples import decode_samples, encode_samples
from pytest_compileiq.store.store import Store
from tests.unit.artifacts import CONTROLS, GPUS, TARGET, make_artifact, make_rows, measured_claim, over_devices

QUICK = settings(max_examples=60)
texts = st.text(st.characters(exclude_categories=["Cs", "Cc"]), max_size=40)
clocks = st.builds(
    ClockReading,
    st.none() | st.integers(0, 100_000),
    st.integers(0, 100_000),
    st.sampled_from([(), ("idle", "sync boost")]),
)
rows = st.builds(
    SampleRow, texts, texts, texts, st.integers(0, 999), st.integers(0, 3), st.integers(0, 3),
    st.sampled_from(["baseline", "tuned"]), st.integers(0, 9999), st.floats(-1e30, 1e30), st.booleans(), st.none() | clocks,
    st.sampled_from(["", "GPU-1a2b3c4d-0000", "node-7.rack2"]),
)  # fmt: skip


@QUICK
@given(st.lists(rows, max_size=8))
def test_samples_come_back_bit_for_bit(several):
    several.sort(key=lambda row: (row.device, row.workload, row.objective))  # what is read back is so grouped
    samples = decode_samples(encode_samples(several), "x.csv")
    back = [row for key in samples.measured() for row in samples.rows(key)]
    if len({row.unit for row in several}) == 1:  # one device alone is not named
        several = [replace(row, unit="") for row in several]
    assert back == several
    assert [row.value.hex() for row in back] == [float(row.value).hex() for row in several]


@QUICK
@given(st.binary(max_size=300))
def test_any_bytes_are_samples_or_are_refused(data):
    with contextlib.suppress(StoreError):
        decode_samples(data, "x.csv")


knobs = st.dictionaries(texts.filter(bool), st.one_of(st.booleans(), st.integers(-(2**53), 2**53), texts), max_size=5)


@QUICK
@given(texts, knobs)
def test_metadata_comes_back_equal_and_renders_to_the_same_bytes(text, some):
    artifact = make_artifact(benchmark=text)
    artifact = artifact.model_copy(update={"controls": artifact.controls.model_copy(update={"knobs": some})})
    with tempfile.TemporaryDirectory() as home:
        store = Store(Path(home) / "acf")
        store.write("k", artifact, controls=[CONTROLS], samples=())
        back = store.read("k", TARGET)
        assert back == artifact
        assert render(back) == render(artifact)


gains = st.floats(0.001, 1000)
claimed = st.builds(
    lambda unit, processes, gain, low, high, outlier: ClaimedDevice(
        unit=unit, processes=processes, speedup=gain, speedup_low=low, speedup_high=high, outlier=outlier
    ),
    st.from_regex(UNIT, fullmatch=True), st.integers(4, 1000), gains, gains, gains, st.booleans(),
)  # fmt: skip
over_several = st.lists(claimed, min_size=2, max_size=8, unique_by=lambda device: device.unit)


@QUICK
@given(over_several)
def test_a_claim_over_devices_comes_back_equal_and_renders_to_the_same_bytes(devices):
    fleet = FleetTable(between_sd=0.0, another_low=0.9, another_high=1.2) if len(devices) >= FLEET else None
    named = tuple(sorted(devices, key=lambda device: device.unit))
    claim = Claim(**{**dict(measured_claim("H200")), "devices": named, "fleet": fleet})
    with tempfile.TemporaryDirectory() as home:
        store = Store(Path(home) / "acf")
        written = store.write("k", make_artifact(claims=(claim,)), controls=[CONTROLS], samples=make_rows("H200"))
        back = store.read("k", TARGET)
        assert back == written.artifact and back.claims[0].devices == named and back.claims[0].fleet == fleet
        assert render(back) == render(written.artifact)


@QUICK
@given(st.data())
def test_corrupt_metadata_of_several_devices_is_an_artifact_or_is_refused(data):
    artifact = make_artifact(claims=(over_devices(measured_claim("H200"), *GPUS[:6]),))
    whole = render(artifact)
    position = data.draw(st.integers(whole.index(b"[claims.fleet]"), len(whole) - 1))
    piece = data.draw(st.binary(max_size=4))
    with contextlib.suppress(StoreError):
        parse(whole[:position] + piece + whole[position + 2 :], "x.toml", "restore it")


@QUICK
@given(st.data())
def test_corrupt_metadata_is_an_artifact_or_is_refused(data):
    whole = render(make_artifact())
    position = data.draw(st.integers(0, len(whole) - 1))
    piece = data.draw(st.binary(max_size=4))
    with tempfile.TemporaryDirectory() as home:
        store = Store(Path(home) / "acf")
        store.write("k", make_artifact(), controls=[CONTROLS], samples=())
        store.metadata_path("k", TARGET).write_bytes(whole[:position] + piece + whole[position + 2 :])
        with contextlib.suppress(StoreError):
            store.read("k", TARGET)


probabilities = st.sampled_from([None, 0.0, 0.3, 1.0])
parameters = st.one_of(
    st.builds(
        choice,
        st.lists(st.integers(0, 9), min_size=1, max_size=3, unique=True),
        probabilities,
    ),
    st.builds(literal, st.sampled_from(["", "x", 3]), probabilities),
    st.builds(lambda end, p: steps(0, end, 2, p), st.integers(0, 6), probabilities),
    st.builds(lambda end, p: log_sampling(1, end, 3, p), st.integers(5, 90), probabilities),
)


@st.composite
def spaces(draw):
    names = iter("abcdefghij")
    flat = {next(names): draw(parameters) for _ in range(draw(st.integers(1, 3)))}
    if draw(st.booleans()):
        flat["group"] = {next(names): draw(parameters), "inner": {next(names): draw(parameters)}}
    return Space.from_mapping(flat)


@QUICK
@given(spaces())
def test_points_are_all_of_a_space_and_distinct(space):
    points = list(space.points())
    assert len(points) == space.size == len(set(points))
    assert len({tuple(sorted(space.knobs(point).items(), key=str)) for point in points}) == space.size


@QUICK
@given(spaces(), st.data())
def test_knobs_lie_in_their_space_and_name_their_point(space, data):
    import numpy as np

    point = space.sample(np.random.default_rng(data.draw(st.integers(0, 99))))
    assert space.canonical(point) == point
    assert space.why_not(space.knobs(point)) is None
    again = space.point(space.knobs(point))
    assert space.knobs(again) == space.knobs(point)
    assert space.why_not({**space.knobs(point), "foreign": 1}) is not None
    assert all(index == OFF or index < len(gene.values) for gene, index in zip(space.genes, point, strict=True))
