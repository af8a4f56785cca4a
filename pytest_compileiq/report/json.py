"""The JSON report."""

from __future__ import annotations

import json
from pathlib import Path

from pytest_compileiq.report.model import RunReport


def write_json(report: RunReport, path: Path) -> None:
    """Write the versioned report to ``path``, making its directory."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(report.as_dict(), indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
