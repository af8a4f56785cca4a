"""The store: what it writes comes back, what it did not write is refused in one sentence, and nothing else is touched."""

from __future__ import annotations

import errno
import itertools
import os
import shutil
import subprocess
import sys
import tracemalloc
from dataclasses import replace
from pathlib import Path
from typing import get_args

import pytest

from pytest_compileiq.artifact import LicenceTable
from pytest_compileiq.claim import MOST_FLIPS
from pytest_compileiq.cli.main import main
from pytest_compileiq.errors import SchemaTooNew, StoreError, UserError
from pytest_compileiq.report.artifact import artifact_lines
from pytest_compileiq.report.committed import report_of_store
from pytest_compileiq.samples import ClockReading, SlotStart, StartKind
from pytest_compileiq.store import samples as samples_module
from pytest_compileiq.store import store as store_module
from pytest_compileiq.store.samples import HEADER, decode_samples, encode_samples
from pytest_compileiq.store.status import orphans, other_owner, retire
from pytest_compileiq.store.store import Store
from pytest_compileiq.toolchains.option_classes import classes_in
from tests.unit.artifacts import CONTROLS, TARGET, make_artifact, make_rows, measured_claim

EXAMPLE = Path(__file__).parents[2] / "data" / "schema-1" / "acf"


@pytest.fixture
def store(tmp_path):
    store = Store(tmp_path / "acf")
    store.write("k", make_artifact(claims=(measured_claim("cpu"),)), controls=[CONTROLS], samples=make_rows())
    return store


def snapshot(root: Path):
    return {
        path: (path.stat().st_ino, path.stat().st_mtime_ns, path.read_bytes())
        for path in root.rglob("*")
        if path.is_file()
    }


def test_what_was_written_is_read_back(store):
    artifact = store.read("k", TARGET)
    assert artifact.claims[0].samples != "unnamed.csv"
    assert store.read_controls("k", artifact) == CONTROLS
    ((claim, rows),) = store.read_samples("k", artifact)
    assert (claim, list(rows)) == (artifact.claims[0], make_rows())
    assert (store.names(), store.targets("k"), store.health()) == (["k"], [TARGET], [])


def test_a_rewrite_that_changes_nothing_touches_no_byte(store):
    before = snapshot(store.root)
    artifact = store.read("k", TARGET)
    assert store.write("k", artifact, controls=[CONTROLS], samples=make_rows()).paths == ()
    assert snapshot(store.root) == before


def test_a_misspelt_artifact_or_target_is_answered_with_the_nearest(store):
    for asked in (lambda: store.require(["kk"]), lambda: store.find("kk", None)):
        with pytest.raises(UserError, match=r"there is no artifact 'kk' in .* \(did you mean 'k'\?\): acf list"):
            asked()
    with pytest.raises(UserError, match=rf"k has no target 'x86-64-v4-gcc12' \(did you mean '{TARGET}'\?\): it has"):
        store.find("k", "x86-64-v4-gcc12")


def test_superseded_files_go_and_those_of_other_targets_and_devices_stay(store):
    other = make_artifact(target="armv8-gcc12", outcome="baseline", controls=None, claims=())
    store.write("k", other, controls=[], samples=())
    first = store.read("k", TARGET).claims[0].samples
    both = make_artifact(claims=(store.read("k", TARGET).claims[0], measured_claim("cpu2")))
    store.write("k", both, controls=[CONTROLS], samples=make_rows("cpu2"))
    names = {path.name for path in (store.root / "k").iterdir()}
    assert first in names and len([name for name in names if name.endswith(".csv")]) == 2
    store.write("k", make_artifact(outcome="baseline", controls=None, claims=()), controls=[], samples=())
    left = {path.name for path in (store.root / "k").iterdir()}
    assert first not in left and {name for name in left if name.startswith("armv8")} == {
        name for name in names if name.startswith("armv8")
    }
    assert store.health() == []


def test_the_stored_example_of_schema_1_opens_and_a_rewrite_touches_no_byte(tmp_path):
    shutil.copytree(EXAMPLE, tmp_path / "acf")
    store = Store(tmp_path / "acf")
    before = snapshot(store.root)
    for name in store.names():
        for target in store.targets(name):
            artifact = store.read(name, target)
            store.write(name, artifact, controls=[store.read_controls(name, artifact)], samples=())
    assert before and snapshot(store.root) == before and store.health() == []


