"""A page of the documentation as a script: its blocks make a project, run commands in it, and compare what they print.

A block whose first line is a comment with a file's name is that file; a ``diff`` block changes the file that its first
line names. In a ``console`` block each line after ``$ `` is run by a shell, and what stands below is what it prints:
``…`` in a line stands for any text, alone in a line for any lines; numbers, digests, rules and the width of gaps are
not compared. What a reader need not see is said in a comment ``<!-- test: … -->``: ``starts from PAGE``,
``needs MARK …``, ``file NAME is PATH``, ``run: COMMAND``; of the block that follows, ``not run: REASON`` or
``from PATH``, a file of this repository that holds it. ``needs`` above the first block is about the page.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tests import needs
from tests.projects import UNREDUCED_INI

ROOT = Path(__file__).parents[2]
_PIECE = re.compile(r"^<!-- test: (?P<note>.+?) -->$|^```(?P<language>\w+)[^\n]*\n(?P<text>.*?)^```$", re.M | re.S)
_FILE_NAME = re.compile(r"(?:#|//|;) ([\w./-]+\.\w+)\n")
# What users have not installed, or what would reorder, distribute or slow down.
_OWN_PLUGINS = " ".join(
    f"-p no:{name}" for name in ("cacheprovider", "randomly", "xdist", "rerunfailures", "hypothesispytest", "anyio")
)
_NO_GPU = pytest.mark.skipif(shutil.which("nvidia-smi") is not None, reason="it shows a machine without a GPU")
_KEPT_OUT = ("PYTEST_", "COMPILEIQ_", "GIT_", "GITHUB_", "MAKE", "MFLAGS")


@dataclass
class Block:
    """A fenced block, and what its comments say of it."""

    language: str
    text: str
    needs: list[str] = field(default_factory=list)
    not_run: str | None = None
    quoted: str | None = None

    @property
    def file(self) -> str | None:
        """The file that the block is."""
        named = _FILE_NAME.match(self.text)
        return named[1] if named and self.language not in ("console", "diff") else None

    def commands(self) -> Iterator[tuple[str, str]]:
        """Each command with the output shown below it."""
        for part in re.split(r"^\$ ", self.text, flags=re.MULTILINE)[1:]:
            command, _, output = part.partition("\n")
            while command.endswith("\\"):
                more, _, output = output.partition("\n")
                command = f"{command[:-1]}{more}"
            yield command.partition("  # ")[0].strip(), output.rstrip("\n")


@dataclass
class Page:
    """A page: where its project comes from, what it needs, its blocks."""

    name: str
    start: str | None = None
    needs: list[str] = field(default_factory=list)
    given: dict[str, str] = field(default_factory=dict)
    blocks: list[Block] = field(default_factory=list)

    @property
    def runs(self) -> bool:
        """Whether a command is shown as run."""
        return any(block.language == "console" and not (block.not_run or block.quoted) for block in self.blocks)


def read_page(path: Path) -> Page:
    """The page at ``path``, under the repository's root."""
    page = Page(path.relative_to(ROOT).as_posix())
    wanted: list[str] = []
    reason = quoted = None
    for piece in _PIECE.finditer(path.read_text(encoding="utf-8")):
        if (note := piece["note"]) is None:
            page.blocks.append(Block(piece["language"], piece["text"], wanted, reason, quoted))
            wanted, reason, quoted = [], None, None
        elif note.startswith("starts from "):
            page.start = note.removeprefix("starts from ")
        elif note.startswith("needs "):
            listed = note.removeprefix("needs ").split()
            if page.blocks:
                wanted = listed
            else:
                page.needs += listed
        elif given := re.fullmatch(r"file (\S+) is (\S+)", note):
            page.given[given[1]] = given[2]
        elif note.startswith("run: "):
            page.blocks.append(Block("console", f"$ {note.removeprefix('run: ')}\n…\n", page.needs))
        elif note.startswith("from "):
            quoted = note.removeprefix("from ")
        elif note.startswith("not run: "):
            reason = note.removeprefix("not run: ")
        else:
            raise ValueError(f"{path}: what is <!-- test: {note} -->?")
    return page


