"""rephaze: the accelerator chip and the way to spread training over thousands of them, found together.

An independent implementation of, and successor to, the system of "Integrated Hardware Architecture and
Device Placement Search" (ICML 2024).
"""

from rephaze.api import (
    Run,
    compare,
    estimate_model,
    evaluate_plan,
    explore,
    extract,
    list_chips,
    list_models,
    load_chip,
    load_model,
    load_scenario,
    open_run,
    place_model,
    schedule_model,
    sensitivity,
)

__all__ = [
    "Run",
    "compare",
    "estimate_model",
    "evaluate_plan",
    "explore",
    "extract",
    "list_chips",
    "list_models",
    "load_chip",
    "load_model",
    "load_scenario",
    "open_run",
    "place_model",
    "schedule_model",
    "sensitivity",
]
