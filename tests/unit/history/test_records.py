"""The monthly files: append-only, idempotent, and read as untrusted."""

from __future__ import annotations

import json

import pytest

from pytest_compileiq.errors import StoreError
from pytest_compileiq.history import records as archive
from pytest_compileiq.history.page import MAX_POINTS, over_time
from pytest_compileiq.history.records import Archive, Observation, Sighting
from pytest_compileiq.history.series import Series, series_of


def observation(**changes) -> Observation:
    values = {
        "source": "replay", "date": "2026-11-23T03:00:00Z", "name": "k", "target": "x86-64-v3-gcc12", "device": "cpu",
        "workload": "w", "objective": "runtime", "direction": "minimize", "verdict": "PROVEN", "baseline": 2.0,
        "tuned": 1.0, "speedup": 2.0, "speedup_low": 1.9, "speedup_high": 2.1, "compiler": "gcc 12",
        "baseline_code": "a" * 64, "tuned_code": "b" * 64,
    }  # fmt: skip
    return Observation(**(values | changes))


def test_a_plot_says_how_many_runs_it_leaves_out():
    runs = [observation(date=f"2026-{1 + day // 28:02}-{1 + day % 28:02}T03:00:00Z") for day in range(MAX_POINTS + 5)]
    few, many = (over_time(Series(tuple(each), ()), "k") for each in (runs[:5], runs))
    assert few is not None and few.note == ""
    assert many is not None and many.note == f"the last {MAX_POINTS} of {MAX_POINTS + 5} runs"


def test_what_is_added_is_read_back_and_added_once(tmp_path):
    archive = Archive(tmp_path / "h")
    both = [observation(), observation(driver="550", machine="Linux", commit="1" * 40)]
    assert archive.add([*both, both[0]]) == 2
    assert archive.add(both) == 0
    assert archive.read().observations == tuple(both)


def test_archive_partial_of_a_killed_writer_goes_and_git_ignores_it(tmp_path):
    (tmp_path / ".partial-killed").write_bytes(b"half")
    Archive(tmp_path).add([observation()])
    assert sorted(path.name for path in tmp_path.iterdir()) == [".gitattributes", ".gitignore", "2026-11.jsonl"]
    assert (tmp_path / ".gitignore").read_text() == ".partial-*\n"


def test_archive_sum_of_months_is_bounded(tmp_path, monkeypatch):
    Archive(tmp_path).add([observation(), observation(date="2026-10-23T03:00:00Z")])
    monkeypatch.setattr(archive, "_MOST_BYTES", (tmp_path / "2026-10.jsonl").stat().st_size)
    read = Archive(tmp_path).read()
    assert len(read.observations) == 1 and "2026-11.jsonl has" in read.problems[0]


def test_old_lines_stay_byte_for_byte_and_a_missing_line_end_is_mended(tmp_path):
    path = tmp_path / "2026-11.jsonl"
    path.write_bytes(b'{"of": "a later version"}')
    Archive(tmp_path).add([observation()])
    assert path.read_bytes().startswith(b'{"of": "a later version"}\n{"source"')
    assert len(Archive(tmp_path).read().problems) == 1


def test_lines_that_git_put_together_count_once_in_any_order(tmp_path):
    archive = Archive(tmp_path)
    archive.add([observation(), observation(date="2026-11-22T03:00:00Z")])
    path = tmp_path / "2026-11.jsonl"
    path.write_bytes(path.read_bytes() * 2)
    (line,) = series_of(archive.read().observations)
    assert [each.date[:10] for each in line.observations] == ["2026-11-22", "2026-11-23"]


@pytest.mark.parametrize(
    "changes",
    [
        {"date": "yesterday"},
        {"date": "2026-02-30T03:00:00Z"},
        {"date": "2026-11-2\u0663T03:00:00Z"},
        {"baseline": -1.0},
        {"tuned": float("inf")},
        {"name": "../k"},
        {"tuned_code": "short"},
    ],
    ids=str,
)
def test_a_line_that_is_no_measurement_is_named(tmp_path, changes):
    text = observation().model_copy(update=changes).model_dump_json()
    (tmp_path / "2026-11.jsonl").write_text(f"{text}\n")
    read = Archive(tmp_path).read()
    assert read.observations == ()
    assert f"2026-11.jsonl, line 1: replay.{next(iter(changes))} = " in read.problems[0]


def test_an_interval_that_is_none_is_named(tmp_path):
    text = observation().model_copy(update={"speedup_low": 2.2, "speedup_high": 1.8}).model_dump_json()
    (tmp_path / "2026-11.jsonl").write_text(f"{text}\n")
    assert "the interval of the speedup is 2.2 to 1.8" in Archive(tmp_path).read().problems[0]


def test_what_was_seen_is_read_back_beside_what_was_measured(tmp_path):
    held = Sighting(date="2026-11-23T03:00:00Z", name="k", target="x86-64-v3-gcc12", proof="a" * 64)
    ended = held.model_copy(update={"date": "2026-12-01T03:00:00Z", "ends": ("kernel", "compiler")})
    assert Archive(tmp_path).add([ended, observation(), held]) == 3
    read = Archive(tmp_path).read()
    assert (read.sightings, read.observations) == ((held, ended), (observation(),))


@pytest.mark.parametrize("changes", [{"ends": ("boredom",)}, {"proof": "short"}, {"source": "hearsay"}], ids=str)
def test_a_line_that_is_no_sighting_is_named(tmp_path, changes):
    held = {"source": "sighting", "date": "2026-11-23T03:00:00Z", "name": "k", "target": "t-gcc12", "proof": "a" * 64}
    (tmp_path / "2026-11.jsonl").write_text(json.dumps(held | changes))
    assert next(iter(changes)) in Archive(tmp_path).read().problems[0]


def test_many_bad_lines_are_counted(tmp_path):
    (tmp_path / "2026-11.jsonl").write_text("\n".join(f"no {number}" for number in range(1000)))
    problems = Archive(tmp_path).read().problems
    assert len(problems) == 6
    assert problems[-1].endswith("2026-11.jsonl: 995 more lines like that")


def test_a_link_is_neither_read_nor_replaced(tmp_path):
    (tmp_path / "2026-11.jsonl").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(StoreError, match="is a link"):
        Archive(tmp_path).add([observation()])
    assert "is a link" in Archive(tmp_path).read().problems[0]


def test_an_empty_or_missing_directory_is_an_empty_history(tmp_path):
    assert Archive(tmp_path / "none").read().observations == ()
    assert Archive(tmp_path / "none").add([]) == 0
    assert not (tmp_path / "none").exists()


def test_a_new_compiler_goes_on_with_the_line_and_another_architecture_does_not():
    targets = ("x86-64-v3-gcc12", "x86-64-v3-gcc13", "x86-64-v4-gcc13")
    lines = series_of(observation(target=target) for target in targets)
    assert [len(line.observations) for line in lines] == [2, 1]