STORED_CLASSES = {
    "stencil": ("value-safe", "environment", "relaxed-maths"),
    "wire": ("value-safe", "relaxed-maths"),
    "model": (),
}


def test_stored_examples_of_before_say_which_classes_they_use():
    store = Store(EXAMPLE)
    read = {name: store.read(name, store.targets(name)[0]) for name in store.names()}
    assert {name: artifact.classes for name, artifact in read.items()} == dict.fromkeys(STORED_CLASSES, ())
    assert {name: classes_in(artifact).own for name, artifact in read.items()} == STORED_CLASSES
    assert any("relaxed-maths (-fassociative-math" in line for line in artifact_lines("stencil", read["stencil"]))
    assert any(line.endswith("the test's own (rate=0.5, steps=50)") for line in artifact_lines("model", read["model"]))


def test_recorded_licences_are_read_back_and_shown(store):
    licence = LicenceTable(
        name="contraction", allows="contraction", where="-march=x86-64-v3", remedy="-ffp-contract=off"
    )
    store.write("k", make_artifact(classes=("value-safe",), licences=(licence,)), controls=[CONTROLS], samples=())
    artifact = store.read("k", TARGET)
    assert (artifact.classes, artifact.licences) == (("value-safe",), (licence,))
    lines = "\n".join(artifact_lines("k", artifact))
    assert "  classes    value-safe; in effect contraction\n" in lines
    assert "  licence    contraction by -march=x86-64-v3; -ffp-contract=off takes it away" in lines


SAID = [("opaque",), ("value-safe", "environment"), ("relaxed-maths", "value-safe")]


@pytest.mark.parametrize("said", SAID)
def test_an_artifact_that_says_other_classes_than_its_controls_have_is_refused(store, said, monkeypatch, capsys):
    store.write("k", make_artifact(classes=said), controls=[CONTROLS], samples=())
    monkeypatch.chdir(store.root.parent)
    told = f"says classes {', '.join(said)}, and its controls have value-safe"
    for verb, code in (("show", 2), ("check", 1)):
        assert main([verb, *(["k"] if verb == "show" else [])]) == code
        captured = capsys.readouterr()
        assert told in captured.out + captured.err and "delete the line classes" in captured.out + captured.err
    (item,) = report_of_store(store).items
    assert item.verdict == "CORRUPT" and told in item.message


def edit(path: Path, old: str, new: str) -> None:
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new, 1))


