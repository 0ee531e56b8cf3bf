"""The command line. Exit codes: 0 done, 1 failed, 2 bad usage or spec, 130 interrupted."""

import sys
from typing import NoReturn


def main() -> NoReturn:
    """Run the command that the program was called with."""
    try:
        from driftbandits.cli.commands import run
    except ModuleNotFoundError as error:
        if error.name != "click":
            raise
        sys.stderr.write("Error: the commands need click: pip install 'driftbandits[all]'\n")
        sys.exit(1)
    sys.exit(run(sys.argv[1:]))
