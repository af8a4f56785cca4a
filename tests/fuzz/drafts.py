"""One artifact whose parts still know their structure: parsed metadata, samples as rows. A change to a draft can make digests,
names and claims fit again, so that what lies behind those checks is reached.
"""

import contextlib
import copy
import hashlib
import random
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import tomli
import tomli_w

from pytest_compileiq.artifact import Controls, FrontPoint
from pytest_compileiq.claim import Claim
from pytest_compileiq.rules.claims import direction_of
from pytest_compileiq.rules.evidence import gather, summarise
from pytest_compileiq.rules.gate import judge_gain
from pytest_compileiq.rules.recompute import recorded_thresholds
from pytest_compileiq.samples import ClockReading, SampleRow
from pytest_compileiq.store.metadata import controls_file_name, render, samples_file_name
from pytest_compileiq.store.samples import decode_samples, encode_samples
from tests.fuzz.trees import Tree
from tests.unit.artifacts import CONTROLS, TARGET, make_artifact

EXAMPLES = Path(__file__).parents[1] / "data" / "schema-1" / "acf"
BLOB = bytes(range(256)) * 5

Content = dict[str, Any]


@dataclass
class Draft:
    """One artifact in parts that still know their structure.

    Attributes:
        name, target: where the metadata lies.
        content: the metadata, parsed.
        controls: the controls file, or None.
        rows: the samples; None where there is no samples file.
        spoil: changes to the metadata's bytes, once it is text.
        spoil_samples: changes to the samples file's bytes, before it is named by its digest.
    """

    name: str
    target: str
    content: Content
    controls: bytes | None = None
    rows: list[SampleRow] | None = None
    spoil: list[Callable[[bytes], bytes]] = field(default_factory=list)
    spoil_samples: list[Callable[[bytes], bytes]] = field(default_factory=list)


def _exact() -> Draft:
    return Draft("kernel", TARGET, tomli.loads(render(make_artifact()).decode()), CONTROLS)


def _measured() -> Draft:
    (path,) = (EXAMPLES / "stencil").glob("*.toml")
    content = tomli.loads(path.read_text())
    samples = decode_samples((path.parent / content["claims"][0]["samples"]).read_bytes(), "samples")
    rows = [row for key in samples.measured() for row in samples.rows(key)]
    return Draft("kernel", path.stem, content, (path.parent / content["controls"]["file"]).read_bytes(), rows)


def _two_claims() -> Draft:
    draft = _measured()
    assert draft.rows is not None
    draft.content["claims"].append(
        copy.deepcopy(draft.content["claims"][0]) | {"objective": "throughput", "direction": "maximize"}
    )
    draft.rows += [replace(row, objective="throughput", value=1 / row.value) for row in draft.rows]
    return draft


def _on_a_gpu() -> Draft:
    """A claim under the conditions of a GPU's clock, whose samples hold its clocks."""
    draft = _measured()
    assert draft.rows is not None
    draft.content["claims"][0]["conditions"] = {
        "launch": "graph", "l2": "flush", "all_streams": False, "empty_s": 2e-6, "eager_ratio": 1.5, "diluted": True,
        "locked_mhz": 1500, "warm_up_s": 0.2, "settled": True, "baseline_mhz": 1980, "tuned_mhz": 1950,
        "memory_mhz": 3201, "held_by": ["software power cap"],
    }  # fmt: skip
    draft.rows = [replace(row, clocks=ClockReading(1980 - row.quad, 3201, ("idle",) * row.slot)) for row in draft.rows]
    return draft


def _blob(compiler: str, target: str, knobs: Content) -> Draft:
    made = make_artifact(
        target=target,
        controls=Controls(
            kind="blob", file=controls_file_name(target, BLOB), sha256=hashlib.sha256(BLOB).hexdigest(), size_bytes=len(BLOB), knobs=knobs
        ),
    )  # fmt: skip
    content = tomli.loads(render(made).decode())
    content["compiler"] |= {"name": compiler, "version": "13.3", "build": f"{compiler} 13.3.73"}
    return Draft("kernel", target, content, BLOB)


