"""What a pull request writes into ``acf/`` or into git reaches the log as text: no terminal or runner obeys it."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys

import pytest

from pytest_compileiq.artifact import CodePair, CodeTable, FingerprintTable
from pytest_compileiq.store.metadata import render
from pytest_compileiq.store.store import Store
from tests.unit.artifacts import CONTROLS, TARGET, make_artifact

EVIL = "zz\n::stop-commands::zz\r\x1b[2J\x9b1m\u202e##[error]pwn\x07"
OBEYED = re.compile(r"^\s*::|##\[|[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069]", re.MULTILINE)


def quoted(text: str) -> str:
    """As a string of TOML."""
    return '"' + "".join(c if c.isprintable() and c not in '"\\' else f"\\U{ord(c):08x}" for c in text) + '"'


def is_harmless(output: str) -> bool:
    return OBEYED.search(output) is None and "::stop-commands::zz" in output


# ── pytest ───────────────────────────────────────────────────────────────────────────────────────────────────────

EDITS = {
    "the reason of a retired artifact": lambda text: text.replace(
        'outcome = "tuned"', f'outcome = "retired"\nreason = {quoted(EVIL)}'
    ),
    "the test that it was made for": lambda text: re.sub(
        r"benchmark = .*", lambda _: f"benchmark = {quoted(EVIL)}", text, count=1
    ),
    "an unknown key": lambda text: f"{quoted(EVIL)} = 1\n{text}",
    "the schema": lambda text: text.replace("schema = 1", f"schema = {quoted(EVIL)}"),
    "the name of a knob": lambda text: text.replace("[controls.knobs]\n", f"[controls.knobs]\n{quoted(EVIL)} = 1\n"),
    "the path of a source": lambda text: text.replace('"kernel.c" =', f"{quoted(EVIL)} ="),
    "the compiler's command": lambda text: text.replace("command = [\n", f"command = [\n    {quoted(EVIL)},\n"),
    "the workload of a claim": lambda text: text.replace('workload = "whole"', f"workload = {quoted(EVIL)}"),
}  # fmt: skip


@pytest.mark.parametrize("what", EDITS)
def test_pytest_shows_what_an_artifact_says_and_nobody_obeys_it(tuned, what):
    path = tuned.one("acf/kernel/*.toml")
    text = EDITS[what](path.read_text())
    assert text != path.read_text()
    path.write_text(text)
    if what == "the compiler's command":
        tuned.edit("test_kernel.py", "-O1", "-O1 -g0")
    assert is_harmless(tuned.pytest("-rs", "--acf-check=replay", "-pno:randomly"))


def test_pytest_shows_what_an_unclaimed_artifact_says_and_nobody_obeys_it(tuned):
    other = tuned.root / "acf" / "other"
    other.mkdir()
    (other / "t.toml").write_text(f"{quoted(EVIL)} = 1\nschema = 1\n")
    (tuned.root / "acf" / EVIL.replace("/", "-")).write_text("a stray")
    output = tuned.pytest("--acf-check=replay", code=11)
    assert is_harmless(output) and output.count("unhealthy:") == 2


def test_commits_since_a_stale_artifact_are_shown_and_not_obeyed(tuned):
    def git(*arguments, **environment):
        name = "A\x1b[31m\u202e"
        who = {
            f"GIT_{role}_{key}": value
            for role in ("AUTHOR", "COMMITTER")
            for key, value in (("NAME", name), ("EMAIL", "a@b"))
        }
        subprocess.run(
            ["git", *arguments], cwd=tuned.root, env={"PATH": "/usr/bin:/bin", **who}, check=True, capture_output=True
        )

    git("init", "-q")
    git("add", "-A")
    git("commit", "-qm", "tuned")
    path = tuned.one("acf/kernel/*.toml")
    head = (tuned.root / ".git" / "refs" / "heads").glob("*").__next__().read_text().strip()
    text = path.read_text()
    path.write_text(
        re.sub(r"(?m)^commit = .*\n", "", text).replace("[provenance]\n", f'[provenance]\ncommit = "{head}"\n')
    )
    tuned.edit("kernel.h", "2.0f", "2.5f")
    git("commit", "-qam", "faster\x0b::stop-commands::zz\x1b[2J ##[error]pwn")
    output = tuned.pytest("--acf-check=replay", code=1)
    assert "since then" in output and is_harmless(output)


# ── acf ──────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.fixture
def hostile(tmp_path):
    """A project whose artifact says evil wherever a text is free, in a git repository."""
    store = Store(tmp_path / "acf")
    made = make_artifact()
    store.write("k", made, controls=[CONTROLS], samples=())
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    for command in (["init", "-q"], ["add", "-A"], ["-c", "user.name=x", "-c", "user.email=x", "commit", "-qm", "x"]):
        subprocess.run(["git", *command], cwd=tmp_path, check=True, capture_output=True)
    evil = make_artifact(
        benchmark=EVIL,
        outcome="retired",
        reason=EVIL,
        compiler=made.compiler.model_copy(update={"version": EVIL, "build": EVIL, "command": (EVIL,)}),
        controls=made.controls.model_copy(update={"knobs": {**made.controls.knobs, EVIL: EVIL}}),
        claims=(made.claims[0].model_copy(update={"device": EVIL, "workload": EVIL, "objective": EVIL}),),
        fingerprint=FingerprintTable(benchmark="a" * 64, command="b" * 64, sources={EVIL: "c" * 64}),
        code={EVIL: CodePair(baseline=CodeTable(sha256="e" * 64, metrics={EVIL: 1}))},
    )
    store.metadata_path("k", TARGET).write_bytes(render(evil))
    (store.root / "k" / EVIL.replace("/", "-")).write_text("stray")
    return tmp_path


VERBS = {
    "list": ["list"],
    "show": ["show", "k"],
    "check": ["check"],
    "diff": ["diff"],
    "diff as markdown": ["diff", "--format=markdown"],
    "diff as json": ["diff", "--format=json"],
    "textconv": ["textconv", f"acf/k/{TARGET}.toml"],
    "flags": ["flags", "k", "--compiler=gcc"],
    "export": ["export", "--runtime=out"],
    "an argument": ["show", "k", EVIL],
    "a name": ["show", EVIL],
}  # fmt: skip


@pytest.mark.parametrize("verb", VERBS)
@pytest.mark.parametrize("encoding", ["utf-8", "ascii"])
def test_acf_shows_what_an_artifact_says_and_nobody_obeys_it(hostile, verb, encoding):
    if verb == "flags" and not shutil.which("gcc"):
        pytest.skip("needs gcc")
    done = subprocess.run(
        [sys.executable, "-m", "pytest_compileiq.cli", *VERBS[verb]],
        cwd=hostile, env={"PATH": "/usr/bin:/bin", "PYTHONPATH": ":".join(sys.path), "PYTHONIOENCODING": encoding},
        capture_output=True, check=False, timeout=60,
    )  # fmt: skip
    output = (done.stdout + done.stderr).decode(encoding)
    assert "Traceback" not in output and done.returncode in (0, 1, 2, 3), output
    assert is_harmless(output), output