def missing(names: list[str]) -> str | None:
    """Why what is needed is not here, or None: marks of ``tests/needs.py``, ``no_gpu``, or programs."""
    for name in names:
        mark = _NO_GPU if name == "no_gpu" else getattr(needs, name, None)
        if mark is not None and mark.args[0]:
            return str(mark.kwargs["reason"])
        if mark is None and shutil.which(name) is None:
            return f"no {name} on PATH"
    return None


def perform(page: Page, root: Path, project_of: Callable[[str], Path]) -> Path:
    """Do what the page does, in a project under ``root``; ``project_of`` gives the project of the page it starts from."""
    project = root / "project"
    if reason := missing(page.needs):
        pytest.skip(reason)
    if page.start is None:
        project.mkdir(parents=True)
        # What makes a winner small takes seconds: only pages that show it wait for that.
        is_reduced = any("controls →" in block.text for block in page.blocks)
        (project / "pytest.ini").write_text("[pytest]\n" if is_reduced else UNREDUCED_INI)
    else:
        shutil.copytree(project_of(page.start), project)
    for name, source in page.given.items():
        shutil.copy(ROOT / source, project / name)
    for block in page.blocks:
        if not (block.not_run or block.quoted or missing(block.needs)):
            _do(block, page.name, project)
    return project


def _do(block: Block, page: str, project: Path) -> None:
    if block.file:
        (project / block.file).parent.mkdir(parents=True, exist_ok=True)
        (project / block.file).write_text(block.text, encoding="utf-8")
    elif block.language == "diff":
        apply_diff(block.text, project)
    elif block.language == "console":
        for command, shown in block.commands():
            compare(f"{page}: $ {command}", shown, _run(command, project))


def apply_diff(text: str, project: Path) -> None:
    """Replace the lines marked `` `` and ``-`` by those marked `` `` and ``+`` in the file that ``--- FILE`` names."""
    head, _, body = text.partition("\n")
    path = project / head.removeprefix("--- ")
    lines = body.splitlines(keepends=True)
    old, new = ("".join(line[1:] for line in lines if line[0] in marks) for marks in (" -", " +"))
    before = path.read_text(encoding="utf-8")
    assert before.count(old) == 1, f"{path.name} does not hold once:\n{old}"
    path.write_text(before.replace(old, new), encoding="utf-8")


def _run(command: str, project: Path) -> str:
    kept = {name: value for name, value in os.environ.items() if not name.startswith(_KEPT_OUT)}
    person = {f"GIT_{role}_{what}": text for role in ("AUTHOR", "COMMITTER") for what, text in _ADA.items()}
    environment = kept | person | {
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}", "LC_ALL": "C.UTF-8",
        "HOME": str(project.parent / "home"), "PYTEST_ADDOPTS": _OWN_PLUGINS, "GIT_CONFIG_NOSYSTEM": "1",
    }  # fmt: skip
    done = subprocess.run(
        ["bash", "-c", command], cwd=project, env=environment, text=True, timeout=300, check=False,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
    )  # fmt: skip
    assert "Traceback" not in done.stdout, done.stdout
    return done.stdout.strip("\n")


_ADA = {"NAME": "Ada", "EMAIL": "ada@example.org"}


def compare(what: str, shown: str, printed: str) -> None:
    """Hold ``printed`` against ``shown``.

    Raises:
        AssertionError: it is something else.
    """
    pattern = "".join(
        r"(?:.*\n)*?" if line.strip() == "…" else re.escape(normal(line)).replace("…", ".*?") + r"[ ]?\n"
        for line in shown.splitlines()
    )
    at_rest = (line for line in printed.splitlines() if "this machine is noisy" not in line)
    text = "".join(f"{normal(line)}\n" for line in at_rest)
    assert re.fullmatch(pattern, text), f"{what}\n── shown ──\n{shown}\n── printed ──\n{printed}"


def normal(line: str) -> str:
    """``line`` without what differs from run to run."""
    line = re.sub(r"(\d ?s) \(\d+:\d\d:\d\d\)", r"\1", line)  # pytest's own of more than a minute
    line = re.sub(r"\b(?=[a-f]*\d)[0-9a-f]{8,64}\b", "0", line)
    line = re.sub(r"\d+(?:,\d{3})*(?:\.\d+)?(?:e[+-]?\d+)?", "0", line)
    line = re.sub(r"([=─_-])\1{2,}", r"\1\1\1", line)
    return re.sub(r"\s+", " ", line).rstrip()
