"""What GitHub and JUnit are told of a run."""

from __future__ import annotations

import re
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from pytest_compileiq.outcome import Check, ItemReport, Result, RunReport, TunedTest, Verdict
from pytest_compileiq.report.markdown import MOST_ANNOTATIONS, MOST_ROWS, annotation_lines, summary_text
from pytest_compileiq.report.values import junit_properties

REPLAYED = ItemReport(
    "t.py::t", "k", "x86-64-v3-gcc12", Verdict.REPLAYED, "same machine code, still correct",
    checks=(Check("integrity", "passed"), Check("speed", "not run", "proven on H200; this is EPYC")),
).with_results([
    Result("H200", "w", "runtime", "minimize", "gained", "1.500x faster, 1.400 to 1.600",
           "p = 0.001, d = 3.0, 8 processes", 1.5, 1.4, 1.6),
    Result("H200", "v", "runtime", "minimize", "worse", "1.100x slower, 1.050 to 1.150", "p", 0.909, 0.870, 0.952),
])  # fmt: skip
PROVEN = replace(REPLAYED, verdict=Verdict.PROVEN, checks=(Check("speed", "passed", "w: 1.5x"),))
STALE = ItemReport(
    "t.py::t", "k", "x86", Verdict.STALE, "k.c (changed)", remedy="run: pytest --tune t.py::t", failed=True
)


def outcome(item, failure="", file="tests/t.py", line=7):
    return TunedTest("t.py::t", file, line, failure, item)


def lines(*outcomes, problems=()):
    return list(annotation_lines(outcomes, problems))


def test_a_failure_is_an_error_on_the_tests_line_with_the_remedy():
    assert lines(outcome(STALE, "longer")) == [
        "::error file=tests/t.py,line=7,title=k x86 STALE::k.c (changed)%0Arun: pytest --tune t.py::t"
    ]


def test_a_failure_without_a_verdict_says_what_pytest_says():
    assert lines(outcome(None, "no budget\nat all")) == [
        "::error file=tests/t.py,line=7,title=t.py%3A%3At::no budget%0Aat all"
    ]


def test_what_was_not_measured_is_a_warning():
    (line,) = lines(outcome(REPLAYED))
    assert line.startswith("::warning file=tests/t.py,line=7,title=k x86-64-v3-gcc12 REPLAYED::speed: not checked: ")
    assert "proven on H200" in line


def test_what_decayed_is_a_warning_and_what_is_proven_says_nothing():
    assert lines(outcome(PROVEN)) == []
    (line,) = lines(outcome(replace(PROVEN, notes=("w: decayed: 1.1x now",))))
    assert line.endswith("::w: decayed: 1.1x now")


def test_a_lenient_verdict_is_a_warning_and_a_search_that_found_something_is_none():
    (line,) = lines(outcome(replace(STALE, failed=False)))
    assert line.startswith("::warning")
    assert lines(outcome(replace(PROVEN, verdict=Verdict.TUNED, notes=("60 evaluations in 10 s",)))) == []


def test_unhealthy_files_are_errors_without_a_line():
    assert lines(problems=["acf/k is corrupt"]) == ["::error title=acf%3A unhealthy file::acf/k is corrupt"]


def test_github_shows_ten_of_a_level_and_the_last_says_how_many_more():
    many = lines(*[outcome(STALE, "x")] * 40, outcome(REPLAYED))
    assert len(many) == MOST_ANNOTATIONS + 1
    assert "31 more errors" in many[MOST_ANNOTATIONS - 1]
    assert len(lines(*[outcome(STALE, "x")] * MOST_ANNOTATIONS)) == MOST_ANNOTATIONS


@given(st.text(), st.text(), st.text())
def test_no_text_ends_a_command_or_a_property_and_all_of_it_is_kept(name, message, file):
    item = replace(STALE, name=name, message=message, remedy="")
    (line,) = lines(outcome(item, "x", file=f"{file}.py"))
    found = re.fullmatch(r"::error file=([^:,\r\n]*),line=7,title=([^:,\r\n]*)::([^\r\n]*)", line)
    decoded = [_decoded(part) for part in found.groups()]
    assert decoded == [f"{file}.py", f"{name} x86 STALE", message]


def _decoded(text):
    for code, character in (("%0D", "\r"), ("%0A", "\n"), ("%3A", ":"), ("%2C", ","), ("%25", "%")):
        text = text.replace(code, character)
    return text


def test_the_summary_is_a_table_of_verdicts_failures_first_with_what_was_not_checked():
    text = summary_text(RunReport([REPLAYED, replace(STALE, name="z")], ["acf/y is corrupt"], ["gone"]))
    rows = [line for line in text.splitlines() if line.startswith("| `")]
    assert text.startswith("### Compiler controls: 1 STALE, 1 REPLAYED\n")
    assert [row.split("`")[1] for row in rows] == ["z", "k"]
    assert "**STALE**" in rows[0]
    assert "pytest --tune" in rows[0]
    assert "recorded: runtime on w at least 1.400x faster" in rows[1]
    assert "worse: runtime on v 1.100x slower, 1.050 to 1.150" in rows[1]
    assert "proven on H200" in rows[1].split("|")[-2]
    assert "`acf/y is corrupt`" in text
    assert "`gone`" in text


def test_the_summary_of_nothing_is_empty_and_of_very_much_is_bounded():
    assert summary_text(RunReport()) == ""
    text = summary_text(RunReport([REPLAYED] * (MOST_ROWS + 3)))
    assert "3 more do not fit here" in text
    assert len(text.encode()) < 1 << 20


def test_hostile_texts_are_no_markup_in_the_summary():
    hostile = replace(STALE, message="<img src=x> | @everyone\n## gone `", name="a|b")
    (row,) = [line for line in summary_text(RunReport([hostile])).splitlines() if line.startswith("| `")]
    assert row.count("|") == 6
    assert "`` <img src=x> \\x7c @everyone\\n## gone ` ``" in row


def test_junit_gets_strings_alone_verdict_bounds_and_what_was_not_run():
    found = dict(junit_properties(REPLAYED))
    assert found == {
        "acf.name": "k",
        "acf.target": "x86-64-v3-gcc12",
        "acf.verdict": "REPLAYED",
        "acf.speedup": "1.5",
        "acf.speedup_low": "1.4",
        "acf.speedup_high": "1.6",
        "acf.worse": "worse: runtime 1.100x slower, 1.050 to 1.150",
        "acf.workload": "w",
        "acf.evidence": "p = 0.001, d = 3.0, 8 processes",
        "acf.not_run.speed": "proven on H200; this is EPYC",
    }
    assert set(dict(junit_properties(STALE))) == {"acf.name", "acf.target", "acf.verdict"}


@given(st.text())
def test_junit_gets_no_character_that_xml_refuses(text):
    assert all(value.isprintable() for _, value in junit_properties(replace(STALE, name=text, evidence=text)))
