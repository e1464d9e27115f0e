"""``python -m rephaze``: the same as the command ``rephaze``."""

from rephaze.cli.main import run

if __name__ == "__main__":  # workers import this module too
    run()
