"""The review's two jobs: the replay against a real git repository, the comment against a GitHub of our own."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import textwrap
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest

from pytest_compileiq.store.metadata import render
from pytest_compileiq.store.store import Store
from tests.repository import git

pytestmark = pytest.mark.slow

GITHUB = Path(__file__).parents[2] / ".github"
REPLAY = GITHUB / "actions" / "replay.py"
COMMENT = textwrap.dedent((GITHUB / "workflows" / "acf-comment.yml").read_text().partition("        run: |\n")[2])
BOT = "github-actions[bot]"
MARKER = "<!-- acf-review acf -->"
HOSTILE = "H200 | <img src=x onerror=alert(1)> @everyone `![x](http://evil.example/x)"


class GitHub:
    """One pull request's comments. ``deny`` maps methods to status codes."""

    def __init__(self) -> None:
        self.comments: list[dict] = []
        self.asked: list[str] = []
        self.tokens: set[str | None] = set()
        self.deny: dict[str, int] = {}

    def add(self, body: str, login: str = BOT) -> None:
        self.comments.append({"id": 100 + len(self.comments), "body": body, "user": {"login": login}})

    def answer(self, method: str, target: str, content: dict | None) -> tuple[int, object]:
        self.asked.append(f"{method} {target}")
        if method in self.deny:
            return self.deny[method], {"message": "Resource not accessible by integration"}
        if content is not None and len(content["body"]) > 65_536:
            return 422, {"message": "Body is too long"}
        parts = urlsplit(target)
        if method == "GET":
            assert parts.path == "/repos/ada/kernels/issues/7/comments"
            page, size = (int(parse_qs(parts.query)[name][0]) for name in ("page", "per_page"))
            return 200, self.comments[(page - 1) * size : page * size]
        if method == "POST":
            assert parts.path == "/repos/ada/kernels/issues/7/comments"
            self.add(content["body"])
            return 201, self.comments[-1]
        (one,) = [one for one in self.comments if parts.path == f"/repos/ada/kernels/issues/comments/{one['id']}"]
        one["body"] = content["body"]
        return 200, one


@pytest.fixture
def github():
    state = GitHub()

    class Handler(BaseHTTPRequestHandler):
        def handle_any(self) -> None:
            data = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            state.tokens.add(self.headers.get("Authorization"))
            code, content = state.answer(self.command, self.path, json.loads(data) if data else None)
            payload = json.dumps(content).encode()
            self.send_response(code)
            self.send_header("Content-Length", str(len(payload)))
            self.end_headers()
            self.wfile.write(payload)

        do_GET = do_POST = do_PATCH = handle_any

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    state.url = f"http://127.0.0.1:{server.server_port}"
    yield state
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.fixture
def job(tmp_path, github):
    """One job of pull request 7; returns what it printed. ``job.out`` is what the first uploads and the second downloads.

    The token is in the comment's environment alone, as in the workflows.
    """

    def step(command, *, cwd=tmp_path, code=0, **environment):
        names = ("PYTEST_", "GITHUB_", "ACF_", "RUNNER_", "COMPILEIQ_")
        kept = {key: value for key, value in os.environ.items() if not key.startswith(names)}
        told = {
            "GITHUB_API_URL": github.url, "GITHUB_REPOSITORY": "ada/kernels", "GITHUB_STEP_SUMMARY": str(step.summary),
            "GITHUB_ACTIONS": "true", "GITHUB_SERVER_URL": "https://github.com", "GITHUB_RUN_ID": "42",
            "RUNNER_TEMP": str(tmp_path), "RUNNER_NAME": "box-1",
            "RUNNER_OS": "Linux", "RUNNER_ARCH": "X64", "NO_PROXY": "127.0.0.1", "no_proxy": "127.0.0.1",
        }  # fmt: skip
        if command == "comment":
            told |= {"GITHUB_TOKEN": "t0ken", "ACF_PULL_REQUEST": "7", "ACF_KEY": "acf"}
            script = tmp_path / "comment.py"
            script.write_text(COMMENT)
            arguments = ["-I", script]
        else:
            arguments = [REPLAY]
        done = subprocess.run(
            [sys.executable, *arguments],
            cwd=cwd, env=kept | told | environment, capture_output=True, text=True, timeout=200, check=False,
        )  # fmt: skip
        assert done.returncode == code, done.stdout + done.stderr
        assert "Traceback" not in done.stderr
        return done.stdout

    def write(text):
        step.out.mkdir(exist_ok=True)
        (step.out / "comment.md").write_text(text)

    step.out, step.summary, step.write = tmp_path / "acf-review", tmp_path / "summary.md", write
    return step


# ── the comment ──────────────────────────────────────────────────────────────────────────────────────────────────────


