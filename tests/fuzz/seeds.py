"""Sound inputs of every format, small enough that a command answers them at once; what the fuzzer breaks."""

import copy
import gzip
import json
import tomllib
from collections.abc import Callable
from importlib.resources import files
from pathlib import Path
from typing import Any

DATA = Path(__file__).parents[1] / "data"

SCHEDULE = {
    "format": "rephaze.schedule-problem/1",
    "num_tensor_cores": 2,
    "num_vector_cores": 2,
    "ops": [
        {"name": "a", "core": "tensor", "one_core_cycles": 10, "all_cores_cycles": 6, "one_core_hbm_share": 0.4},
        {"name": "b", "core": "vector", "one_core_cycles": 5, "all_cores_cycles": 3, "all_cores_j": 1e-6},
        {
            "name": "c",
            "core": "fused",
            "one_core_cycles": None,
            "all_cores_cycles": 7,
            "further": [{"mode": "all_cores", "cycles": 9, "hbm_share": 0.1}],
        },
        {"name": "d", "core": "link", "one_core_cycles": 4, "all_cores_cycles": 4},
    ],
    "edges": [["a", "b"], ["a", "c"], ["c", "d"]],
    "all_cores_excludes": "engine",
}

GEMM = {
    "format": "rephaze.gemm-problem/1",
    "cost_model": "default",
    "batch": 2,
    "rows_n": 64,
    "features_k": 48,
    "reduction_c": 96,
    "num_tensor_cores": 2,
    "width": 16,
    "depth": 16,
    "scratchpad_words": 4096,
    "global_buffer_words": 65536,
    "pj_per_access": {"register": 0.5, "scratchpad": 1.0, "global_buffer": 2.0, "dram": 100.0},
    "hbm_bytes_per_cycle": 512.0,
}

PROBLEM_1 = {
    "format": "rephaze.placement-problem/1",
    "cost_model": "1f1b",
    "cluster": {
        "num_devices": 4,
        "device_memory_bytes": 1e9,
        "levels": [
            {"num_devices": 2, "bytes_per_s": 1e10},
            {"num_devices": 4, "bytes_per_s": 1e9, "latency_s": 1e-6},
        ],
        "hbm_bytes_per_s": 1e12,
    },
    "training": {"global_batch": 8, "optimizer": "adam", "precision": "mixed", "recompute": "auto"},
    "graphs": [
        {
            "tp": tp,
            "microbatch": 1,
            "layers": [
                {
                    "name": f"l{at}",
                    "param_bytes": 1e6 / tp,
                    "activation_bytes": 1e5,
                    "forward_s": 1e-3,
                    "backward_s": 2e-3,
                    "tensor_parallel": tp > 1,
                    "working_bytes": 1e4,
                }
                for at in range(3)
            ],
            "edges": [{"src": "l0", "dst": "l1", "bytes": 1e4}, {"src": "l1", "dst": "l2", "bytes": 1e4}],
            "tied": [{"layers": ["l0", "l2"], "param_bytes": 1e5}],
        }
        for tp in (1, 2)
    ],
}

PROBLEM_2 = {
    "format": "rephaze.placement-problem/2",
    "cost_model": "full",
    "cluster": {
        "num_devices": 4,
        "device_memory_bytes": 1e9,
        "hbm_bytes_per_s": 1e12,
        "levels": [{"num_devices": 4, "bytes_per_s": 1e9, "latency_s": 1e-6}],
    },
    "training": {"global_batch": 8, "optimizer": "adam", "precision": "bf16"},
    "options": {
        "sharding": ["none", "weights"],
        "schedule": ["1f1b"],
        "order": ["dp-outer"],
        "overlap": True,
        "family": "any",
    },
    "graphs": [
        {
            "tp": 1,
            "microbatch": 1,
            "layers": [
                {
                    "name": f"l{at}",
                    "param_bytes": 1e6,
                    "forward_s": 1e-3,
                    "backward_s": 2e-3,
                    "keep": [{"bytes": 1e5, "replay_s": 0.0}, {"bytes": 1e4, "replay_s": 1e-3}],
                    "block": at == 1,
                }
                for at in range(3)
            ],
            "edges": [{"src": "l0", "dst": "l1", "bytes": 1e4}, {"src": "l1", "dst": "l2", "bytes": 1e4}],
        }
    ],
}

PLAN_1 = {
    "format": "rephaze.placement-plan/1",
    "problem": PROBLEM_1,
    "plan": {
        "tp": 1,
        "dp": 2,
        "microbatch": 1,
        "stages": [{"layers": ["l0", "l1"], "recompute": "none"}, {"layers": ["l2"], "recompute": "stage"}],
    },
}

PLAN_2 = {
    "format": "rephaze.placement-plan/2",
    "problem": PROBLEM_2,
    "plan": {
        "tp": 1,
        "dp": 2,
        "sharding": "weights",
        "stages": [{"layers": ["l0", "l1"], "keep": 0}, {"layers": ["l2"]}],
    },
}

