"""The JSON report."""

from __future__ import annotations

from pathlib import Path

from pytest_compileiq.outcome import RunReport
from pytest_compileiq.system.files import write_output
from pytest_compileiq.system.printing import json_text


def write_json(report: RunReport, path: Path) -> None:
    """Write the versioned report to ``path``, whose directory is created if missing."""
    path.parent.mkdir(parents=True, exist_ok=True)
    write_output(path, json_text(report.as_dict()) + "\n")