METADATA_ATTACKS = {
    "empty": lambda path: path.write_bytes(b""),
    "binary": lambda path: path.write_bytes(os.urandom(400)),
    "unknown key": lambda path: edit(path, "benchmark =", "surprise = 1\nbenchmark ="),
    "wrong type": lambda path: edit(path, "size_bytes = 19", 'size_bytes = "19"'),
    "boolean for a number": lambda path: edit(path, "size_bytes = 19", "size_bytes = true"),
    "not a number": lambda path: edit(path, "speedup = 1.1", "speedup = nan"),
    "a path in file": lambda path: edit(path, 'file = "', 'file = "../../'),
    "an absolute path": lambda path: edit(path, 'file = "x86', 'file = "/etc/x86'),
    "a Windows path": lambda path: edit(path, 'file = "x86', 'file = "..\\\\x86'),
    "a path in samples": lambda path: edit(path, 'samples = "', 'samples = "../'),
    "schema 0": lambda path: edit(path, "schema = 1", "schema = 0"),
    "schema true": lambda path: edit(path, "schema = 1", "schema = true"),
    "no schema": lambda path: edit(path, "schema = 1\n", "schema = []\n"),
    "deep": lambda path: path.write_text("a = " + "[" * 5000),
    "a link": lambda path: (path.rename(path.parent.parent.parent / "real"), path.symlink_to(path.parent.parent.parent / "real")),
    "a directory": lambda path: (path.unlink(), path.mkdir()),
    "a pipe": lambda path: (path.unlink(), os.mkfifo(path)),
    "300 MB": lambda path: os.truncate(path, 300 << 20),
    "a million million flips": lambda path: edit(path, "flips = 4096", "flips = 1_000_000_000_000"),
    "a negative seed": lambda path: edit(path, "flips = 4096\nseed = 1", "flips = 4096\nseed = -1"),
    "a level next to nothing": lambda path: edit(path, "level = 0.003", "level = 1e-300"),
    "an endless look": lambda path: edit(path, "look = 1", "look = 1_000_000"),
    "endless processes": lambda path: edit(path, "processes = 2", "processes = 1_000_000"),
    "endless finalists": lambda path: edit(path, "finalists = 1", "finalists = 1_000_000"),
    "more bytes than are read": lambda path: edit(path, "size_bytes = 19", "size_bytes = 1_048_577"),
    "a knob beyond all": lambda path: edit(path, "-O = 3", f"-O = 1{'0' * 31}"),
    "a metric beyond every register": lambda path: edit(path, "code_bytes = 10", "code_bytes = -9223372036854775809"),
    "a speed-up beyond all": lambda path: edit(path, "speedup = 1.1", "speedup = 1e300"),
    "an integer of 5,000 digits": lambda path: edit(path, "evaluations = 30", f"evaluations = {'9' * 5000}"),
    "an integer of 50,000 hexadecimal digits": lambda path: edit(path, "evaluations = 30", f"evaluations = 0x{'f' * 50_000}"),
    "a schema of 5,000 digits": lambda path: edit(path, "schema = 1", f"schema = {'9' * 5000}"),
    "a schema of 50,000 hexadecimal digits": lambda path: edit(path, "schema = 1", f"schema = 0x{'f' * 50_000}"),
    "a key of half a megabyte": lambda path: edit(path, "benchmark =", f"{'k' * (1 << 19)} = 1\nbenchmark ="),
    "a text of half a megabyte": lambda path: edit(path, "-funroll-loops = ", f'-funroll-loops = "{"x" * (1 << 19)}"\nx = '),
    "endless options": lambda path: edit(path, "[controls.knobs]", "[controls.knobs]\n" + "".join(f"k{n} = 1\n" for n in range(2000))),
    "the same claim twice": lambda path: path.write_text(
        (text := path.read_text()).replace("[[claims]]", text[text.index("[[claims]]") : text.index("[provenance]")] + "[[claims]]", 1)
    ),
}  # fmt: skip


@pytest.mark.parametrize("attack", METADATA_ATTACKS)
def test_metadata_that_is_not_what_it_must_be_is_refused_in_one_sentence(store, attack):
    path = store.metadata_path("k", TARGET)
    METADATA_ATTACKS[attack](path)
    with pytest.raises(StoreError) as caught:
        store.read("k", TARGET)
    message = str(caught.value)
    assert "acf/k/x86-64-v3-gcc12.toml" in message and len(message) < 1000
    assert any(health.path == path for health in store.health())


def test_claims_that_take_hours_to_recompute_together_are_refused():
    each = measured_claim("cpu").test.model_copy(update={"flips": MOST_FLIPS, "processes": 32})
    several = [measured_claim(f"cpu{n}").model_copy(update={"test": each}) for n in range(5)]
    make_artifact(claims=several[:4])
    with pytest.raises(ValueError, match="too many flips"):
        make_artifact(claims=several)


def test_whatever_a_parser_stumbles_over_is_that_files_problem(store, monkeypatch):
    for error in (MemoryError(), RecursionError("deep"), OverflowError("long"), IndexError("x"), ZeroDivisionError()):

        def fail(_, error=error):
            raise error

        with monkeypatch.context() as patched, pytest.raises(StoreError, match=r"acf/k/.*restore it with git checkout"):
            patched.setattr("pytest_compileiq.store.metadata.tomli.loads", fail)
            store.read("k", TARGET)


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"reason": "x" * 2001}, "reason"),
        ({"benchmark": "x" * 2001}, "benchmark"),
        ({"code": {f"{'f' * 19_000}{n}": make_artifact().code["k"] for n in range(60)}}, "1048576 are read back"),
    ],
)
def test_what_could_not_be_read_back_is_not_written(store, changes, told):
    before = snapshot(store.root)
    with pytest.raises(StoreError, match=told):
        store.write("k", store.read("k", TARGET).model_copy(update=changes), controls=[CONTROLS], samples=())
    assert snapshot(store.root) == before


