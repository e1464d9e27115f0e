"""The fixed draws of the small budget. Change them now and then: what has always passed tells little.

``make attack`` draws fresh ones.
"""

from rephaze.types.search import Objective

SEARCH_SEEDS = {
    # Seed of the case: its models. Every model of the zoo has a turn.
    1: ("opt-350m",),
    3: ("megatron-bert",),
    4: ("megatron-gpt2-xl",),
    7: ("gpt2-xl",),
    20: ("bert-large", "opt-350m"),
    21: ("megatron-bert", "vit-large"),
    22: ("llama2-7b",),
    23: ("t5-large",),
    30: ("llama2-7b",),
    34: ("megatron-gpt2-8.3b",),
    35: ("gpt3-175b",),
    36: ("llama3-8b",),
    37: ("llama3-70b",),
    38: ("mixtral-8x7b",),
    43: ("gpt2-xl",),
    47: ("megatron-gpt2-2.5b",),
}
MOVE_SEEDS = {
    "space": 0,
    "area limit": 9,
    "hbm rate": 7,
    "buffer rate": 7,
    "links": 1,
    "devices": 1,
    "microbatches": 3,
    "tp degrees": 0,
    "recompute": 7,
}
LAYER_SEEDS = {
    10: "gpt2-xl",
    45: "bert-large",
    63: "bert-large",
    74: "llama2-7b",
    89: "llama3-8b",
    106: "t5-large",
}
HURRIED_SEED = 100

FULL_SEEDS = {
    # Under cost model full: seed of the case, its models.
    2: ("tiny-gpt",),
    4: ("tiny-gpt",),
    5: ("tiny-gpt",),
    6: ("tiny-gpt",),
    7: ("tiny-gpt",),
    32: ("tiny-gpt",),
    13: ("tiny-llama",),
    21: ("tiny-gpt", "tiny-llama"),
    105: ("mixtral-8x7b:1",),
}
FULL_MOVE_SEEDS = {
    "plan lists": 1,
    "degree lists": 2,
    "family": 3,
    "memory": 1,
    "larger chips": 5,
    "links": 6,
}
FULL_HURRIED_SEED = 103

BOX_SEEDS = {
    # Of searches by boxes: scenario, models, objective, how many designs at most.
    0: ("coarse", ("tiny-gpt",), Objective.THROUGHPUT, 16),
    2: ("coarse", ("tiny-llama",), Objective.PER_AREA, 16),
    3: ("coarse", ("tiny-gpt",), Objective.PER_WATT, 16),
    4: ("coarse", ("tiny-gpt", "tiny-llama"), Objective.PER_USD, 12),
    5: ("coarse", ("tiny-llama",), Objective.THROUGHPUT, 24),
    6: ("coarse", ("tiny-gpt",), Objective.PER_WATT, 24),
    8: ("default", ("tiny-gpt",), Objective.THROUGHPUT, 6),
    9: ("default", ("tiny-gpt",), Objective.PER_AREA, 6),
}
