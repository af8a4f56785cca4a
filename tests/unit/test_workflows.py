"""The workflows and the action by their text: what they run is pinned, and nothing of a pull request reaches a shell."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
GITHUB = ROOT / ".github"
WORKFLOWS = sorted((GITHUB / "workflows").glob("*.yml"))
FILES = [*WORKFLOWS, ROOT / "action.yml"]
each_workflow = pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.stem)
each_file = pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)


def scripts(text: str) -> list[str]:
    """Every run: of a file, a block's lines joined."""
    found, lines = [], text.splitlines()
    for number, line in enumerate(lines):
        if match := re.match(r"( *)(- )?run: (.*)", line):
            column = len(match[1]) + len(match[2] or "")
            block = [match[3]]
            for more in lines[number + 1 :]:
                if more.strip() and len(more) - len(more.lstrip()) <= column:
                    break
                block.append(more)
            found.append("\n".join(block))
    return found


def test_there_are_workflows_for_cpu_gpu_and_review():
    assert {path.stem for path in WORKFLOWS} >= {"ci", "gpu", "acf-review"}


@each_file
def test_every_action_is_pinned_by_commit_and_names_its_version(path):
    for used in re.findall(r"uses: *(.*)", path.read_text()):
        assert used.startswith("./") or re.fullmatch(r"[\w./-]+@[0-9a-f]{40}  # v\d+\.\d+\.\d+", used), used


def test_an_action_has_one_version_in_all_files():
    used = {found for path in FILES for found in re.findall(r"uses: *([\w/-]+)@(\w+)", path.read_text())}
    assert len(used) == len({action for action, _ in used})


@each_workflow
def test_a_workflow_may_only_read_unless_a_job_says_more(path):
    assert re.search(r"^permissions:(\n  contents: read| \{\})\n\S*$", path.read_text(), re.MULTILINE)


@each_workflow
def test_no_workflow_runs_a_pull_request_with_the_rights_of_its_base(path):
    assert not re.search(r"pull_request_target|workflow_run|secrets\.", path.read_text())


@each_workflow
def test_a_checkout_leaves_no_token_behind(path):
    text = path.read_text()
    assert text.count("actions/checkout@") == text.count("persist-credentials: false")


def test_the_token_is_in_a_job_that_runs_nothing_of_the_project():
    replay, comment = (ROOT / "action.yml").read_text(), (GITHUB / "workflows" / "acf-comment.yml").read_text()
    assert not re.search(r"github\.token|GITHUB_TOKEN|\n  token:", replay)
    assert re.findall(r"uses: ([\w/-]+)", comment) == ["actions/download-artifact"]
    assert re.findall(r"shell: (.*)", comment) == ["/usr/bin/python3 -I {0}"]
    assert len(scripts(comment)) == 1
    assert not re.search(r"needs|outputs|subprocess|os\.system|exec|eval", comment)
    callers = [
        path.read_text() for path in WORKFLOWS if "uses: ./.github/workflows/acf-comment.yml" in path.read_text()
    ]
    for text in callers:
        before, _, job = text.partition("\n  comment:\n")
        assert not re.search(r": write|token", before)
        assert "steps:" not in job
    assert callers


@each_file
def test_no_script_holds_an_expression(path):
    assert scripts(path.read_text())
    assert not [script for script in scripts(path.read_text()) if "${{" in script]


def test_only_jobs_that_comment_or_append_the_history_may_write():
    granted = {path.stem: re.findall(r"^ +(.*: write)\b", path.read_text(), re.MULTILINE) for path in WORKFLOWS}
    assert {workflow: rights for workflow, rights in granted.items() if rights} == {
        "acf-comment": ["pull-requests: write"],
        "acf-review": ["pull-requests: write"],
        "history": ["contents: write"],
    }


def test_what_appends_the_history_runs_by_night_on_the_default_branch_and_forces_nothing():
    text = (GITHUB / "workflows" / "history.yml").read_text()
    assert "pull_request" not in text
    assert "github.event.repository.default_branch" in text
    assert "HEAD:refs/heads/acf-history" in text
    assert not re.search(r"--force|push .*-f\b|\+HEAD", text)


def test_a_machine_of_ones_own_runs_no_pull_request():
    text = "".join(path.read_text() for path in WORKFLOWS if "self-hosted" in path.read_text())
    assert "acf_no_device=fail" in text
    assert "schedule:" in text
    assert "workflow_dispatch:" in text
    assert "pull_request" not in text


@each_file
def test_every_file_is_yaml_with_jobs_or_steps(path):
    yaml = pytest.importorskip("yaml", reason="PyYAML is not installed: the files are checked by their text alone")
    content = yaml.safe_load(path.read_text())
    jobs = content.get("jobs") or {"action": content["runs"]}
    for job in [job for job in jobs.values() if "uses" not in job]:
        assert all(("uses" in step) != ("run" in step) for step in job["steps"])
        assert "jobs" not in content or job["timeout-minutes"] <= 60
