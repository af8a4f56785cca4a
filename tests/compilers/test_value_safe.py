"""The search for a value-safe candidate that changes bits, in short; ``bench/value_safe.py`` is the long one."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

BENCH = Path(__file__).parents[2] / "bench" / "value_safe.py"


def test_value_safe_candidates_keep_every_bit_where_no_licence_is_found():
    command = [sys.executable, str(BENCH), "--candidates", "8", "--kernels", "sums,logistic"]
    finished = subprocess.run(command, capture_output=True, text=True, check=False)
    assert finished.returncode == 0, finished.stdout[-3000:] + finished.stderr[-3000:]
    assert "nothing unexplained" in finished.stdout
