"""`python -m driftbandits` is the command `driftbandits`."""

from driftbandits.cli import main

if __name__ == "__main__":
    main()