TABLES = {
    "deep": "\n".join(f"[a{number}{'.a' * 100}]" for number in range(1000)),
    "many": "\n".join(f"[a{number}]" for number in range(70_000)),
    "inline": f"x = [{','.join(['{a=1}'] * 70_000)}]",
    "dotted": "\n".join(f"a{number}{'.a' * 100} = 1" for number in range(1000)),
}


@pytest.mark.parametrize("what", TABLES)
def test_a_small_file_of_very_many_tables_is_refused_before_it_is_parsed(store, what, monkeypatch):
    path = store.metadata_path("k", TARGET)
    path.write_text(f"schema = 1\n{TABLES[what]}\n")
    monkeypatch.setattr("pytest_compileiq.store.metadata.tomli.loads", lambda text: pytest.fail("it was parsed"))
    with pytest.raises(StoreError, match="dots and brackets, and at most 60000 are read; restore it with git checkout"):
        store.read("k", TARGET)


def test_every_truncation_is_refused(store):
    path = store.metadata_path("k", TARGET)
    whole = path.read_bytes()
    for length in range(0, len(whole) - 20, 37):
        path.write_bytes(whole[:length])
        with pytest.raises(StoreError):
            store.read("k", TARGET)


def test_a_later_schema_says_which_version_to_install(store):
    edit(store.metadata_path("k", TARGET), "schema = 1", "schema = 2\nnews = 3")
    with pytest.raises(SchemaTooNew, match=r"schema 2.*up to 1: pip install -U pytest-compileiq"):
        store.read("k", TARGET)


FILE_ATTACKS = {
    "one byte": lambda path: path.write_bytes(path.read_bytes()[:-2] + b"X\n"),
    "empty": lambda path: path.write_bytes(b""),
    "truncated": lambda path: path.write_bytes(path.read_bytes()[:-5]),
    "missing": lambda path: path.unlink(),
    "a link": lambda path: (path.rename(path.parent.parent.parent / "real"), path.symlink_to(path.parent.parent.parent / "real")),
    "300 MB": lambda path: os.truncate(path, 300 << 20),
}  # fmt: skip


@pytest.mark.parametrize("attack", FILE_ATTACKS)
@pytest.mark.parametrize("suffix", [".acf", ".csv"])
def test_controls_and_samples_that_were_changed_are_refused(store, attack, suffix):
    artifact = store.read("k", TARGET)
    (path,) = (store.root / "k").glob(f"*{suffix}")
    FILE_ATTACKS[attack](path)
    with pytest.raises(StoreError, match=path.name):
        store.read_controls("k", artifact) if suffix == ".acf" else list(store.read_samples("k", artifact))


def test_a_linked_directory_is_not_followed_for_reading_or_writing(store, tmp_path):
    outside = tmp_path / "outside"
    (store.root / "k").rename(outside)
    (store.root / "k").symlink_to(outside)
    before = snapshot(outside)
    with pytest.raises(StoreError, match="link"):
        store.read("k", TARGET)
    with pytest.raises(StoreError, match="link"):
        store.write("k", make_artifact(), controls=[CONTROLS], samples=())
    assert snapshot(outside) == before


@pytest.mark.parametrize("name", ["../k", "/k", "", ".", "..", "a/b", "a\\b", "a\0b"])
def test_a_name_is_never_a_path(store, name):
    with pytest.raises(StoreError, match="not a name"):
        store.read(name, TARGET)


WRITER = """
import os, sys
from dataclasses import replace
from pathlib import Path
from pytest_compileiq.store.status import retire
from pytest_compileiq.store.store import Store
Path.replace = lambda *_: (print("half", flush=True), sys.stdin.read(), os.kill(os.getpid(), 9))
retire(Store(Path(sys.argv[1])), "k", sys.argv[2], "wrong")
"""


