"""Which network level a plan's traffic runs on.

Devices are numbered 0, 1, ...; a pipeline takes D consecutive ones, the next pipeline the D after it. So
tensor parallelism is innermost, then the stages of a pipeline, then the pipelines. A group of g devices
starts at every multiple of g.
"""

from __future__ import annotations

import numpy as np

from rephaze.compiled import kernel
from rephaze.place.tables import Ints, Links
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


@kernel
def pipeline_level_of(devices: int, dp: int, group_l: Ints) -> int:
    """``pipeline_level`` on arrays, for compiled functions: ``group_l`` is ``Links.num_devices_l``."""
    for at in range(len(group_l)):
        if group_l[at] % devices == 0 or dp * devices <= group_l[at]:
            return at
    return len(group_l) - 1


def replica_level(cluster: Cluster, pipeline_devices: int, dp: int) -> int:
    """The innermost level that spans all pipelines: gradients are summed at that level's speed."""
    for position, level in enumerate(cluster.levels):
        if dp * pipeline_devices <= level.num_devices:
            return position
    return len(cluster.levels) - 1
