"""The page: what was run, what came of it, and what did not run and why, from the files that the steps left.

Runs in the environment that measures: python -m bench.gpu_evidence.page OUT
"""

import json
import sys
import xml.etree.ElementTree as ET
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.gpu_evidence.kernels import CALIBRATED, KERNELS
from bench.gpu_evidence.processes import Surroundings
from bench.gpu_evidence.state import Record, State
from bench.gpu_evidence.steps import Amounts, Workshop, all_steps
from pytest_compileiq.claim import Claim
from pytest_compileiq.report.claims import claim_text, evidence_text
from pytest_compileiq.rules.stats import binomial_interval
from pytest_compileiq.store.metadata import parse

REHEARSAL = "A rehearsal above a driver without a GPU: all times are virtual, and nothing here is a measurement."


@dataclass(frozen=True)
class Page:
    """Reads ``home``; a figure of a rehearsal says so wherever it stands."""

    home: Path

    @property
    def rehearsed(self) -> bool:
        return (self.home / "kind").read_text(encoding="utf-8") == "rehearsal"

    def markdown(self) -> str:
        title = "# REHEARSAL in virtual time: no GPU evidence" if self.rehearsed else "# GPU evidence"
        parts = [
            [title, "", *([f"**{REHEARSAL}**", ""] if self.rehearsed else [])],
            *(self.machine(), self.steps(), self.gpu_tests(), self.tunings(), self.replays(), self.calibrations()),
        ]
        return "\n".join(line for part in parts for line in part)

    def figure(self, text: object) -> str:
        return f"{text} (rehearsal)" if self.rehearsed else str(text)

    def machine(self) -> Iterator[str]:
        """The machine as the last call saw it, and the GPU as each did."""
        calls = [json.loads(line) for line in self._lines("machine.jsonl")]
        last = calls[-1]
        versions = last["tools"] | {"Python": last["python"]} | last["packages"]
        yield from ("## Machine", "", f"- {last['machine']}", f"- commit {last['commit']}")
        yield f"- {', '.join(f'{name} {version}' for name, version in versions.items())}"
        yield from ("", "The GPU at the beginning of each call:", "")
        yield from table(
            ("call", "device", "driver", "power limit", "SM clock", "memory clock", "temperature", "clocks held by"),
            [(number, *self._gpu(call)) for number, call in enumerate(calls, 1)],
        )

    def _gpu(self, call: dict[str, Any]) -> Iterator[object]:
        gpu = call["gpu"]
        if gpu is None:
            yield from (f"none: {call['no_gpu']}", *[""] * 6)
            return
        yield from (f"{gpu['name']} ({gpu['architecture']})", gpu["driver"] or "?")
        for name, unit in (
            ("power_limit_w", "W"), ("sm_clock_mhz", "MHz"), ("memory_clock_mhz", "MHz"), ("temperature_c", "°C")
        ):  # fmt: skip
            value = gpu.get(name)
            yield "?" if value is None else self.figure(f"{value:g} {unit}")
        yield ", ".join(gpu.get("throttle_reasons") or ()) or "nothing"

    def steps(self) -> Iterator[str]:
        """Every step, also those that did not run, and why."""
        state, shop = State(self.home / "steps"), Workshop(self.home, Amounts(), Surroundings({}))
        rows = [(step.name, *self._record(state.of(step.name))) for step in all_steps(shop, {})]
        yield from ("## What was run", "")
        yield from table(("step", "", "", "seconds"), rows)

    def _record(self, record: Record) -> tuple[str, str, str]:
        return record.status, record.why, f"{record.seconds:g}" if record.seconds else ""

    def gpu_tests(self) -> Iterator[str]:
        yield from ("## The tests that need a GPU", "")
        path = self.home / "results" / "gpu-tests" / "junit.xml"
        if not path.exists():
            yield from ("None was run.", "")
            return
        suite = next(ET.parse(path).getroot().iter("testsuite"))
        counts = {name: int(suite.get(name, 0)) for name in ("tests", "failures", "errors", "skipped")}
        yield self.figure(", ".join(f"{count} {name}" for name, count in counts.items()))
        if self.rehearsed:
            yield "In a rehearsal they run above the driver without a GPU, which computes nothing."
        for case in suite.iter("testcase"):
            for what in case:
                if what.tag in ("failure", "error", "skipped"):
                    yield f"- {what.tag}: `{case.get('name')}`: {cell(what.get('message', ''))}"
        yield ""

    def tunings(self) -> Iterator[str]:
        """Verdicts, claims with their intervals, and the controls."""
        yield from ("## Tuned for runtime, against the compiler's defaults", "")
        rows = []
        for kernel in KERNELS:
            folder = self.home / "results" / f"tune-{kernel.name}"
            for item in items(folder / "report.json"):
                claims = [claim for path in folder.glob("acf/*/*.toml") for claim in claims_of(path)]
                rows.append((kernel.name, item["target"], item["verdict"], self._claims(claims) or item["message"],
                             "; ".join(item["notes"])))  # fmt: skip
        yield from table(("kernel", "target", "verdict", "claim, with its 95 % interval", "search"), rows)
        yield "Artifacts with their controls, raw samples, reports and output lie in `results/tune-…/`."
        yield ""

    def _claims(self, claims: Sequence[Claim]) -> str:
        return "; ".join(f"{self.figure(claim_text(claim))}, {evidence_text(claim)}" for claim in claims)

    def replays(self) -> Iterator[str]:
        yield from ("## Replayed in fresh processes", "")
        rows = []
        for kernel in KERNELS:
            for path in sorted((self.home / "results" / f"replay-{kernel.name}").glob("report-*.json")):
                for item in items(path):
                    number = path.stem.partition("-")[2]
                    rows.append((kernel.name, number, item["verdict"], self._measured(item)))
        yield from table(("kernel", "replay", "verdict", "measured now, with its 95 % interval"), rows)

    def _measured(self, item: dict[str, Any]) -> str:
        now = [result for result in item["results"] if result["evidence"] == "measured now"]
        said = "; ".join(self.figure(f"{result['objective']} {result['words']}") for result in now)
        return said or item["message"] or "nothing was measured"

    def calibrations(self) -> Iterator[str]:
        """How often equal arms were called faster, by kernel and in all, with the exact binomial interval."""
        yield from ("## Equal arms", "", "The baseline against itself through the whole gate, by fresh processes:", "")
        counted = [
            (kernel.name, device, int(counts["proven"]), int(counts["trials"]), float(counts["alpha"]))
            for kernel in CALIBRATED
            for device, counts in self._json(f"results/calibrate-{kernel.name}/calibration.json").items()
        ]
        rows = [(name, device, *self._rate(proven, of), f"{alpha:.1%}") for name, device, proven, of, alpha in counted]
        if len(counted) > 1:
            rows.append(("all", "", *self._rate(sum(row[2] for row in counted), sum(row[3] for row in counted)), ""))
        yield from table(("kernel", "device", "called faster", "rate", "exact 95 % interval", "alpha"), rows)

    def _rate(self, proven: int, trials: int) -> tuple[str, str, str]:
        low, high = binomial_interval(proven, trials)
        return (
            self.figure(f"{proven} of {trials}"),
            self.figure(f"{proven / trials:.2%}"),
            self.figure(f"{low:.2%} to {high:.2%}"),
        )

    def _json(self, name: str) -> dict[str, Any]:
        path = self.home / name
        content: dict[str, Any] = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
        return content

    def _lines(self, name: str) -> list[str]:
        return (self.home / name).read_text(encoding="utf-8").splitlines()


def claims_of(metadata: Path) -> Sequence[Claim]:
    return parse(metadata.read_bytes(), str(metadata), "tune it again").claims


def items(report: Path) -> list[dict[str, Any]]:
    """The benchmarks of a JSON report; none where it was never written."""
    if not report.exists():
        return []
    found: list[dict[str, Any]] = json.loads(report.read_text(encoding="utf-8"))["items"]
    return found


def table(head: Sequence[str], rows: Iterable[Sequence[object]]) -> Iterator[str]:
    """A Markdown table and an empty line; of no rows it says so."""
    made = [f"| {' | '.join(map(cell, row))} |" for row in rows]
    if made:
        yield f"| {' | '.join(head)} |"
        yield f"|{'---|' * len(head)}"
    yield from made or ["Nothing yet."]
    yield ""


def cell(value: object) -> str:
    """A value on one line of a table."""
    return " ".join(str(value).replace("|", "\\|").split())


def main(home: Path) -> None:
    path = home / "page.md"
    path.write_text(Page(home).markdown(), encoding="utf-8")
    print(f"wrote {path}")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
