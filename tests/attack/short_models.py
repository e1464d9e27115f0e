"""Models small enough to be solved slowly: the tiny graphs of the tests, and zoo models with few of their blocks.

``mixtral-8x7b:2`` is the zoo's model with the first two layers of each of its layer types; operators, experts,
branches and tied weights are as they are. ``python -m tests.attack.short_models NAME FILE`` writes one.
"""

from __future__ import annotations

import atexit
import sys
from dataclasses import replace
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

from rephaze.types.graph import ModelGraph
from rephaze.workload.graph_file import write_graph
from rephaze.workload.zoo import load_model

DATA = Path(__file__).parents[1] / "data"
TINY = {"tiny-gpt": "tiny-gpt-fused.json.gz", "tiny-llama": "tiny-llama-fused.json.gz"}


def model_source(name: str) -> str:
    """What a search takes for a model: a zoo name as it is, else the graph file."""
    if name in TINY:
        return str(DATA / TINY[name])
    return _written(name) if ":" in name else name


@cache
def small_model(name: str) -> ModelGraph:
    """The graph of a model by the name it has here."""
    return load_model(model_source(name), "fused")


@cache
def _written(name: str) -> str:
    path = Path(_folder()) / f"{name.replace(':', '-')}.json"
    write_graph(shortened(name), path)
    return str(path)


@cache
def _folder() -> str:
    folder = TemporaryDirectory(prefix="short-models-")
    atexit.register(folder.cleanup)
    return folder.name


def shortened(name: str) -> ModelGraph:
    """A zoo model with so many layers of each layer type, the first ones."""
    zoo_name, most = name.rsplit(":", 1)
    whole = load_model(zoo_name, "fused")
    seen: dict[int, list[int]] = {}
    for v, kind in enumerate(whole.layer_type_of):
        seen.setdefault(kind, []).append(v)
    kept = sorted(v for own in seen.values() for v in own[: int(most)])
    at = {v: number for number, v in enumerate(kept)}

    def stand_in(v: int) -> int:
        """The layer whose outputs take the place of one that is left out: the last like it."""
        if v in at:
            return at[v]
        return at[seen[whole.layer_type_of[v]][: int(most)][-1]]

    edges = {(stand_in(edge.src), at[edge.dst]): edge.payload_bytes for edge in whole.edges if edge.dst in at}
    tied = [replace(one, layers=tuple(at[v] for v in one.layers if v in at)) for one in whole.tied]
    return replace(
        whole,
        name=name.replace(":", "-"),
        layer_names=tuple(whole.layer_names[v] for v in kept),
        layer_type_of=tuple(whole.layer_type_of[v] for v in kept),
        edges=tuple(
            replace(whole.edges[0], src=src, dst=dst, payload_bytes=size)
            for (src, dst), size in sorted(edges.items())
            if src < dst
        ),
        tied=tuple(one for one in tied if len(one.layers) > 1),
    )


if __name__ == "__main__":
    write_graph(shortened(sys.argv[1]), Path(sys.argv[2]))
