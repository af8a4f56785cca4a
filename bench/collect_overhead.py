"""The cost of having the plugin installed: `pytest --collect-only -q` over 200 trivial tests, blocked against loaded.

The two arms run in turn, a coin deciding which of a pair comes first, so that a drifting machine favours neither.
Processor time is measured, which a busy machine stretches less.

    python bench/collect_overhead.py [--pairs 30]
"""

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from random import Random

from machine import describe, processor_time_s

FILES, TESTS_PER_FILE = 10, 20
ARMS = {"blocked": ["-p", "no:compileiq"], "loaded": []}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pairs", type=int, default=30, help="runs of each arm (default: %(default)s)")
    pairs = parser.parse_args().pairs
    with tempfile.TemporaryDirectory() as folder:
        project = write_project(Path(folder))
        require_plugin(project)
        seconds = measure(project, pairs)
    print(describe())
    print(table(seconds))


def write_project(project: Path) -> Path:
    """A project of its own rootdir, with tests that do nothing."""
    (project / "pytest.ini").touch()
    body = "\n\n".join(f"def test_{number}():\n    pass\n" for number in range(TESTS_PER_FILE))
    for number in range(FILES):
        (project / f"test_{number}.py").write_text(body, encoding="utf-8")
    return project


def require_plugin(project: Path) -> None:
    """Without the plugin both arms are the same, and the answer a flattering zero."""
    shown = run_pytest(project, ["--help"]).stdout
    if "--tune-budget" not in shown:
        sys.exit(f"pytest-compileiq is not installed for {sys.executable}: pip install -e .")


def measure(project: Path, pairs: int) -> dict[str, list[float]]:
    """Processor seconds of whole pytest processes, by arm; one run of each is discarded first."""
    random = Random(1)
    seconds: dict[str, list[float]] = {arm: [] for arm in ARMS}
    for pair in range(-1, pairs):
        for arm in random.sample(list(ARMS), k=len(ARMS)):
            start = processor_time_s()
            run_pytest(project, ["--collect-only", "-q", *ARMS[arm]])
            if pair >= 0:
                seconds[arm].append(processor_time_s() - start)
    return seconds


def run_pytest(project: Path, arguments: Sequence[str]) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", *arguments]
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("PYTEST_", "PYTHONDONT"))}
    return subprocess.run(command, cwd=project, env=environment, capture_output=True, text=True, check=True)


def table(seconds: dict[str, list[float]]) -> str:
    """The medians, and the quartiles of the paired differences."""
    medians = {arm: 1e3 * statistics.median(values) for arm, values in seconds.items()}
    extra = [1e3 * (loaded - blocked) for blocked, loaded in zip(seconds["blocked"], seconds["loaded"], strict=True)]
    low, middle, high = statistics.quantiles(extra, n=4)
    lines = [f"{'arm':<9}{'runs':>5}{'median':>12}"]
    lines += [f"{arm:<9}{len(values):>5}{medians[arm]:>9.1f} ms" for arm, values in seconds.items()]
    lines += [f"extra, median of the pairs {middle:.1f} ms (quartiles {low:.1f} to {high:.1f} ms)"]
    lines += [f"ratio of the medians {medians['loaded'] / medians['blocked']:.3f}"]
    return "\n".join(lines)


if __name__ == "__main__":
    main()
