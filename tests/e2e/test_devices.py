"""Claims over several devices in a real project: recomputed, shown, reviewed, and refused where somebody bent them.

The devices are made up: the samples of one proof are dealt to several, and proven again by the gate.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable
from dataclasses import replace

import pytest

from pytest_compileiq.claim import Claim, ClaimedDevice
from pytest_compileiq.rules.evidence import gather, summarise
from pytest_compileiq.rules.gate import judge_gain
from pytest_compileiq.rules.recompute import recorded_thresholds
from pytest_compileiq.samples import SampleRow
from pytest_compileiq.store.store import Store
from tests.projects import Project
from tests.repository import git

pytestmark = pytest.mark.slow

UNITS = ("GPU-0a2b3c4d-0000-1111-2222-333344445555", "GPU-1a2b3c4d-0000-1111-2222-333344445555")


ONE_SAMPLE = dict.fromkeys(("first", "second", "gap_s"))


def claimed_over(claim: Claim, rows: list[SampleRow]) -> Claim:
    """``claim`` as a proof of one sample, ``rows``, would have written it."""
    evidence = gather(rows, "minimize")
    decision = judge_gain(evidence, recorded_thresholds(claim), level=claim.test.level, seed=claim.test.seed)
    numbers = ("speedup", "speedup_low", "speedup_high", "p_value", "cohens_d")
    return Claim(**{
        **dict(claim), **{name: getattr(decision, name) for name in numbers},
        "test": claim.test.model_copy(update={**ONE_SAMPLE, "processes": evidence.processes, "flips": decision.flips}),
        "baseline": summarise(evidence.baseline), "tuned": summarise(evidence.tuned),
        "devices": tuple(map(ClaimedDevice.of, decision.devices)),
    })  # fmt: skip


@pytest.fixture
def on_two(tuned: Project) -> Project:
    """The tuned project with its claim over two devices."""
    store = Store(tuned.root / "acf")
    ((name, target),) = store.artifacts()
    artifact = store.read(name, target)
    ((claim, table),) = store.read_samples(name, artifact)
    rows = [replace(row, unit=UNITS[row.process % 2]) for row in table]
    several = artifact.model_copy(update={"claims": (claimed_over(claim, rows),)})
    store.write(name, several, controls=[store.read_controls(name, artifact)], samples=rows)
    return tuned


def rewrite_samples(project: Project, change: Callable[[list[str]], list[str]]) -> None:
    """Change the lines behind the header consistently, as an attacker would: every digest matches."""
    samples, metadata = project.one("acf/kernel/*.csv"), project.one("acf/kernel/*.toml")
    header, *lines = samples.read_text().splitlines(keepends=True)
    data = "".join([header, *change(lines)]).encode()
    digest = hashlib.sha256(data).hexdigest()[:8]
    new = samples.with_name(re.sub(r"[0-9a-f]{8}\.csv$", f"{digest}.csv", samples.name))
    samples.unlink()
    new.write_bytes(data)
    metadata.write_text(metadata.read_text().replace(samples.name, new.name))


def rewrite_claim(project: Project, pattern: str, text: str) -> None:
    metadata = project.one("acf/kernel/*.toml")
    changed, count = re.subn(pattern, text, metadata.read_text(), count=1, flags=re.DOTALL)
    assert count
    metadata.write_text(changed)


def test_a_claim_over_devices_is_recomputed_shown_and_replayed(on_two):
    assert "1 claim recomputed, 0 problems" in on_two.acf("check", code=0)
    shown = on_two.acf("show", "kernel", code=0)
    assert "on these 2 devices" in shown and re.search(r"GPU-0a2b3c4d \d\.\d{3}x faster, .*, \d+ processes", shown)
    output = on_two.pytest("--acf-report=report.json", "--acf-html=page.html", code=0)
    (item,) = json.loads((on_two.root / "report.json").read_text())["items"]
    assert "claimed on 2 devices; this is another" in item["message"], output
    assert item["verdict"] == "PROVEN" and item["results"][0]["devices"] == []
    assert "Results by device" in (on_two.root / "page.html").read_text()
    replayed = on_two.pytest("--acf-check=replay", code=0)
    assert "recorded: runtime at least" in replayed and ", on these 2 devices" in replayed


def test_this_machine_is_known_by_the_name_that_it_is_given(on_two, monkeypatch):
    rewrite_claim(on_two, f'(unit = )"{UNITS[0]}"', r'\1"node-7"')
    rewrite_claim(on_two, f'(unit = )"{UNITS[1]}"', r'\1"node-8"')
    names = dict(zip(UNITS, ("node-7", "node-8"), strict=True))
    rewrite_samples(
        on_two, lambda lines: [re.sub(r"GPU-[-0-9a-f]+", lambda unit: names[unit[0]], line) for line in lines]
    )
    monkeypatch.setenv("ACF_MACHINE", "node-8")
    on_two.pytest("--acf-report=report.json", code=0)
    (item,) = json.loads((on_two.root / "report.json").read_text())["items"]
    assert "claimed on 2 devices, this is node-8 of them" in item["message"]


def of(unit: str) -> Callable[[str], bool]:
    return lambda line: f",{unit}," in line


ATTACKS: dict[str, tuple[Callable[[Project], None], str]] = {
    "the rows of a device are dropped": (
        lambda project: rewrite_samples(project, lambda lines: [line for line in lines if not of(UNITS[1])(line)]),
        "its samples are of one device",
    ),
    "the devices are dropped": (
        lambda project: rewrite_claim(project, r"\[\[claims\.devices\]\].*?(?=\n\[[a-z])", ""),
        "it is about one device, and its samples are of GPU-0a2b3c4d",
    ),
    "one device is dropped": (
        lambda project: rewrite_claim(project, r"\[\[claims\.devices\]\].*?(?=\[\[claims\.devices\]\])", ""),
        "it names one",
    ),
    "a device is renamed in the claim alone": (
        lambda project: rewrite_claim(project, UNITS[1], "GPU-9"),
        "it is about GPU-0a2b3c4d-0000-1111-2222-333344445555, GPU-9, and its samples are of",
    ),
    "processes are moved from one device to the other": (
        lambda project: rewrite_samples(
            project, lambda lines: [line.replace(UNITS[1], UNITS[0]) if ",runtime,1,0," in line else line for line in lines]
        ),
        "ran on two devices",
    ),
    "a few processes are made a third device": (
        lambda project: rewrite_samples(
            project, lambda lines: [line.replace(UNITS[1], "GPU-9") if ",runtime,1," in line else line for line in lines]
        ),
        "its samples are of GPU-0a2b3c4d",
    ),
    "a gain is put in for a device": (
        lambda project: rewrite_claim(project, r"(unit = \"GPU-1[^\n]*\nprocesses = \d+\nspeedup = )[0-9.]+", r"\g<1>9.9"),
        "devices.1.speedup = 9.9",
    ),
    "an outlier is made up": (
        lambda project: rewrite_claim(project, r"(unit = \"GPU-1[^\n]*\nprocesses = \d+)", r"\1\noutlier = true"),
        "other outliers",
    ),
    "a fleet is made up": (
        lambda project: rewrite_claim(
            project, r"\[\[claims\.devices\]\]", "[claims.fleet]\nbetween_sd = 0.0\nanother_low = 2.0\nanother_high = 3.0\n\n[[claims.devices]]"
        ),
        "from 5 of them on",
    ),
    "a device is called by a control character": (
        lambda project: rewrite_claim(project, UNITS[1], "GPU-\\\\u001b[2J"),
        "unit = ",
    ),
    "a device of the samples is called by one": (
        lambda project: rewrite_samples(project, lambda lines: [line.replace(UNITS[1], "../x") for line in lines]),
        "is no name of a device",
    ),
}  # fmt: skip


@pytest.mark.parametrize("what", ATTACKS)
def test_a_claim_that_somebody_bent_is_refused_in_a_sentence(on_two, what):
    attack, reason = ATTACKS[what]
    attack(on_two)
    checked = on_two.acf("check", code=1)
    assert reason in checked, checked
    output = on_two.pytest("--acf-check=replay", code=1)
    assert "CORRUPT" in output and "Traceback" not in output


def test_a_review_is_told_that_a_claim_speaks_for_fewer_devices(on_two):
    git(on_two.root, "init", "-q", "-b", "main")
    git(on_two.root, "add", "-A")
    git(on_two.root, "commit", "-qm", "on two devices")
    store = Store(on_two.root / "acf")
    ((name, target),) = store.artifacts()
    artifact = store.read(name, target)
    ((claim, table),) = store.read_samples(name, artifact)
    rows = [replace(row, unit="") for row in table]
    alone = artifact.model_copy(update={"claims": (claimed_over(claim, rows),)})
    store.write(name, alone, controls=[store.read_controls(name, artifact)], samples=rows)
    told = on_two.acf("diff", "main", code=0)
    assert "was on these 2 devices, now on one" in told and "no longer on GPU-0a2b3c4d, GPU-1a2b3c4d" in told
    assert "**worse**" in on_two.acf("diff", "main", "--format=markdown", code=0)
