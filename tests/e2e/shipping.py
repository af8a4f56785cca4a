"""Artifacts of real builds by real compilers, made without a search, and the example projects that take them."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from pytest_compileiq.artifact import (
    Artifact,
    CodePair,
    CodeTable,
    CompilerTable,
    Controls,
    FingerprintTable,
    Provenance,
    SearchRecord,
)
from pytest_compileiq.claim import Claim
from pytest_compileiq.model import Candidate
from pytest_compileiq.store.metadata import controls_file_name
from pytest_compileiq.store.store import Store
from pytest_compileiq.toolchains.base import Place, Toolchain

REPOSITORY = Path(__file__).parents[2]
EXAMPLES = REPOSITORY / "examples" / "builds"


def committed_acf(name: str) -> bytes:
    """A real ACF for 13.3, one that this repository commits."""
    (path,) = (REPOSITORY / "acf" / name).glob("*.acf")
    return path.read_bytes()


def prove(
    root: Path,
    name: str,
    toolchain: Toolchain,
    knobs: dict,
    blob: bytes | None = None,
    functions: tuple[str, ...] = (),
) -> Artifact:
    """Store what a tune that ended with these controls would: both arms are built, nothing is searched or measured."""
    builder = toolchain.resolve(Place(root, root))
    controls = builder.render(Candidate(knobs, blob))
    arms = [builder.build(one, root / ".built" / name, timeout_s=100) for one in (None, controls)]
    baseline, tuned = ({entry: CodeTable(sha256=code.sha256) for entry, code in arm.code.items()} for arm in arms)
    shutil.rmtree(root / ".built")
    artifact = Artifact(
        benchmark=f"test_{name}.py::test_{name}",
        target=builder.target,
        outcome="tuned",
        functions=functions,
        controls=Controls(
            kind=controls.kind,
            file=controls_file_name(builder.target, controls.data),
            sha256=controls.sha256,
            size_bytes=len(controls.data),
            knobs=dict(controls.knobs),
        ),
        compiler=CompilerTable.of(builder.compiler),
        fingerprint=FingerprintTable(benchmark="a" * 64, command="b" * 64, sources=dict(builder.sources())),
        code={entry: CodePair(baseline=code, tuned=tuned[entry]) for entry, code in baseline.items()},
        search=SearchRecord(engine="ga", seed=0, space="0" * 64, evaluations=1, invalid=0, duplicates=0, seconds=1.0),
        claims=(
            Claim(
                device=builder.architecture, workload="default", objective="code_bytes", kind="exact",
                baseline_value=arms[0].metrics["code_bytes"], tuned_value=arms[1].metrics["code_bytes"],
            ),
        ),
        provenance=Provenance(tool="pytest-compileiq 0.1.0"),
    )  # fmt: skip
    Store(root / "acf").write(name, artifact, controls=[controls.data], samples=())
    return artifact


@dataclass(frozen=True)
class Build:
    """A copy of an example project, with ``acf`` on its ``PATH``."""

    root: Path
    path: str

    def run(self, *command: str, code: int = 0) -> str:
        """What the command printed; it must end with ``code``, or with any but 0 when that is -1."""
        environment = {**os.environ, "PATH": self.path, "LC_ALL": "C"}
        done = subprocess.run(command, cwd=self.root, env=environment, capture_output=True, text=True, timeout=200)
        output = done.stdout + done.stderr
        assert "Traceback" not in output, output
        assert (done.returncode != 0) if code == -1 else (done.returncode == code), f"{done.returncode}\n{output}"
        return output

    def controls(self, name: str) -> Path:
        """The committed controls file."""
        (path,) = (self.root / "acf" / name).glob("*.acf")
        return path

    def for_another_line(self, name: str, line: str) -> None:
        """Make the artifact one for another compiler line."""
        for path in sorted((self.root / "acf" / name).iterdir()):
            mine = next(path.parent.glob("*.toml")).stem if path.suffix != ".toml" else path.stem
            other = f"{mine.rpartition('-')[0]}-{line}"
            if path.suffix == ".toml":
                path.write_text(path.read_text().replace(mine, other))
            path.rename(path.with_name(path.name.replace(mine, other)))


def make_build(example: str, root: Path, directories: list[str] | None = None) -> Build:
    """Copy ``examples/builds/<example>``; ``directories`` come first on its ``PATH``."""
    shutil.copytree(EXAMPLES / example, root / "project")
    shim = root / "bin" / "acf"
    shim.parent.mkdir()
    shim.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m pytest_compileiq.cli "$@"\n')
    shim.chmod(0o755)
    return Build(root / "project", os.pathsep.join([str(shim.parent), *(directories or []), os.environ["PATH"]]))