_EXPERT_GRAPHS = [
    {
        "tp": 1,
        "ep": ep,
        "etp": 1,
        "microbatch": 1,
        "layers": [
            {
                "name": f"l{at}",
                "param_bytes": 1e6,
                "expert_param_bytes": 4e6 / ep,
                "forward_s": 1e-3,
                "backward_s": 2e-3,
                "weight_backward_s": 1e-3,
                "keep": [{"bytes": 1e5, "replay_s": 0.0}, {"bytes": 1e4, "replay_s": 1e-3}],
                "working_bytes": 1e4,
                "block": 0 < at < 5,
            }
            for at in range(6)
        ],
        "edges": [{"src": f"l{at}", "dst": f"l{at + 1}", "bytes": 1e4} for at in range(5)],
        "tied": [{"layers": ["l0", "l5"], "param_bytes": 1e5}],
        "orders": ["dp-outer", "pp-outer"],
    }
    for ep in (1, 2)
]

EXPERTS_2 = {
    "format": "rephaze.placement-problem/2",
    "cost_model": "full",
    "cluster": {
        "num_devices": 8,
        "device_memory_bytes": 1e9,
        "hbm_bytes_per_s": 1e12,
        "levels": [
            {"num_devices": 4, "bytes_per_s": 1e10, "latency_s": 1e-6},
            {"num_devices": 8, "bytes_per_s": 1e9},
        ],
    },
    "training": {
        "global_batch": 16,
        "optimizer": "adam",
        "precision": {"weight_bytes": 2.0, "gradient_bytes": 4.0, "state_bytes": 12.0, "step_bytes": 1.0},
    },
    "options": {
        "sharding": ["none", "optimizer"],
        "shard_group": ["all"],
        "reshard": [False],
        "schedule": ["1f1b", "interleaved"],
        "chunks": [2],
        "order": ["dp-outer", "pp-outer"],
        "overlap": False,
        "family": "megatron",
    },
    "graphs": _EXPERT_GRAPHS,
}

EXPERTS_PLAN_2 = {
    "format": "rephaze.placement-plan/2",
    "problem": EXPERTS_2,
    "plan": {
        "tp": 1,
        "cp": 1,
        "ep": 2,
        "etp": 1,
        "sp": False,
        "dp": 4,
        "microbatch": 1,
        "order": "dp-outer",
        "sharding": "optimizer",
        "schedule": "1f1b",
        "chunks": 1,
        "stages": [{"layers": ["l0", "l1", "l2"], "keep": 0}, {"layers": ["l3", "l4", "l5"], "keep": 1}],
    },
}

CONFIG = {
    "model_type": "llama",
    "architectures": ["LlamaForCausalLM"],
    "hidden_size": 32,
    "intermediate_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "vocab_size": 128,
    "max_position_embeddings": 64,
    "rms_norm_eps": 1e-6,
    "tie_word_embeddings": False,
    "hidden_act": "silu",
}

CHIP = {"base": "tpuv4", "name": "mine", "num_tensor_cores": 4, "hbm_bytes_per_s": 1.2e12, "clock_hz": 1.0e9}

SYSTEM = {
    "system": {"clock_hz": [1.0e9], "hbm": ["hbm2e"], "hbm_layers": [8], "node_size": [8], "num_chips": [64]},
    "budget": {"power_w": 1e6, "usd": 1e8},
}

_FEW = {
    "num_tensor_cores": [4, 8],
    "tensor_width": [128],
    "tensor_depth": [128],
    "num_vector_cores": [2],
    "vector_lanes": [1024],
    "global_buffer_mib": {"from": 16, "to": 32, "step": 16},
    "num_hbm_stacks": [2],
}

RUN_FILE = {
    "scenario": "coarse",
    "attention": "fused",
    "search": {"models": ["graph.json"], "objective": "throughput", "seed": 1, "weights": [1.0]},
    "space": _FEW | {"area_limit_um2": 3.0e8, "constraints": ["num_macs <= 131072"]},
    "cluster": {"num_devices": 4},
    "training": {"global_batch": 8, "microbatches": [1], "tp_degrees": [1]},
}

SYSTEM_RUN = RUN_FILE | {
    "system": {
        "clock_hz": {"from": 1.0e9, "to": 1.2e9, "step": 0.2e9},
        "hbm": ["hbm2e", "hbm3e"],
        "hbm_layers": [8],
        "num_inside_links": [6],
        "num_outside_links": [1],
        "node_size": [8],
        "num_chips": {"from": 4, "to": 8, "times": 2},
    },
    "budget": {"power_w": 1e6, "usd": 1e8, "silicon_mm2": 1e6},
    "cluster": {
        "num_devices": 8,
        "levels": [{"num_devices": 4, "bytes_per_s": 1e11}, {"num_devices": 8, "bytes_per_s": 1e10}],
    },
}