def test_the_first_run_writes_the_comment_and_the_next_updates_it(job, github):
    job.write("first\n")
    assert "written" in job("comment")
    job.write("second\n")
    (job.out / "quiet").touch()  # it brings what was said up to date
    assert "updated" in job("comment")
    assert [one["body"] for one in github.comments] == [f"{MARKER}\nsecond\n"]
    assert github.tokens == {"Bearer t0ken"}


def test_where_nothing_tuned_changed_no_comment_begins(job, github):
    job.write("nothing\n")
    (job.out / "quiet").touch()
    assert "no comment" in job("comment")
    assert github.comments == []


def test_the_comment_is_found_on_a_later_page(job, github):
    for number in range(230):
        github.add(f"hello {number}")
    github.add(f"{MARKER}\nold\n")
    job.write("new\n")
    assert "updated" in job("comment")
    assert [request.partition("page=")[2][-1] for request in github.asked[:3]] == ["1", "2", "3"]
    assert (len(github.comments), github.comments[-1]["body"]) == (231, f"{MARKER}\nnew\n")


def test_exactly_one_full_page_without_our_comment_ends_the_search(job, github):
    for number in range(100):
        github.add(f"hello {number}")
    job.write("new\n")
    assert "written" in job("comment")
    assert [request.split()[0] for request in github.asked] == ["GET", "GET", "POST"]


def test_comments_of_others_and_of_another_project_are_left_alone(job, github):
    github.add(f"{MARKER}\nmine", login="ada")
    github.add(f"> {MARKER}\nquoted")
    github.add("<!-- acf-review other -->\nkept")
    job.write("new\n")
    assert "written" in job("comment")
    assert [one["body"].splitlines()[1] for one in github.comments] == ["mine", "quoted", "kept", "new"]


@pytest.mark.parametrize(
    ("deny", "environment", "why"),
    [
        (
            {"GET": 403},
            {},
            "GitHub answered GET with 403: this run's token may only read, as on pull requests from forks",
        ),
        ({"POST": 403}, {}, "GitHub answered POST with 403: this run's token may only read"),
        ({"GET": 502}, {}, "answered GET with 502. The summary of the replay is the review."),
        ({}, {"ACF_PULL_REQUEST": ""}, "belongs to no pull request"),
        ({}, {"ACF_PULL_REQUEST": "7/../8"}, "belongs to no pull request"),
        ({}, {"GITHUB_API_URL": "http://127.0.0.1:1"}, "could not be reached"),
    ],
)
def test_a_comment_that_cannot_be_written_is_a_notice(job, github, deny, environment, why):
    github.deny = deny
    job.write("review\n")
    printed = job("comment", **environment)
    assert printed.startswith("::notice title=acf-review::No comment was written")
    assert why in printed
    assert github.comments == []


def test_a_replay_that_did_not_end_is_a_warning(job, github):
    assert job("comment").startswith("::warning title=acf-review::There is no review")
    assert github.asked == []


def test_a_body_that_is_too_long_is_cut_between_lines_with_a_note(job, github):
    row = f"- {'ä' * 98}\n"
    job.write(f"<details><summary>x</summary>\n\n{row * 9000}\n</details>\n")
    assert "written" in job("comment")
    (body,) = [one["body"] for one in github.comments]
    assert 65_000 < len(body) <= 65_536
    assert "Cut here" in body.splitlines()[-1]
    assert body.count("</details>") == 1
    assert set(body.splitlines()[3:-4]) == {row.rstrip("\n")}


def test_a_hostile_artifact_runs_nothing_and_publishes_no_token(job, github, tmp_path):
    job.write("`$(touch ran)` ${{ github.token }}\n::set-output name=x::y")
    trap = "open('ran', 'w').write('x')"
    for directory in (job.out, tmp_path):  # beside the script, in the working directory, in the artifact
        for name in ("json.py", "urllib.py", "sitecustomize.py", "re.py"):
            (directory / name).write_text(trap)
        (directory / "evil.pth").write_text(f"import os; {trap}")
    assert (
        job("comment", PYTHONPATH=str(job.out), PYTHONSTARTUP=str(job.out / "json.py")) == "the comment was written\n"
    )
    assert github.comments[0]["body"].endswith("$(touch ran)` ${{ github.token }}\n::set-output name=x::y")
    (job.out / "comment.md").unlink()
    (job.out / "comment.md").symlink_to("/proc/self/environ")
    assert "There is no review" in job("comment")
    assert not list(tmp_path.rglob("ran"))
    assert "t0ken" not in json.dumps(github.comments)


# ── the replay ───────────────────────────────────────────────────────────────────────────────────────────────────────


def commit(home: Path) -> str:
    git(home, "add", "-A")
    git(home, "commit", "-qm", "x")
    return git(home, "rev-parse", "HEAD")


@pytest.fixture
def branch(tuned):
    """A base without artifacts and a head with a tuned kernel; ``branch.base`` is the base commit."""
    store = tuned.root / "acf"
    store.rename(tuned.root / "away")
    git(tuned.root, "init", "-q", "-b", "main")
    (tuned.root / ".gitignore").write_text("__pycache__\n.compileiq\naway\n")
    base = commit(tuned.root)
    (tuned.root / "away").rename(store)
    commit(tuned.root)
    return tuned, base


