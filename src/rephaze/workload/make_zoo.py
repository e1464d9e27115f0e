"""Makes the shipped graphs anew: ``python -m rephaze.workload.make_zoo [name ...]``."""

from __future__ import annotations

import sys

from rephaze.types.graph import ModelGraph
from rephaze.workload.extract.extraction import ATTENTION_MODES, extract_config
from rephaze.workload.graph_file import write_graph
from rephaze.workload.zoo import ZOO_NAMES, zoo_config, zoo_graph_path


def extract_zoo_model(name: str, attention: str) -> ModelGraph:
    """A zoo model's graph, extracted from its config."""
    facts = zoo_config(name)
    return extract_config(facts["config"], name=name, seq_len=facts["seq_len"], attention=attention)


def main(names: list[str]) -> None:
    """Write the graphs of the named models, or of all."""
    for name in names or list(ZOO_NAMES):
        for attention in ATTENTION_MODES:
            write_graph(extract_zoo_model(name, attention), zoo_graph_path(name, attention))


if __name__ == "__main__":
    main(sys.argv[1:])
