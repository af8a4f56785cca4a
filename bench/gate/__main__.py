"""How far the gate can be trusted, measured: python bench/gate COMMAND, in this order.

record    real trials of equal arms and of known gains, raw samples kept (resumes; again with --loaded)
judge     the same samples judged by the gate and by the recipes in use: false positives, power, seconds
simulate  the gate under noise of known kinds, 10,000 trials each
families  many comparisons at once: true gains that have to be found, and losses at the margin
samples   a proof's two samples, and a refutation's two measurements, where the truth is known
plot      the figures of docs/explanation/gate.md
"""

import sys
from importlib import import_module
from pathlib import Path

COMMANDS = ("record", "judge", "simulate", "families", "samples", "plot")

if __name__ == "__main__":
    command, *arguments = sys.argv[1:] or ["--help"]
    if command not in COMMANDS:
        sys.exit(__doc__)
    sys.path[0] = str(Path(__file__).parents[1])  # bench/, so that its machine.py is found
    import_module(f"gate.{command}").main(arguments)