def replay(job, project, base, code=0, **environment):
    arguments = "-p no:cacheprovider -p no:randomly -p no:xdist --acf-check=replay"
    printed = job(
        "replay", cwd=project.root, code=code, **{"ACF_BASE": base, "ACF_PYTEST_ARGS": arguments, **environment}
    )
    return printed, (job.out / "comment.md").read_text()


def test_a_new_kernel_is_told_with_its_gain_its_replay_and_what_was_not_measured(branch, job, github, tmp_path):
    project, base = branch
    outputs = tmp_path / "outputs"
    _, text = replay(job, project, base, GITHUB_OUTPUT=str(outputs))
    assert re.match(r"- `kernel` `\S+`: \*\*now .+\*\*\n\n### Tuned kernels: 1 added\n", text)
    assert "on `box-1, Linux X64` ([log and report](https://github.com/ada/kernels/actions/runs/42))" in text
    assert re.search(r"\| `kernel` `\S+` \| \*\*`REPLAYED`\*\* \| not measured \| `speed: --acf-check=replay` \|", text)
    assert outputs.read_text() == f"out={job.out}\n"
    assert (job.out / "report.html").stat().st_size > 1000
    assert job.summary.read_text() == text  # pytest leaves it to the script
    job("comment")
    assert [one["body"] for one in github.comments] == [f"{MARKER}\n{text}"]


def test_a_stale_kernel_fails_the_replay_and_is_told_although_the_change_left_it_alone(branch, job):
    project, _ = branch
    project.edit("kernel.c", "+ 1.0f", "+ 2.0f")
    head = commit(project.root)
    printed, text = replay(job, project, f"{head}~", code=1)
    assert "no artifact changed" in text
    assert "| **`STALE`** `" in text
    assert "pytest ended with exit code 1." in text
    assert not (job.out / "quiet").exists()
    assert "::error file=" in printed


def test_a_changed_artifact_that_no_test_replayed_is_said_to_be_so(branch, job):
    project, base = branch
    (project.root / "test_kernel.py").write_text("def test_other():\n    pass\n")
    _, text = replay(job, project, base)
    assert not (job.out / "quiet").exists()
    assert "**not replayed** | | no test of this run reported on it |" in text


def test_a_run_without_a_report_says_that_nothing_was_replayed(branch, job):
    project, base = branch
    _, text = replay(job, project, base, code=4, ACF_PYTEST_ARGS="--no-such-option")
    assert "exit code 4 and without a report: **nothing was replayed**" in text
    assert "1 added" in text


def test_a_base_that_is_not_here_is_said_and_the_replay_is_told_all_the_same(branch, job):
    project, _ = branch
    _, text = replay(job, project, "0" * 40)
    assert "### Tuned kernels: the change is not known" in text
    assert "leaves alone: 1 `REPLAYED`" in text


def test_hostile_texts_of_an_artifact_stay_inside_code_spans(branch, job, github):
    project, base = branch
    path = project.one("acf/kernel/*.toml")
    artifact = Store(project.root / "acf").read("kernel", path.stem)
    claims = tuple(claim.model_copy(update={"device": HOSTILE}) for claim in artifact.claims)
    path.write_bytes(render(artifact.model_copy(update={"claims": claims})))
    commit(project.root)
    _, text = replay(job, project, base, code=1)
    job("comment")
    assert github.comments[0]["body"] == f"{MARKER}\n{text}"
    assert "@everyone" in text
    outside = re.sub(r"(`+)(?!`).*?(?<!`)\1(?!`)", "", text)
    assert not re.search(r"<img|@everyone|\]\(http://evil", outside)
    table = text.partition("### In this run")[2]
    assert all(row.count("|") == 5 for row in table.splitlines() if row.startswith("| `"))


def test_a_change_of_no_kernel_is_quiet_and_no_process_has_a_token(branch, job):
    project, _ = branch
    (project.root / "conftest.py").write_text("import os\nopen('environ', 'w').write(repr(dict(os.environ)))\n")
    head = commit(project.root)
    _, text = replay(job, project, head)
    assert (job.out / "quiet").exists()
    assert "1 `REPLAYED`" in text
    assert not re.search("t0ken|GITHUB_TOKEN", (project.root / "environ").read_text())


@pytest.mark.parametrize("script", [REPLAY.read_text(), COMMENT], ids=["replay", "comment"])
def test_a_script_needs_the_standard_library_alone(script):
    lines = re.findall(r"^(?:import|from) (\w+.*)", script, re.MULTILINE)
    assert {
        re.match(r"\w+", name)[0] for line in lines for name in line.split(" import ")[0].split(", ")
    } <= sys.stdlib_module_names
