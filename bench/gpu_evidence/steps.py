"""The steps: the tests of the GPU half, and for each kernel its tuning, its replays and its calibration.

Each writes into a folder of its own under ``results/``; a report that is there is complete: pytest writes it last.
"""

import json
import shutil
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from bench.gpu_evidence.kernels import CALIBRATED, KERNELS, Kernel
from bench.gpu_evidence.processes import Surroundings, reason
from bench.gpu_evidence.runner import Outcome, Step
from bench.gpu_evidence.state import Status

ROOT = Path(__file__).parents[2]
GPU_TESTS = ("tests/gpu", "-o", "acf_no_device=fail")
PLAIN = ("-p", "no:randomly", "-p", "no:cacheprovider")
A_LITTLE_S = 60  # of a step that adds up over calls
PROOF_S = 120  # of a tuning, beyond its search: up to three finalists in up to 32 processes each


@dataclass(frozen=True)
class Amounts:
    """How much of everything; ``pairs`` are of all calibrated kernels together, ``at_once`` are lost by a kill."""

    tune_s: int = 90
    replays: int = 3
    pairs: int = 201
    at_once: int = 5
    seed: int = 0


@dataclass(frozen=True)
class Workshop:
    """Where the steps work, and with what.

    Attributes:
        home: holds ``work/`` and ``results/``.
        python: of the environment that measures.
        conftest: stands in for the kernels' own; None for theirs.
        gpu_tests: what pytest is told to run the tests of the GPU half.
    """

    home: Path
    amounts: Amounts
    surroundings: Surroundings
    python: str = sys.executable
    conftest: str | None = None
    gpu_tests: Sequence[str] = GPU_TESTS
    clock: Callable[[], float] = field(default=time.monotonic)

    def results(self, step: str) -> Path:
        folder = self.home / "results" / step
        folder.mkdir(parents=True, exist_ok=True)
        return folder

    def project(self, kernel: Kernel) -> Path:
        return kernel.project(self.home / "work", self.conftest)

    def pytest(self, arguments: Sequence[str], *, cwd: Path, output: Path, timeout_s: float) -> int | None:
        command = [self.python, "-m", "pytest", *PLAIN, *arguments]
        return self.surroundings.run(command, cwd=cwd, output=output, timeout_s=timeout_s)


Work = Callable[[Workshop, Kernel, float], Outcome]


def all_steps(shop: Workshop, lacks: Mapping[str, str]) -> list[Step]:
    """In the order of their worth, what takes longest last. ``lacks``: what is not here → why."""
    amounts = shop.amounts

    def step(verb: str, work: Work, kernel: Kernel, needs_s: float, after: str = "") -> Step:
        lacking = _why(lacks, kernel.needs)
        return Step(f"{verb}-{kernel.name}", lambda left: work(shop, kernel, left), needs_s, after, lacking)

    return [
        Step("gpu-tests", lambda left: gpu_tests(shop, left), lacks=_why(lacks, ("ptxas",))),
        *(step("tune", tune, kernel, amounts.tune_s + PROOF_S) for kernel in KERNELS),
        *(step("replay", replay, kernel, A_LITTLE_S, f"tune-{kernel.name}") for kernel in KERNELS),
        *(step("calibrate", calibrate, kernel, A_LITTLE_S) for kernel in CALIBRATED),
    ]


def gpu_tests(shop: Workshop, left: float) -> Outcome:
    """As ``make gpu`` does."""
    folder = shop.results("gpu-tests")
    output = folder / "output.txt"
    code = shop.pytest([*shop.gpu_tests, f"--junitxml={folder / 'junit.xml'}"], cwd=ROOT, output=output, timeout_s=left)
    return _ended(code, output)


def tune(shop: Workshop, kernel: Kernel, left: float) -> Outcome:
    """A search, its proof and its artifact; a search that was stopped goes on from its journal."""
    project, folder = shop.project(kernel), shop.results(f"tune-{kernel.name}")
    arguments = [
        kernel.nodeid, "--tune", f"--tune-budget={shop.amounts.tune_s}s", f"--tune-seed={shop.amounts.seed}",
        f"--acf-report={folder / 'report.json'}", f"--acf-html={folder / 'report.html'}",
        f"--junitxml={folder / 'junit.xml'}",
    ]  # fmt: skip
    output = folder / "output.txt"
    outcome = _ended(shop.pytest(arguments, cwd=project, output=output, timeout_s=left), output)
    if outcome.status is Status.DONE:
        shutil.copytree(project / "acf", folder / "acf", dirs_exist_ok=True)
    return outcome


def replay(shop: Workshop, kernel: Kernel, left: float) -> Outcome:
    """The gate on what was committed, each time in fresh processes."""
    project, folder = shop.project(kernel), shop.results(f"replay-{kernel.name}")
    end, further = shop.clock() + left, False
    for number in range(1, shop.amounts.replays + 1):
        report, output = folder / f"report-{number}.json", folder / f"output-{number}.txt"
        if report.exists():
            continue
        arguments = [kernel.nodeid, "--acf-check=measure", f"--acf-report={report}"]
        code = shop.pytest(arguments, cwd=project, output=output, timeout_s=end - shop.clock())
        if code is None:
            return Outcome(Status.PARTIAL, f"{number - 1} of {shop.amounts.replays} replays", further)
        further = True
        if code:
            return Outcome(Status.FAILED, f"replay {number}: {reason(output)}")
    return Outcome(Status.DONE, f"{shop.amounts.replays} replays")


def calibrate(shop: Workshop, kernel: Kernel, left: float) -> Outcome:
    """Pairs of equal arms through the whole gate, a few at a time, which the project itself adds up."""
    project, folder = shop.project(kernel), shop.results(f"calibrate-{kernel.name}")
    wanted = -(-shop.amounts.pairs // len(CALIBRATED))
    end, longest = shop.clock() + left, 0.0
    before = counted = pairs_of(project)
    while counted < wanted:
        start = shop.clock()
        if end - start < 1.5 * longest:
            break
        arguments = [
            kernel.nodeid, f"--acf-calibrate={min(shop.amounts.at_once, wanted - counted)}",
            f"--tune-seed={shop.amounts.seed + counted}",  # else every few pairs would meet the same coins
            f"--acf-report={folder / 'report.json'}",
        ]  # fmt: skip
        output = folder / f"output-{counted}.txt"
        code = shop.pytest(arguments, cwd=project, output=output, timeout_s=end - start)
        if code is None:
            break
        if code or pairs_of(project) == counted:
            return Outcome(Status.FAILED, reason(output))
        longest, counted = max(longest, shop.clock() - start), pairs_of(project)
        shutil.copy(project / ".compileiq" / "calibration.json", folder)
    counted = pairs_of(project)
    status = Status.DONE if counted >= wanted else Status.PARTIAL
    return Outcome(status, f"{counted} of {wanted} pairs", counted > before)


def pairs_of(project: Path) -> int:
    """How many pairs its calibration has counted, on all devices."""
    try:
        counts = json.loads((project / ".compileiq" / "calibration.json").read_text(encoding="utf-8"))
    except FileNotFoundError:
        return 0
    return sum(int(device["trials"]) for device in counts.values())


def _why(lacks: Mapping[str, str], needs: Sequence[str]) -> str:
    return "; ".join(lacks[name] for name in needs if name in lacks)


def _ended(code: int | None, output: Path) -> Outcome:
    if code is None:
        return Outcome(Status.PARTIAL, "the call's time was over")
    return Outcome(Status.FAILED, reason(output)) if code else Outcome(Status.DONE)
