"""Everything that an hour with a GPU should yield: python -m bench.gpu_evidence COMMAND, of the standard library alone.

bundle DIR   where there is a network: the wheels that a machine without one needs
run          the next steps, as many as nine minutes hold; the same command again goes on, also after it was killed
"""

import sys
from importlib import import_module

COMMANDS = ("bundle", "run")

if __name__ == "__main__":
    command, *arguments = sys.argv[1:] or ["--help"]
    if command not in COMMANDS:
        sys.exit(__doc__)
    sys.exit(import_module(f"bench.gpu_evidence.{command}").main(arguments))