@pytest.fixture
def half_written(store):
    """A writer that stands still in the middle of its write; when it is told, it is killed."""
    writer = subprocess.Popen(
        [sys.executable, "-c", WRITER, str(store.root), TARGET], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )  # fmt: skip
    assert writer.stdout.readline() == "half\n"
    yield writer
    writer.communicate()


def partial_files(store):
    return list(store.root.rglob(".partial-*"))


def test_what_a_writer_is_making_is_no_stray_and_stays(store, half_written, monkeypatch, capsys):
    monkeypatch.chdir(store.root.parent)
    assert store.health() == [] and main(["check"]) == 1  # the claim's numbers are made up
    assert "partial" not in capsys.readouterr().out and len(partial_files(store)) == 1


def test_what_a_killed_writer_left_is_cleared_by_check(store, half_written, monkeypatch, capsys):
    half_written.communicate()
    monkeypatch.chdir(store.root.parent)
    assert len(partial_files(store)) == 1 and store.health() == []
    main(["check"])
    assert partial_files(store) == [] and "partial" not in capsys.readouterr().out


def test_what_a_killed_writer_left_is_cleared_by_the_next(store, half_written):
    half_written.communicate()
    retire(store, "k", TARGET, "wrong")
    assert partial_files(store) == [] and store.read("k", TARGET).outcome == "retired"


@pytest.mark.skipif(os.getuid() == 0, reason="root reads everything")
def test_a_directory_that_cannot_be_read_is_told_and_never_taken_for_an_empty_one(store):
    (store.root / "k").chmod(0)
    try:
        with pytest.raises(StoreError, match="acf/k cannot be read: Permission denied"):
            store.targets("k")
        assert [health.path for health in store.health()] == [store.root / "k"]
    finally:
        (store.root / "k").chmod(0o755)


def test_a_store_that_cannot_be_listed_is_told_and_never_taken_for_an_empty_one(store, monkeypatch):
    def refuse(*_):
        raise OSError(errno.EMFILE, "Too many open files")

    monkeypatch.setattr(os, "scandir", refuse)
    monkeypatch.setattr(os, "listdir", refuse)
    with pytest.raises(StoreError, match="acf cannot be read: too many files are open: raise the limit"):
        store.names()
    with pytest.raises(StoreError, match="acf/k cannot be read: too many files are open"):
        store.targets("k")
    for owner in (lambda: orphans(Store(store.root), {}, store.root), lambda: other_owner(store, "k", "t", store.root)):
        with pytest.raises(StoreError, match="cannot be read: too many files are open"):
            owner()
    assert [health.path for health in store.health()] == [store.root]


def test_a_directory_that_cannot_be_listed_costs_no_other_artifact_its_lines(store, monkeypatch, capsys):
    store.write("other", make_artifact(), controls=[CONTROLS], samples=[])
    listed = Store._entries
    refused = store.root / "k"

    def entries(self, folder):
        if folder == refused:
            raise StoreError("acf/k cannot be read: Input/output error")
        return listed(self, folder)

    monkeypatch.setattr(Store, "_entries", entries)
    monkeypatch.chdir(store.root.parent)
    (store.root.parent / "pytest.ini").write_text("[pytest]\n")
    assert list(store.artifacts()) == [("other", TARGET)]
    for verb in ("list", "check"):
        assert main([verb]) == 1
        assert "Input/output error" in "".join(capsys.readouterr())
    assert main(["list"]) == 1 and "other" in capsys.readouterr().out


def test_a_broken_target_costs_the_other_targets_of_its_name_no_line(store, monkeypatch, capsys):
    (store.root / "k" / "a-broken-one.toml").write_text("schema = 1\n")
    monkeypatch.chdir(store.root.parent)
    assert main(["show", "k"]) == 2
    shown = capsys.readouterr()
    assert TARGET in shown.out and "a-broken-one.toml" in shown.err


def test_strays_are_told_and_kept(store):
    (store.root / "k" / "notes.txt").write_text("mine")
    (store.root / "file").write_text("mine")
    (store.root / "LICENSE-ACF").write_text("a licence beside the artifacts is no stray")
    assert {health.path.name for health in store.health()} == {"notes.txt", "file"}


