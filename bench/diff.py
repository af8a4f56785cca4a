"""How long a reviewer waits: `acf diff` over 1,000 changed artifacts, `acf list` over 10,000.

Both stores are copies of this project's own artifacts, in turn, each under a name and digests of its own; for the diff
every copy is tuned again, with other controls, claims and samples. The repository is packed, as a clone is. Whole
processes are timed, imports included.

    python bench/diff.py [--changed 1000] [--listed 10000] [--rounds 5]
"""

import argparse
import itertools
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from machine import describe, processor_time_s
from pytest_compileiq.artifact import Artifact
from pytest_compileiq.model import sha256_hex
from pytest_compileiq.store.metadata import controls_file_name, render, samples_file_name
from pytest_compileiq.store.store import Store

OWN = Path(__file__).parents[1] / "acf"
Copy = tuple[Artifact, bytes, bytes | None]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--changed", type=int, default=1000)
    parser.add_argument("--listed", type=int, default=10_000)
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    print(describe())
    with tempfile.TemporaryDirectory() as folder:
        project = Path(folder)
        write_history(project, options.changed)
        for form in ("terminal", "markdown", "json"):
            report(f"acf diff --format {form}", project, options, "diff", "HEAD~..HEAD", "--format", form)
        report("acf diff, work tree", project, options, "diff", "HEAD~")
    with tempfile.TemporaryDirectory() as folder:
        write(Path(folder), options.listed, version=0)
        report("acf list", Path(folder), options, "list")


def report(what: str, project: Path, options: argparse.Namespace, *arguments: str) -> None:
    """Wall time, and processor time of all its processes, which a busy machine stretches less."""
    wall_s, processor_s = [], []
    for _ in range(options.rounds):
        before, started = processor_time_s(), time.perf_counter()
        command = [sys.executable, "-m", "pytest_compileiq.cli", *arguments]
        subprocess.run(command, cwd=project, check=True, stdout=subprocess.DEVNULL)
        wall_s.append(time.perf_counter() - started)
        processor_s.append(processor_time_s() - before)
    spread = f"best {min(wall_s):.2f} s, worst {max(wall_s):.2f} s of {len(wall_s)}"
    processor = f"processor time {statistics.median(processor_s):.2f} s"
    print(f"{what:<28} median {statistics.median(wall_s):.2f} s, {spread}; {processor}")


def write_history(project: Path, count: int) -> None:
    """Two commits that differ in every artifact."""
    git(project, "init", "-q")
    for version in (0, 1):
        write(project, count, version)
        git(project, "add", "-A")
        git(project, "commit", "-qm", f"Version {version}")
    git(project, "gc", "-q")


def git(project: Path, *arguments: str) -> None:
    settings = ("-c", "user.name=bench", "-c", "user.email=bench@example.org", "-c", "commit.gpgsign=false")
    subprocess.run(["git", *settings, *arguments], cwd=project, check=True)


def write(project: Path, count: int, version: int) -> None:
    """``count`` artifacts; another ``version`` has other controls, claims and samples."""
    (project / "pytest.ini").write_text("[pytest]\n")
    for number, (artifact, controls, samples) in enumerate(itertools.islice(itertools.cycle(own()), count)):
        folder = project / "acf" / f"kernel-{number}"
        folder.mkdir(parents=True, exist_ok=True)
        for path in folder.iterdir():
            path.unlink()
        again = retuned(artifact, folder, controls, samples, f"{number}.{version}".encode(), version)
        (folder / f"{again.target}.toml").write_bytes(render(again))


def retuned(
    artifact: Artifact, folder: Path, controls: bytes, samples: bytes | None, mark: bytes, version: int
) -> Artifact:
    """The artifact with files of its own, which it names."""
    changes: dict[str, object] = {}
    assert artifact.controls is not None
    data = controls + mark
    name = controls_file_name(artifact.target, data)
    (folder / name).write_bytes(data)
    told = {"file": name, "sha256": sha256_hex(data), "size_bytes": len(data)}
    changes["controls"] = artifact.controls.model_copy(update=told)
    named = {"samples": None}
    if samples is not None:
        data = samples.replace(b"e-05,0\n", b"%de-05,0\n" % version) + mark
        named = {"samples": samples_file_name(artifact.target, data)}
        (folder / named["samples"]).write_bytes(data)
    scale = 1 + version / 10
    changes["claims"] = tuple(
        claim
        if claim.kind == "exact"
        else claim.model_copy(
            update={**named, **{key: getattr(claim, key) * scale for key in ("speedup", "speedup_low", "speedup_high")}}
        )
        for claim in artifact.claims
    )
    return artifact.model_copy(update=changes)


def own() -> list[Copy]:
    """This project's tuned artifacts, with their controls and samples."""
    store = Store(OWN)
    found = [(name, store.read(name, target)) for name in store.names() for target in store.targets(name)]
    return [
        (artifact, store.read_controls(name, artifact), samples_of(name, artifact))
        for name, artifact in found
        if artifact.outcome == "tuned"
    ]


def samples_of(name: str, artifact: Artifact) -> bytes | None:
    named = next((claim.samples for claim in artifact.claims if claim.samples), None)
    return (OWN / name / named).read_bytes() if named else None


if __name__ == "__main__":
    main()