RUNS = """\
source,model,hidden,layers,heads,kv_heads,ffn,vocab,seq,global_batch,microbatch,gpus,tp,pp,dp,interleave,recompute,\
seq_parallel,chip,measured_metric,value,unit,cp,ep,zero,precision,head_dim,experts,topk,moe_ffn,derived_iter_time_s,\
notes,score
one,GPT-1.7B,2304,24,24,24,9216,51200,2048,512,4,32,1,1,32,,full,0,A100-80GB,step_time,3.5,s,1,,,fp16,,,,,3.528,,yes
one,GPT-7.5B,4096,36,32,32,16384,51200,2048,512,2,128,4,1,32,,full,1,A100-80GB,step_time,3.7,s,1,,1,bf16,128,,,,3.7,,yes
two,Mixtral,4096,32,32,8,14336,32000,4096,256,1,64,1,1,64,,none,0,H100-80GB-SXM,\
step_time,9.1,s,1,8,1,bf16,128,8,2,14336,9.1,,yes
two,Llama,4096,32,32,8,14336,32000,4096,256,1,64,2,2,16,2,none,1,H100-80GB-SXM,\
peak_memory,40,GiB,1,,1,bf16,128,,,,,,memory only
"""

SWEEP = """\
model,hidden,layers,heads,kv_heads,ffn,vocab,tied,seq,gpus,dp,tp,pp,microbatch,global_batch,zero,status,step_s,\
memory_reserved_gb,score
1B,2048,16,32,32,8192,131072,1,4096,8,8,1,1,2,256,0,ok,3.26,50.18,yes
1B,2048,16,32,32,8192,131072,1,4096,8,4,2,1,1,256,1,ok,3.33,36.67,yes
1B,2048,16,32,32,8192,131072,1,4096,8,2,2,2,8,256,0,oom,,,fit only
"""

DESIGNS = """num_tensor_cores,num_vector_cores,width,depth,global_buffer_bytes,vector_lanes,num_hbm_stacks
4,2,128,128,8388608,2048,2
8,2,64,128,16777216,1024,4
"""


def scenario_with_design_limit() -> dict[str, Any]:
    """One whose area limit is that of a design."""
    data = scenario()
    del data["space"]["area_limit_chip"]
    data["space"]["area_limit_design"] = {
        "num_tensor_cores": 8,
        "tensor_width": 128,
        "tensor_depth": 128,
        "num_vector_cores": 2,
        "vector_lanes": 1024,
        "global_buffer_mib": 64,
        "num_hbm_stacks": 4,
    }
    return data


def scenario() -> dict[str, Any]:
    """A scenario that ships, with a space of a few chips."""
    text = files("rephaze.hardware").joinpath("data", "scenarios", "coarse.toml").read_text("utf-8")
    found = tomllib.loads(text)
    found["space"] |= copy.deepcopy(_FEW)
    found["cluster"] = {"num_devices": 4, "levels": [{"num_devices": 4, "bytes_per_s": 1e11}]}
    found["training"] |= {"global_batch": 8, "microbatches": [1], "tp_degrees": [1]}
    return found


def graph() -> dict[str, Any]:
    """A tiny model, with one layer of each kind."""
    return json.loads(gzip.decompress((DATA / "tiny-gpt-fused.json.gz").read_bytes()))


def cells() -> str:
    """One planned cell of ``reproduce nest``, as it keeps them."""
    from rephaze.store.record_json import json_text, to_json
    from rephaze.types.reproduction import NestCell, NestFigure, PlacedCell

    placed = PlacedCell(samples_per_s=10.0, bound_samples_per_s=10.0, plan="dp 4", cpu_s=0.1)
    figure = NestFigure(setup="one", model="gpt2", num_devices=4, nest_factor=1.2)
    cell = NestCell(figure=figure, estimator="x/1", its_degrees=None, its_choices=placed, all_choices=placed)
    return json_text(to_json(cell)) + "\n"


SOURCES: dict[str, Callable[[], Any]] = {
    "schedule.json": lambda: SCHEDULE,
    "gemm.json": lambda: GEMM,
    "problem1.json": lambda: PROBLEM_1,
    "problem2.json": lambda: PROBLEM_2,
    "experts2.json": lambda: EXPERTS_2,
    "experts-plan2.json": lambda: EXPERTS_PLAN_2,
    "config.json": lambda: CONFIG,
    "plan1.json": lambda: PLAN_1,
    "plan2.json": lambda: PLAN_2,
    "graph.json": graph,
    "chip.toml": lambda: CHIP,
    "chip.json": lambda: CHIP,
    "system.toml": lambda: SYSTEM,
    "run.toml": lambda: RUN_FILE,
    "scenario.toml": scenario,
    "design-limit.toml": scenario_with_design_limit,
    "system-run.toml": lambda: SYSTEM_RUN,
    "designs.csv": lambda: DESIGNS,
    "runs.csv": lambda: RUNS,
    "sweep.csv": lambda: SWEEP,
    "cells.jsonl": cells,
}
"""Sound content by file name."""