def test_a_samples_file_is_parsed_once_for_all_its_claims_and_one_file_is_held_at_a_time(tmp_path, monkeypatch):
    store = Store(tmp_path / "acf")
    claims = tuple(measured_claim(device) for device in ("one", "two", "three"))
    store.write(
        "k", make_artifact(claims=claims[:2]), controls=[CONTROLS], samples=[*make_rows("one"), *make_rows("two")]
    )
    store.write(
        "k",
        make_artifact(claims=(*store.read("k", TARGET).claims, claims[2])),
        controls=[CONTROLS],
        samples=make_rows("three"),
    )
    events = []
    decode = store_module.decode_samples
    monkeypatch.setattr(
        store_module, "decode_samples", lambda data, where: events.append("parsed") or decode(data, where)
    )
    for claim, rows in store.read_samples("k", store.read("k", TARGET)):
        assert list(rows) == make_rows(claim.device)
        events.append(claim.device)
    assert events == ["parsed", "one", "two", "parsed", "three"]
    events.clear()
    assert store.health(hold=lambda claim, _: events.append(claim.device)) == []
    assert events == ["parsed", "one", "two", "parsed", "three"]


def test_parsing_samples_takes_little_memory_beyond_the_file():
    rows = [row for row in make_rows() for _ in range(2000)]
    data = encode_samples(rows)
    tracemalloc.start()
    try:
        samples = decode_samples(data, "x.csv")
        held, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert len(samples.rows(("cpu", "w", "runtime"))) == len(rows)
    assert held < 24 * len(rows) + 2_000_000 and peak < 40 * len(rows) + 2 * len(data)


SAMPLE = "cpu,w,runtime,0,0,0,tuned,0,1.0,0\n"


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("0,0,0,tuned", "2000,0,0,tuned"),
        ("0,0,0,tuned", "0,4,0,tuned"),
        ("0,0,0,tuned", "0,0,4,tuned"),
        ("tuned,0", "tuned,10000"),
        ("tuned,0", "tuned,-1"),
        ("tuned,0", "tuned, 1"),
        ("tuned,0", "tuned," + "9" * 5000),
        ("1.0", "1e31"),
        ("1.0", "nan"),
        ("1.0", "inf"),
        ("1.0,0", "1.0,2"),
        ("1.0,0", "1.0"),
        ("tuned", "other"),
        ("cpu,", "cpu,,"),
        ('cpu,', '"cpu,'),
        ("cpu,", "\0,"),
        ("cpu,", "\udcff,"),
    ],
)  # fmt: skip
def test_a_sample_out_of_all_bounds_names_its_line(old, new):
    assert old in SAMPLE
    text = ",".join(HEADER) + "\n" + SAMPLE + SAMPLE.replace(old, new, 1)
    if new == "\0,":
        decode_samples(text.encode(), "x.csv")  # a text like any other
        return
    with pytest.raises(StoreError, match=r"x\.csv line 3 is not a sample"):
        decode_samples(text.encode("utf-8", "surrogateescape"), "x.csv")


def test_more_samples_or_claims_than_there_can_be_are_refused(monkeypatch):
    header = ",".join(HEADER) + "\n"
    monkeypatch.setattr(samples_module, "MOST_ROWS_OF_A_CLAIM", 3000)
    decode_samples((header + SAMPLE * 3000).encode(), "x.csv")
    with pytest.raises(StoreError, match="more than 3000 samples"):
        decode_samples((header + SAMPLE * 3001).encode(), "x.csv")
    with pytest.raises(StoreError, match="line 1002 is not a sample: more than 1000 devices"):
        decode_samples((header + "".join(f"cpu{n}{SAMPLE[3:]}" for n in range(1001))).encode(), "x.csv")


def test_samples_of_one_device_do_not_name_it_and_those_of_several_do():
    rows = make_rows()
    named = [replace(row, unit="GPU-1") for row in rows]
    assert encode_samples(named) == encode_samples(rows)
    several = [replace(row, unit=f"GPU-{row.process}") for row in rows]
    data = encode_samples(several)
    assert data.startswith(f"{','.join(HEADER)},unit\n".encode()) and b",GPU-1\n" in data
    samples = decode_samples(data, "x.csv")
    assert list(samples.rows(("cpu", "w", "runtime"))) == several


