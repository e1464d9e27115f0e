"""Which network level a plan's traffic runs on.

Devices are numbered 0, 1, ...; a pipeline takes D consecutive ones, the next pipeline the D after it. So
tensor parallelism is innermost, then the stages of a pipeline, then the pipelines. A group of g devices
starts at every multiple of g.
"""

from __future__ import annotations

import numpy as np

from rephaze.place.tables import Links
from rephaze.types.cluster import Cluster


def links_of(cluster: Cluster) -> Links:
    """The cluster's levels as arrays."""
    return Links(
        num_devices_l=np.array([level.num_devices for level in cluster.levels], dtype=np.int64),
        bytes_per_s_l=np.minimum.accumulate(
            np.array([level.bytes_per_s for level in cluster.levels], dtype=np.float64)
        ),
        latency_s_l=np.maximum.accumulate(
            np.array([level.latency_s for level in cluster.levels], dtype=np.float64)
        ),
    )


def pipeline_level(cluster: Cluster, pipeline_devices: int, dp: int) -> int:
    """The innermost level inside which every pipeline lies whole: its stages talk at that level's speed.

    Pipelines of D devices do not straddle groups of g when D divides g, or when all dp of them lie in one
    group.
    """
    for position, level in enumerate(cluster.levels):
        if level.num_devices % pipeline_devices == 0 or dp * pipeline_devices <= level.num_devices:
            return position
    return len(cluster.levels) - 1


def replica_level(cluster: Cluster, pipeline_devices: int, dp: int) -> int:
    """The innermost level that spans all pipelines: gradients are summed at that level's speed."""
    for position, level in enumerate(cluster.levels):
        if dp * pipeline_devices <= level.num_devices:
            return position
    return len(cluster.levels) - 1
