"""Scripts of bench/ import each other by their bare names, as from their own folder."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parents[3] / "bench"))
