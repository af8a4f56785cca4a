"""A hostile ``acf/``: one sentence each, nothing executed, nothing written outside."""

from __future__ import annotations

import hashlib
import re
import shutil

import pytest

from tests.projects import Project

SMUGGLED = {
    "a plugin": {"-fplugin=": "evil.so"},
    "a wrapper": {"-wrapper": "/bin/sh"},
    "an output elsewhere": {"-o": "/tmp/elsewhere"},
    "a second response file": {"@": "more"},
    "an include": {"-include": "/etc/passwd"},
    "an option of the compiler that the test does not declare": {"-funroll-loops": ""},
    "a value outside the space": {"-O": 1},
    "a newline in a value": {"-fno-math-errno": "\n-fplugin=evil.so"},
}


def resign(tuned, knobs: dict, data: bytes) -> None:
    """Replace knobs and controls file consistently, as an attacker would: every digest matches."""
    metadata = tuned.one("acf/kernel/*.toml")
    old = tuned.one("acf/kernel/*.acf")
    digest = hashlib.sha256(data).hexdigest()
    new = old.with_name(re.sub(r"[0-9a-f]{8}\.acf$", f"{digest[:8]}.acf", old.name))
    old.unlink()
    new.write_bytes(data)
    text = metadata.read_text()
    table = "".join(
        f"{name!r} = {value if isinstance(value, int) else repr(value) if chr(10) not in value else chr(34) + value.replace(chr(10), chr(92) + 'n') + chr(34)}\n"
        for name, value in knobs.items()
    )
    text = re.sub(r"\[controls\.knobs\]\n.*?\n\n", lambda _: f"[controls.knobs]\n{table}\n", text, flags=re.DOTALL)
    text = text.replace(old.name, new.name)
    text = re.sub(
        r'(?m)^(sha256 = )"[0-9a-f]{64}"(\nsize_bytes = )\d+', rf'\1"{digest}"\g<2>{len(data)}', text, count=1
    )
    metadata.write_text(text)


@pytest.mark.parametrize("what", SMUGGLED)
def test_an_option_that_the_test_does_not_declare_never_reaches_the_compiler(tuned, what, tmp_path):
    knobs = SMUGGLED[what]
    data = "".join(sorted(f"{name}{value}\n" for name, value in knobs.items())).encode()
    resign(tuned, knobs, data)
    before = {path for path in tmp_path.rglob("*") if "__pycache__" not in str(path)}
    output = tuned.pytest("--acf-check=replay", code=1)
    assert "CORRUPT" in output
    assert {path for path in tmp_path.rglob("*") if "__pycache__" not in str(path)} == before


def test_controls_that_are_not_what_the_knobs_render_to_are_refused(tuned):
    resign(tuned, {"-O": 3, "-fno-math-errno": ""}, b"-O3\n-fno-math-errno\n-fplugin=evil.so\n")
    assert "CORRUPT" in tuned.pytest("--acf-check=replay", code=1)


def test_unclaimed_corrupt_files_end_a_passing_run_with_eleven(tuned):
    (tuned.root / "acf" / "other").mkdir()
    (tuned.root / "acf" / "other" / "x86-64-v3-gcc12.toml").write_text("schema = 99\n")
    output = tuned.pytest("--acf-check=replay", code=11)
    assert "schema 99" in output and "1 passed" in output


BOMBS = {
    "digits": f"schema = {'9' * 5000}\n",
    "hexadecimal": f"schema = 0x{'f' * 50_000}\n",
    "deep": "schema = 1\nx = " + "[" * 100_000,
}


def test_what_one_file_does_costs_no_other_its_verdict_and_the_run_no_summary(tuned):
    acf = tuned.root / "acf"
    for name in ("flips", "no_name", *BOMBS):
        shutil.copytree(acf / "kernel", acf / name)
    for name, text in BOMBS.items():
        Project(acf / name).one("*.toml").write_text(text)
    metadata = Project(acf / "flips").one("*.toml")
    metadata.write_text(re.sub("flips = .*", "flips = 1_000_000_000_000", metadata.read_text()))
    metadata = Project(acf / "no_name").one("*.toml")
    metadata.rename(metadata.with_name("no name.toml"))

    output = tuned.pytest("--acf-check=replay", "--acf-html=page.html", "--acf-report=report.json", code=11)
    assert "1 replayed" in output and "1 passed" in output
    assert all(f"unhealthy: acf/{name}" in output for name in ("flips", "no_name", *BOMBS)), output
    assert "REPLAYED" in (tuned.root / "page.html").read_text()
    for code, verb, healthy in (
        (1, ["list"], "kernel  x86-64-v3-gcc12"),
        (1, ["check"], "1 claim recomputed"),
        (1, ["report", "page.html"], "as committed"),
    ):
        assert healthy in tuned.acf(*verb, code=code)
    assert "COMMITTED" in (tuned.root / "page.html").read_text()