def _outcome(outcome: str) -> Draft:
    draft = _exact()
    draft.content |= {"outcome": outcome, "reason": "wrong on odd sizes"}
    if outcome == "baseline":
        del draft.content["controls"], draft.content["claims"]
    if outcome == "promoted":
        del draft.content["claims"]
    return draft


def _front() -> Draft:
    made = make_artifact()
    assert made.controls is not None
    points = tuple(
        FrontPoint(controls=made.controls, metrics={"runtime": 0.5 + n / 8, "code_bytes": 2.0 - n / 8})
        for n in range(4)
    )
    return Draft("kernel", TARGET, tomli.loads(render(made.model_copy(update={"front": points})).decode()), CONTROLS)


BASES: tuple[Callable[[], Draft], ...] = (
    _exact,
    _measured,
    _measured,
    _two_claims,
    _on_a_gpu,
    lambda: _blob("ptxas", "sm_90a-ptxas13.3", {}),
    lambda: _blob("nvcc", "sm_90a.sm_100a-nvcc13.3", {"-maxrregcount=": 64}),
    lambda: _blob("triton", "sm_90a-triton3.9.ptxas13.3", {"num_warps": 8}),
    lambda: _outcome("baseline"),
    lambda: _outcome("retired"),
    lambda: _outcome("promoted"),
    _front,
)


def finished(pick: random.Random, draft: Draft) -> Tree:
    """The files of a draft; mostly its claims are made to fit its samples again, so that they are not the first to fail."""
    files: dict[bytes, Any] = {}
    folder = draft.name.encode() + b"/"
    if draft.rows is not None:
        if pick.random() < 0.8:
            with contextlib.suppress(Exception), warnings.catch_warnings():
                warnings.simplefilter("ignore")
                _sign_claims(draft)
        data = encode_samples(draft.rows)
        for spoil in draft.spoil_samples:
            data = spoil(data)
        file = samples_file_name(draft.target, data)
        files[folder + file.encode()] = data
        if pick.random() < 0.9:
            _name_samples(draft, file)
    if draft.controls is not None:
        files[folder + controls_file_name(draft.target, draft.controls).encode()] = draft.controls
    files[folder + draft.target.encode() + b".toml"] = _text(pick, draft)
    return Tree(files)


def _text(pick: random.Random, draft: Draft) -> bytes:
    try:
        data = tomli_w.dumps(draft.content).encode()
    except (TypeError, ValueError, AttributeError):  # what no TOML can hold: text of another kind
        data = repr(draft.content)[:10_000].encode("utf-8", "replace")
    for spoil in draft.spoil:
        data = spoil(data)
    return data


def _name_samples(draft: Draft, file: str) -> None:
    claims = draft.content.get("claims")
    for claim in claims if isinstance(claims, list) else []:
        if isinstance(claim, dict) and "samples" in claim:
            claim["samples"] = file


def _sign_claims(draft: Draft) -> None:
    for content in draft.content["claims"]:
        claim = Claim.model_validate(content)
        if claim.test is None or claim.kind != "gain" or claim.test.flips * claim.test.processes > 1 << 22:
            continue
        key = claim.device, claim.workload, claim.objective
        rows = [row for row in draft.rows or [] if (row.device, row.workload, row.objective) == key]
        evidence = gather(rows, direction_of(claim))
        decision = judge_gain(
            evidence, recorded_thresholds(claim), level=claim.test.level, seed=claim.test.seed, flips=claim.test.flips
        )
        numbers = ("speedup", "speedup_low", "speedup_high", "p_value", "cohens_d")
        content |= {name: getattr(decision, name) for name in numbers}
        content |= {arm: summarise(getattr(evidence, arm)).model_dump() for arm in ("baseline", "tuned")}
        content["test"]["processes"] = evidence.processes
