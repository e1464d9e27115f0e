"""A small recorded run, for commands that read one."""

import json
from pathlib import Path

from tests.fuzz.seeds import RUN_FILE, graph
from tests.fuzz.toml_text import toml_text


def record_run(folder: Path) -> Path:
    """Search a few chips for a tiny model and return the run's folder."""
    from rephaze.api import explore

    (folder / "graph.json").write_text(json.dumps(graph()))
    asked = RUN_FILE | {"search": RUN_FILE["search"] | {"models": [str(folder / "graph.json")]}}
    (folder / "run.toml").write_text(toml_text(asked))
    explore(config=folder / "run.toml", store=folder / "run", num_workers=1)
    return folder / "run"
