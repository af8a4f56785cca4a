"""A page with every verdict and every part, from texts that a test chooses."""

from __future__ import annotations

import random

from pytest_compileiq.artifact import (
    Artifact,
    CodePair,
    CodeTable,
    CompilerTable,
    Controls,
    FingerprintTable,
    FrontPoint,
    Provenance,
)
from pytest_compileiq.claim import Claim, DecisionRecord, Summary
from pytest_compileiq.outcome import Check, ItemReport, RunReport, Verdict
from pytest_compileiq.report.claims import results_of
from pytest_compileiq.report.committed import ChartedArtifact
from pytest_compileiq.report.html.charts import ChartedSlot
from tests.unit.artifacts import make_artifact

HOSTILE = "</script></style></title></svg><img src=x onerror=alert(1)>'\"&amp;\x1b[31m\u202e\ud800\n<b>"
VERDICTS = sorted(Verdict, key=lambda verdict: (verdict.tone != "bad", verdict))
DEVICE = "AMD EPYC (cpu family 26, model 2, stepping 1)"


def make_slots(processes: int = 8, *, seed: int = 1, drift: float = 0.004) -> list[ChartedSlot]:
    """ABBA quads of a kernel 1.4 times as fast when tuned, on a machine that slows down, with a heavy tail."""
    source = random.Random(seed)
    slots = []
    for process in range(processes):
        level = 1.1e-4 * (1 + drift * process) * source.gauss(1, 0.002)
        for _ in range(4):
            lost = source.random() < 0.02
            for arm in ("baseline", "tuned", "tuned", "baseline"):
                noise = 1 + source.expovariate(100) + (source.random() < 0.03) * 0.5
                slots.append(ChartedSlot(process, arm, level * noise / (1.4 if arm == "tuned" else 1), lost))
    return slots


def make_claim(text: str = DEVICE, **changes: object) -> Claim:
    """A measured gain of 1.4."""
    arm = Summary(n=64, mean=1.1e-4, std=1e-6, p5=1.09e-4, p50=1.1e-4, p95=1.2e-4, p99=1.3e-4)
    values: dict[str, object] = {
        "device": text, "workload": "decode", "objective": "runtime", "kind": "gain", "driver": "580.1",
        "power_limit_w": 700.0, "speedup": 1.4, "speedup_low": 1.37, "speedup_high": 1.43, "p_value": 1e-6, "cohens_d": 4.2,
        "test": DecisionRecord(alpha=0.01, level=0.003, look=1, processes=8, flips=4096, seed=7, finalists=3),
        "samples": "x-00000000.csv", "baseline": arm, "tuned": arm,
    }  # fmt: skip
    return Claim(**(values | changes))


def make_front(text: str = "registers") -> tuple[FrontPoint, ...]:
    """Three points, of which the second is committed."""
    return tuple(
        FrontPoint(
            controls=Controls(
                kind="options", file=f"p{place}.acf", sha256=("b" if place == 1 else str(place)) * 64, size_bytes=9
            ),
            metrics={"runtime": 0.8 + 0.1 * place, text: 1.0 + 0.25 * place},
        )
        for place in range(3)
    )


def make_committed(text: str = DEVICE, *, front: bool = False, claims: int = 1, processes: int = 8) -> ChartedArtifact:
    """An artifact whose every free text holds ``text``."""
    printable = text.encode("utf-8", "replace").decode()  # what TOML could hold
    artifact: Artifact = make_artifact(
        benchmark=printable,
        reason=printable,
        controls=Controls(
            kind="options", file="b.acf", sha256="b" * 64, size_bytes=9, knobs={"-O": 3, printable: printable}
        ),
        compiler=CompilerTable(name="gcc", version="12.2.0", build=printable, command=("gcc", "-O2", printable)),
        fingerprint=FingerprintTable(benchmark="a" * 64, command="b" * 64, sources={printable: "c" * 64}),
        code={
            printable: CodePair(
                baseline=CodeTable(sha256="e" * 64, metrics={"code_bytes": 12010, printable: 0}),
                tuned=CodeTable(sha256="f" * 64, metrics={"code_bytes": 9040, printable: 3}),
            )
        },
        claims=tuple(make_claim(printable, workload=f"{printable}{place}") for place in range(claims)),
        search=make_artifact().search.model_copy(update={"objectives": {"runtime": "minimize", printable: "maximize"}}),
        front=make_front(printable) if front else (),
        provenance=Provenance(
            commit="1" * 40, dirty=True, tool="pytest-compileiq 0.1.0", runner=printable, notice=printable
        ),
    )
    return ChartedArtifact(artifact, {place: make_slots(processes, seed=place) for place in range(min(claims, 8))})


def make_item(place: int, verdict: Verdict, text: str = "because of this") -> ItemReport:
    """One item; those that fail have a remedy, those with a speed-up differ in it."""
    failing = verdict.tone == "bad"
    gain = 1.1 + 0.05 * place
    item = ItemReport(
        f"tests/test_k.py::test_{place:03}", f"kernel-{place:03}", "x86-64-v3-gcc12", verdict, text,
        remedy=f"run: pytest --tune {text}" if failing else "",
        failed=failing,
        checks=(Check("integrity", "passed", "sha256 3f9c1a2e"), Check("speed", "not run", text)),
        notes=("80 evaluations in 12 s", f"3 invalid (compile): {text}"), wrote=("acf/k/x.toml",),
    )  # fmt: skip
    if verdict not in ("PROVEN", "REPLAYED", "TUNED", "COMMITTED"):
        return item
    numbers = {"speedup": gain, "speedup_low": gain - 0.03, "speedup_high": gain + 0.03}
    lead = make_claim(workload="decode", **numbers)
    worse = make_claim(workload="prefill", kind="non-inferior", speedup=0.8, speedup_low=0.75, speedup_high=0.85)
    return item.with_results(results_of([worse, lead], measured=[worse, lead]))


def make_run(text: str = "because of this") -> tuple[RunReport, dict[tuple[str, str], ChartedArtifact]]:
    """Every verdict once, with an artifact each but for what has none."""
    items = [make_item(place, verdict, text) for place, verdict in enumerate(VERDICTS)]
    report = RunReport(items, store_problems=[f"acf/x is a link {text}"], orphans=[f"old-{text}"])
    committed = {
        (item.name, item.target): make_committed(text, front=item.verdict == "TUNED", claims=1 + place % 2)
        for place, item in enumerate(items)
        if item.verdict not in ("MISSING", "CORRUPT")
    }
    return report, committed
