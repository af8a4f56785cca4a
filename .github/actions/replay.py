"""What a pull request does to the compiler controls: replay them, compare them, and write the review.

Runs pytest and acf diff; writes run.json, report.html and comment.md, and the file ``quiet`` where no artifact changed
or failed; ends with pytest's exit code. It holds no token: .github/workflows/acf-comment.yml comments, in another job.

The standard library alone. Everything is set by environment variables, see action.yml.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

MOST_IN_SUMMARY = 900_000  # bytes; GitHub drops a step's summary above 1 MiB whole
MOST_IN_RUN = 5_000  # of a comment's section on this run, which stands below a diff of 60,000 at most

Key = tuple[str, str]
Json = dict[str, Any]


def replay(out: Path) -> int:
    """Run pytest and acf diff, and write what they say; returns pytest's exit code."""
    out.mkdir(parents=True, exist_ok=True)
    report = out / "run.json"
    for leftover in (report, out / "report.html", out / "comment.md", out / "quiet"):
        leftover.unlink(missing_ok=True)
    if outputs := os.environ.get("GITHUB_OUTPUT"):
        with Path(outputs).open("a", encoding="utf-8") as stream:
            stream.write(f"out={out}\n")
    code = run_pytest(report, out / "report.html")
    span = f"{os.environ['ACF_BASE']}..HEAD" if os.environ.get("ACF_BASE") else ""
    changed, changes = compare(span)
    items = json.loads(report.read_text(encoding="utf-8"))["items"] if report.is_file() else None
    text = "\n".join([changed, *run_section(items, changes or [], code)]) + "\n"
    (out / "comment.md").write_text(text, encoding="utf-8")
    if changes == [] and items is not None and not any(item["failed"] for item in items):
        (out / "quiet").touch()
    if summary := os.environ.get("GITHUB_STEP_SUMMARY"):
        with Path(summary).open("a", encoding="utf-8") as stream:
            stream.write(cut(text, MOST_IN_SUMMARY // 4))  # a character has four bytes at most
    return code


def run_pytest(report: Path, page: Path) -> int:
    """Replay every tuned test; the job summary is left to this script, which knows what changed as well."""
    arguments = shlex.split(os.environ.get("ACF_PYTEST_ARGS", ""))
    command = [sys.executable, "-m", "pytest", f"--acf-report={report}", f"--acf-html={page}", *arguments]
    environment = {name: value for name, value in os.environ.items() if name != "GITHUB_STEP_SUMMARY"}
    return subprocess.run(command, env=environment, check=False).returncode


def compare(span: str) -> tuple[str, list[Json] | None]:
    """What acf diff says in Markdown, and the changes as values; a reason and None where it cannot compare."""
    texts = []
    for style in ("markdown", "json"):
        command = [sys.executable, "-m", "pytest_compileiq.cli", "diff", *([span] if span else []), "--format", style]
        done = subprocess.run(command, capture_output=True, text=True, encoding="utf-8", check=False)
        if done.returncode:
            return f"### Tuned kernels: the change is not known\n\n{span_of_code(done.stderr.strip())}\n", None
        texts.append(done.stdout)
    return texts[0], json.loads(texts[1])["changes"]


def run_section(items: list[Json] | None, changes: list[Json], code: int) -> list[str]:
    """Where each changed artifact was replayed or measured in this run; then all that failed; the rest is counted."""
    title = f"### In this run{where()}\n"
    if items is None:
        return [title, f"pytest ended with exit code {code} and without a report: **nothing was replayed**.\n"]
    by_key = {(item["name"], item["target"]): item for item in items}
    changed = [(change["name"], change["target"]) for change in changes if change["kind"] != "removed"]
    failed = [key for key, item in by_key.items() if item["failed"] and key not in changed]
    rows = [run_row(key, by_key.get(key), others(key, items)) for key in [*changed, *failed]]
    rest = Counter(item["verdict"] for key, item in by_key.items() if key not in {*changed, *failed})
    lines = [title, f"pytest ended with exit code {code}.\n"]
    if rows:
        lines += ["| artifact | verdict | speed | not checked in this run |", "| --- | --- | --- | --- |"]
        lines += fitting(rows, MOST_IN_RUN)
    if rest:
        counted = ", ".join(f"{count} {span_of_code(verdict)}" for verdict, count in rest.most_common())
        lines.append(f"\nArtifacts that this change leaves alone: {counted}.")
    return lines


def others(key: Key, items: list[Json]) -> str:
    """What the run did of the same name for other targets: another compiler or architecture is here."""
    return "; ".join(
        f"{one['verdict']} for {one['target']}: {one['message']}" for one in items if one["name"] == key[0]
    )


def run_row(key: Key, item: Json | None, instead: str) -> str:
    """One artifact in this run."""
    name = " ".join(map(cell, key))
    if item is None:
        return f"| {name} | **not replayed** | | {cell(instead) if instead else 'no test of this run reported on it'} |"
    unchecked = [f"{one['name']}: {one['detail']}" for one in item["checks"] if one["status"] == "not run"]
    said = [item["message"]] if item["failed"] else []
    verdict = f"**{cell(item['verdict'])}**"
    return f"| {name} | {' '.join([verdict, *map(cell, said)])} | {speed(item)} | {'; '.join(map(cell, unchecked))} |"


def speed(item: Json) -> str:
    """Whether the speed was measured in this run, and what it was."""
    now = [one for one in item["results"] if one["evidence"] == "measured now"]
    if now:
        worded = (
            " ".join((*(("worse:",) if one["standing"] == "worse" else ()), one["objective"], one["words"]))
            for one in now
        )
        return f"measured in this run: {'; '.join(map(cell, worded))}"
    return "counted, exact" if item["verdict"] == "PROVEN" else "not measured"


def where() -> str:
    """The machine and the run, as far as they are known."""
    name, kind = os.environ.get("RUNNER_NAME"), f"{os.environ.get('RUNNER_OS')} {os.environ.get('RUNNER_ARCH')}"
    machine = f" on {span_of_code(f'{name}, {kind}')}" if name else ""
    run, repository = os.environ.get("GITHUB_RUN_ID"), os.environ.get("GITHUB_REPOSITORY")
    page = f"{os.environ.get('GITHUB_SERVER_URL')}/{repository}/actions/runs/{run}"
    return f"{machine} ([log and report]({page}))" if run and repository else machine


def fitting(rows: list[str], room: int) -> list[str]:
    """As many rows as fit, and how many do not."""
    kept: list[str] = []
    for row in rows:
        room -= len(row) + 1
        if room < 0:
            return [*kept, f"\n{len(rows) - len(kept)} more do not fit here: see the uploaded report."]
        kept.append(row)
    return kept


def cell(text: str) -> str:
    """A code span for a table's cell, where a bar would end it."""
    return span_of_code(text).replace("|", "\\x7c")


def span_of_code(text: str) -> str:
    """Untrusted text: in a code span nothing is markup, a mention or a link."""
    shown = "".join(one if one.isprintable() else repr(one)[1:-1] for one in text) or " "
    fence = "`" * (1 + max((len(run) for run in re.findall("`+", shown)), default=0))
    padding = " " if shown[0] in "` " or shown[-1] in "` " else ""
    return f"{fence}{padding}{shown}{padding}{fence}"


def cut(text: str, room: int) -> str:
    """At most ``room`` characters of ``text``, cut between lines, with a note that it was."""
    if len(text) <= room:
        return text
    note = "\n**Cut here: the rest does not fit.** The uploaded report holds more.\n"
    closing = "\n</details>\n"
    kept = text[: text.rfind("\n", 0, room - len(note) - len(closing)) + 1]
    is_open = kept.count("<details>") > kept.count("</details>")
    return kept + (closing if is_open else "") + note


if __name__ == "__main__":
    sys.exit(replay(Path(os.environ["RUNNER_TEMP"], "acf-review")))
