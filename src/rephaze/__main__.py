"""The command ``rephaze``, and ``python -m rephaze``."""

from __future__ import annotations

import sys


def main() -> None:
    """Run the command; Ctrl-C before it is even loaded ends it without a traceback, as later."""
    try:
        from rephaze.cli.main import run
    except KeyboardInterrupt:
        sys.exit(130)
    run()


if __name__ == "__main__":
    main()
