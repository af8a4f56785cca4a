"""python -m bench.gpu_evidence run: the next steps, as many as the seconds of a call hold.

Exit status: 0 when all is done, 75 when there is more to do, 1 when a step failed or there is no GPU.
"""

import argparse
import fcntl
import json
import os
import shutil
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from bench.gpu_evidence import rehearsal, wheels
from bench.gpu_evidence.kernels import SOURCES
from bench.gpu_evidence.processes import Surroundings
from bench.gpu_evidence.runner import A_FAILURE, Runner, Step
from bench.gpu_evidence.state import State
from bench.gpu_evidence.steps import GPU_TESTS, ROOT, Amounts, Workshop, all_steps

MOST_S = 480  # with what ends a step and writes the page it stays below nine minutes
DEFAULT = Amounts()
NOT_COPIED = shutil.ignore_patterns("venv", "driver", "lock", "__pycache__")


def main(arguments: Sequence[str]) -> int:
    asked = parse(arguments)
    end = time.monotonic() + asked.seconds
    home = asked.out.resolve()
    home.mkdir(parents=True, exist_ok=True)
    (home / ".gitignore").write_text("*\n", encoding="utf-8")
    keep_apart(home, asked.rehearse)
    with only_one(home) as lock:
        python = wheels.environment(home, asked.wheels)
        environment = os.environ | {"PYTHONPATH": str(ROOT)}
        environment.pop("PYTEST_ADDOPTS", None)
        if asked.rehearse:
            environment |= rehearsal.driver(home, python)
            environment.pop("CUDA_VISIBLE_DEVICES", None)
        seen = look(home, python, environment)
        environment["GPU_ARCHITECTURE"] = (seen["gpu"] or {}).get("architecture", "sm_90a")
        shop = Workshop(
            home, amounts(asked), Surroundings(environment, lock), python,
            *((rehearsed_conftest(), rehearsal.GPU_TESTS) if asked.rehearse else (None, GPU_TESTS)),
        )  # fmt: skip
        steps = chosen(all_steps(shop, seen["lacks"]), asked.steps)
        state = State(home / "steps")
        if asked.list:
            print(listing(steps, state))
            return 0
        runner = Runner(steps, state, seen["no_gpu"], ended=lambda: copy(home, asked.results))
        status = runner.run(end - time.monotonic(), again=bool(asked.steps))
        paged = write_page(home, python, environment)
        copy(home, asked.results)
        return status if paged else A_FAILURE


def parse(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="gpu_evidence run", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--out", type=Path, help="where all lies (default: .gpu-evidence, rehearsed: .gpu-rehearsal)")
    parser.add_argument("--results", type=Path, default=os.environ.get("OUT"), help="copied there too (default: $OUT)")
    parser.add_argument("--wheels", type=Path, metavar="DIR", help="what bundle wrote, for a machine without a network")
    parser.add_argument(
        "--steps", type=lambda text: text.split(","), metavar="A,B", help="these alone; a failed one anew"
    )
    parser.add_argument("--list", action="store_true", help="say what is done, and do nothing")
    parser.add_argument("--rehearse", action="store_true", help="above a driver without a GPU, in virtual time")
    parser.add_argument("--seconds", type=seconds, default=MOST_S, help="of this call (default: %(default)s)")
    parser.add_argument(
        "--tune-seconds", type=int, default=DEFAULT.tune_s, help="of each search (default: %(default)s)"
    )
    parser.add_argument("--replays", type=int, default=DEFAULT.replays, help="of each kernel (default: %(default)s)")
    parser.add_argument("--pairs", type=int, default=DEFAULT.pairs, help="of equal arms, in all (default: %(default)s)")
    parser.add_argument("--seed", type=int, default=DEFAULT.seed, help="of the searches (default: %(default)s)")
    asked = parser.parse_args(arguments)
    asked.out = asked.out or Path(".gpu-rehearsal" if asked.rehearse else ".gpu-evidence")
    return asked


def seconds(text: str) -> int:
    """Of a call: it must end before who lent the machine ends it."""
    if not 1 <= (given := int(text)) <= MOST_S:
        raise argparse.ArgumentTypeError(f"{given}: expected 1 to {MOST_S}; call it again for more")
    return given


def amounts(asked: argparse.Namespace) -> Amounts:
    return Amounts(tune_s=asked.tune_seconds, replays=asked.replays, pairs=asked.pairs, seed=asked.seed)


def keep_apart(home: Path, rehearsed: bool) -> None:
    """No folder holds both a rehearsal and measurements.

    Raises:
        SystemExit: it holds the other.
    """
    kind, path = "rehearsal" if rehearsed else "measurement", home / "kind"
    if not path.exists():
        path.write_text(kind, encoding="utf-8")
    if (held := path.read_text(encoding="utf-8")) != kind:
        raise SystemExit(f"{home} holds a {held}, and this is a {kind}: give another --out")


@contextmanager
def only_one(home: Path) -> Iterator[int]:
    """Hold the folder; what a killed call left running still holds it.

    Raises:
        SystemExit: another holds it.
    """
    with (home / "lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise SystemExit(f"{home} is in use, maybe by what an earlier call left running: wait for it") from None
        yield lock.fileno()


def look(home: Path, python: str, environment: dict[str, str]) -> dict[str, Any]:
    """What this machine is, also kept for the page, a line a call."""
    command = [python, "-m", "bench.gpu_evidence.probe"]
    probed = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    if probed.returncode:
        raise SystemExit(f"this machine cannot be looked at:\n{probed.stderr}")
    seen: dict[str, Any] = json.loads(probed.stdout)
    with (home / "machine.jsonl").open("a", encoding="utf-8") as lines:
        lines.write(json.dumps(seen) + "\n")
    return seen


def rehearsed_conftest() -> str:
    return rehearsal.conftest((SOURCES / "conftest.py").read_text(encoding="utf-8"))


def chosen(steps: Sequence[Step], names: Sequence[str] | None) -> list[Step]:
    """The steps of those names, all by default.

    Raises:
        SystemExit: there is no such step.
    """
    known = [step.name for step in steps]
    if unknown := sorted(set(names or ()) - set(known)):
        raise SystemExit(f"--steps: there is no step {unknown[0]!r}; expected {', '.join(known)}")
    return [step for step in steps if not names or step.name in names]


def listing(steps: Sequence[Step], state: State) -> str:
    """The steps and what became of them, a line each."""
    records = [(step.name, state.of(step.name)) for step in steps]
    return "\n".join(f"{name:<24}{record.status:<9}{record.why}".rstrip() for name, record in records)


def write_page(home: Path, python: str, environment: dict[str, str]) -> bool:
    """Write it anew, also of what is not complete; returns whether that worked."""
    command = [python, "-m", "bench.gpu_evidence.page", str(home)]
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    print(done.stdout.strip() if done.returncode == 0 else f"the page could not be written:\n{done.stderr}")
    return done.returncode == 0


def copy(home: Path, results: Path | None) -> None:
    """All but what can be made anew; the copy goes on as this folder does."""
    if results is not None and results.resolve() != home:
        shutil.copytree(home, results, dirs_exist_ok=True, ignore=NOT_COPIED)
