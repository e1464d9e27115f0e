"""Which commands read which file, and sound calls of every command to which odd options are added."""

_ON_CHIP = ("--chip", "tpuv4")
_SHORT = ("--workers", "1", "--time-limit", "0.3")
_ONE_KNOB = ("--knob", "hbm", "--factor", "2")
_MEASURED = (("validate",), ("validate", "--physics", "ideal"), ("calibrate", "--steps", "1"))
Calls = tuple[tuple[str, ...], ...]

READERS: dict[str, Calls] = {
    "schedule.json": (
        ("schedule", "schedule.json", "--time-limit", "0.3"),
        ("schedule", "schedule.json", "--solver", "ilp", "--time-limit", "0.3"),
    ),
    "gemm.json": (("estimate", "gemm.json"),),
    "problem1.json": (("place", "problem1.json"), ("place", "problem1.json", "--why", "tp=2")),
    "problem2.json": (("place", "problem2.json"), ("place", "problem2.json", "--why", "sharding=none")),
    "experts2.json": (("place", "experts2.json"), ("place", "experts2.json", "--why", "ep=2")),
    "plan1.json": (
        ("evaluate", "plan1.json"),
        ("evaluate", "plan1.json", "--timeline"),
        *(("evaluate", "plan1.json", "--to", to) for to in ("perfetto", "json")),
    ),
    "plan2.json": (
        ("evaluate", "plan2.json"),
        ("evaluate", "plan2.json", "--timeline"),
        ("judge", "plan2.json"),
        ("evaluate", "plan2.json", *_ON_CHIP),
        *(("evaluate", "plan2.json", "--to", to) for to in ("megatron", "deepspeed", "perfetto", "json")),
    ),
    "experts-plan2.json": (("evaluate", "experts-plan2.json"), ("judge", "experts-plan2.json")),
    "graph.json": (
        ("graph", "graph.json"),
        ("graph", "graph.json", "--layer", "1"),
        ("graph", "graph.json", "--tp", "2", "--layer", "1"),
        ("estimate", "graph.json", *_ON_CHIP),
        ("schedule", "graph.json", *_ON_CHIP, "--time-limit", "0.3"),
        ("support", "graph.json"),
        ("place", "graph.json", *_ON_CHIP, "--scenario", "scenario.toml"),
    ),
    "graph.json.gz": (("graph", "graph.json.gz"), ("support", "graph.json.gz")),
    "chip.toml": (
        ("chips", "chip.toml"),
        ("bill", "chip.toml"),
        ("support", "chip.toml"),
        ("estimate", "graph.json", "--chip", "chip.toml"),
    ),
    "chip.json": (
        ("chips", "chip.json"),
        ("support", "chip.json"),
        ("schedule", "graph.json", "--chip", "chip.json", "--time-limit", "0.3"),
    ),
    "system.toml": (("bill", "tpuv4", "--system", "system.toml"),),
    "run.toml": (
        ("search", "--config", "run.toml", *_SHORT),
        ("search", "--config", "run.toml", *_SHORT),
        ("sensitivity", "--config", "run.toml", *_ONE_KNOB, *_SHORT),
    ),
    "system-run.toml": (
        ("search", "--config", "system-run.toml", *_SHORT),
        ("sensitivity", "--config", "system-run.toml", "--knob", "power-budget", "--factor", "2", *_SHORT),
    ),
    "scenario.toml": (
        ("space", "--scenario", "scenario.toml"),
        ("space", "--scenario", "scenario.toml"),
        ("bill", "tpuv4", "--scenario", "scenario.toml"),
        ("search", "graph.json", "--scenario", "scenario.toml", *_SHORT),
        ("compare", "graph.json", "--scenario", "scenario.toml", "--budget", "1", *_SHORT),
    ),
    "design-limit.toml": (("space", "--scenario", "design-limit.toml"),),
    "designs.csv": (("area", "designs.csv"), ("area", "designs.csv", "--model", "paper")),
    "runs.csv": tuple((name, "runs.csv", *rest) for name, *rest in _MEASURED),
    "sweep.csv": tuple((name, "sweep.csv", *rest) for name, *rest in _MEASURED),
    "cells.jsonl": (("reproduce", "nest", "--out", ".", "--page", "new.md", "--max-chips", "1"),),
    "config.json": (("extract", "config.json", "--seq-len", "16"),),
}
"""Commands by the file they read."""
RARE = {"design-limit.toml": 0.4, "config.json": 0.3, "runs.csv": 0.7, "sweep.csv": 0.7, "cells.jsonl": 0.4}
"""How often a file is drawn, where not as often as the others: what takes long."""

BASES: dict[str, Calls] = {
    "models": ((),),
    "extract": (("nowhere.json",), ("graph.json",), ("module.py:make",)),
    "graph": (("graph.json",),),
    "chips": ((), ("tpuv4",), ("chip.toml",)),
    "support": (("graph.json",), ("chip.toml",), ("tpuv4",), ("gpt2",)),
    "area": (("designs.csv",),),
    "bill": (("tpuv4",), ("chip.toml",), ("tpuv4", "--system", "system.toml")),
    "space": (("--scenario", "scenario.toml"),),
    "estimate": (("gemm.json",), ("graph.json", *_ON_CHIP)),
    "schedule": (("schedule.json",), ("graph.json", *_ON_CHIP)),
    "place": (("problem1.json",), ("problem2.json",), ("graph.json", *_ON_CHIP, "--scenario", "scenario.toml")),
    "evaluate": (("plan1.json",), ("plan2.json",)),
    "judge": (("plan2.json",), ("--run", "run", *_ON_CHIP)),
    "search": (("--config", "run.toml"), ("--config", "system-run.toml")),
    "compare": (("graph.json", "--scenario", "scenario.toml"), ("--run", "run")),
    "sensitivity": (("--config", "run.toml", *_ONE_KNOB), ("--run", "run", *_ONE_KNOB)),
    "reproduce": (("nest", "--max-chips", "1"), ("paper", "--model", "nope"), ("nope",)),
    "report": (("run",),),
    "verify": (("run", "--sample", "0"),),
    "validate": (("runs.csv",), ("sweep.csv", "runs.csv")),
    "calibrate": (("runs.csv", "--steps", "1"),),
    "pareto": (("run", "--coarse"),),
    "export": (("run", "--out", "new.csv"), ("run", "--to", "megatron"), ("run", "--to", "perfetto")),
    "serve": (("runs",), (".",), ("graph.json",)),
}
"""Sound calls by command, to which odd options are added."""
QUICK = {"--time-limit": "0.3", "--workers": "1", "--sample": "0", "--budget": "1", "--known-chips": "0"}
"""What keeps a case short, where a command has it."""

ON_RUNS: Calls = (
    ("pareto", "run", "--coarse"),
    ("report", "run", "--out", "new.html"),
    ("judge", "--run", "run", *_ON_CHIP),
    ("verify", "run", "--sample", "0"),
    ("compare", "--run", "run", "--budget", "1"),
    ("sensitivity", "--run", "run", *_ONE_KNOB, *_SHORT),
    *(
        ("export", "run", "--out", "new.csv", "--table", table)
        for table in ("evaluations", "plans", "stages", "bounds", "designs", "incumbents", "boxes")
    ),
    *(
        ("export", "run", "--to", to)
        for to in ("megatron", "torchtitan", "deepspeed", "maxtext", "nemo", "perfetto")
    ),
)
"""What reads a recorded run."""
