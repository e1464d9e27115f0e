"""Times of a graph's layers that are not those of its records: other chips, the same problem.

Axis letters: v = layer, k = point of ``keep``.
"""

from __future__ import annotations

from dataclasses import replace
from operator import attrgetter
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from rephaze.errors import SpecError
from rephaze.types.full import FullGraph, KeepPoint

Floats = NDArray[np.float64]


_TIMES = attrgetter("forward_s", "backward_s", "weight_backward_s", "keep")


class LayerTimes(NamedTuple):
    """All layers of one graph; a layer with fewer points of ``keep`` than another repeats its last."""

    forward_s_v: Floats
    backward_s_v: Floats
    weight_backward_s_v: Floats
    replay_s_vk: Floats
    kept_bytes_vk: Floats
    """What is worth keeping depends on times, so it may differ from chip to chip."""


def recorded_times(graph: FullGraph) -> LayerTimes:
    """The times of a graph's records."""
    forward_s, backward_s, weight_backward_s, keeps = zip(*map(_TIMES, graph.layers), strict=True)
    # Most layers share their points with others: each list is read once.
    of_layer = list(map(id, keeps))
    lists = dict(zip(of_layer, keeps, strict=True))
    position = {one: at for at, one in enumerate(lists)}
    num_points = max(map(len, lists.values()))
    padded = [[*keep, *[keep[-1]] * (num_points - len(keep))] for keep in lists.values()]
    of_v = np.array([position[one] for one in of_layer], dtype=np.int64)
    return LayerTimes(
        forward_s_v=np.array(forward_s, dtype=np.float64),
        backward_s_v=np.array(backward_s, dtype=np.float64),
        weight_backward_s_v=np.array([one or 0.0 for one in weight_backward_s], dtype=np.float64),
        replay_s_vk=np.array([[point.replay_s for point in row] for row in padded], dtype=np.float64)[of_v],
        kept_bytes_vk=np.array([[point.kept_bytes for point in row] for row in padded], dtype=np.float64)[of_v],
    )


def checked_times(graph: FullGraph, times: LayerTimes) -> LayerTimes:
    """The same as contiguous arrays; ``SpecError`` where a shape is not that of the graph."""
    made = LayerTimes(*(np.ascontiguousarray(array, dtype=np.float64) for array in times))
    num_layers = len(graph.layers)
    for name, array in zip(LayerTimes._fields, made, strict=True):
        if array.shape[0] != num_layers or array.ndim != (2 if name.endswith("_vk") else 1):
            raise SpecError(f"times.{name}", array.shape, f"must have a row for each of {num_layers} layers")
    if made.replay_s_vk.shape != made.kept_bytes_vk.shape or not made.replay_s_vk.shape[1]:
        rule = "replay_s_vk and kept_bytes_vk must have as many points of keep, one or more"
        raise SpecError("times", (made.replay_s_vk.shape, made.kept_bytes_vk.shape), rule)
    return made


def retimed_graph(graph: FullGraph, times: LayerTimes) -> FullGraph:
    """The graph's records with these times."""
    layers = []
    for v, layer in enumerate(graph.layers):
        keep = tuple(
            KeepPoint(kept_bytes=float(kept), replay_s=float(replay))
            for kept, replay in zip(times.kept_bytes_vk[v], times.replay_s_vk[v], strict=True)
        )
        is_split = layer.weight_backward_s is not None
        layers.append(
            replace(
                layer,
                forward_s=float(times.forward_s_v[v]),
                backward_s=float(times.backward_s_v[v]),
                weight_backward_s=float(times.weight_backward_s_v[v]) if is_split else None,
                keep=keep,
            )
        )
    return replace(graph, layers=tuple(layers))
