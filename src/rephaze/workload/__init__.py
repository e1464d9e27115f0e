"""Models to training-step graphs: extraction with torch, the shipped zoo, sharding and fusion without it."""

from rephaze.workload.graph_file import read_graph, write_graph
from rephaze.workload.passes.fuse import fuse_graph
from rephaze.workload.passes.parallel import cut_graph
from rephaze.workload.passes.tensor_parallel import shard_graph
from rephaze.workload.zoo import ZOO_NAMES, load_model

__all__ = ["ZOO_NAMES", "cut_graph", "fuse_graph", "load_model", "read_graph", "shard_graph", "write_graph"]