def test_single_calls_that_slots_begin_with_are_stored_at_the_first_sample():
    kinds = itertools.cycle(get_args(StartKind))
    rows = [replace(row, start=SlotStart(next(kinds), 1e-6 / 3)) if row.sample == 0 else row for row in make_rows()]
    data = encode_samples(rows)
    assert data.startswith(f"{','.join(HEADER)},start,start_s\n".encode()) and b",0,,\n" in data
    assert list(decode_samples(data, "x.csv").rows(("cpu", "w", "runtime"))) == rows
    several = [replace(row, unit=f"GPU-{row.process}", clocks=ClockReading(1980, None)) for row in rows]
    assert list(decode_samples(encode_samples(several), "x.csv").rows(("cpu", "w", "runtime"))) == several


@pytest.mark.parametrize("start", [",sham,0", ",sham,-1", ",sham,nan", ",sham,1e31", ",sham,", ",,1e-6", ",shame,1e-6"])
def test_start_that_is_no_call_is_refused(start):
    data = f"{','.join(HEADER)},start,start_s\n{SAMPLE.strip()}{start}\n"
    with pytest.raises(StoreError, match="line 2 is not a sample"):
        decode_samples(data.encode(), "x.csv")


UNIT_HEADER = f"{','.join(HEADER)},unit\n"
OF_ONE = SAMPLE.replace("\n", ",GPU-1\n")


@pytest.mark.parametrize(
    "unit", [",GPU 1", ",-1", f",{'x' * 65}", ",GPU-1,", ',"GPU-1"', ",\0", ",\udcff", ",\u00fc", ""]
)
def test_what_is_no_name_of_a_device_names_its_line(unit):
    text = UNIT_HEADER + OF_ONE + SAMPLE.replace("\n", f"{unit}\n")
    with pytest.raises(StoreError, match=r"x\.csv line 3 is not a sample"):
        decode_samples(text.encode("utf-8", "surrogateescape"), "x.csv")


def test_more_devices_than_there_can_be_are_refused():
    lines = [OF_ONE.replace("GPU-1", f"GPU-{number}") for number in range(1001)]
    decode_samples((UNIT_HEADER + "".join(lines[:1000])).encode(), "x.csv")
    with pytest.raises(StoreError, match="line 1002 is not a sample: more than 1000 different devices"):
        decode_samples((UNIT_HEADER + "".join(lines)).encode(), "x.csv")


@pytest.mark.parametrize(
    "text", ["", "device\n", "device,workload,objective,process,quad,slot,arm,sample,value,dropped\nx,y\n", '"\n']
)
def test_text_that_is_no_samples_file_is_refused(text):
    with pytest.raises(StoreError, match=r"x\.csv"):
        decode_samples(text.encode(), "x.csv")


def test_a_bad_sample_names_its_line():
    data = encode_samples(make_rows()).replace(b",0,0,1,tuned,0,", b",0,-1,1,tuned,0,", 1)
    with pytest.raises(StoreError, match="line 4"):
        decode_samples(data, "x.csv")


def test_a_file_of_many_claims_in_turns_is_read_as_written_and_its_first_bad_line_named():
    rows = [replace(row, device=f"cpu{turn % 3}", sample=turn) for turn in range(400) for row in make_rows()]
    data = encode_samples(rows)
    samples = decode_samples(data, "x.csv")
    assert samples.measured() == [(f"cpu{number}", "w", "runtime") for number in range(3)]
    for key in samples.measured():
        assert list(samples.rows(key)) == [row for row in rows if row.device == key[0]]
    lines = data.splitlines(keepends=True)
    for bad in (1, 1023, 1024, 1025, len(lines) - 1):
        spoiled = b"".join(
            [*lines[:bad], lines[bad].replace(b"tuned", b"Tuned").replace(b"base", b"Base"), *lines[bad + 1 :]]
        )
        with pytest.raises(StoreError, match=f"x.csv line {bad + 1} is not a sample"):
            decode_samples(spoiled, "x.csv")
