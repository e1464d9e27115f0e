"""rephaze: the accelerator chip and the way to spread training over thousands of them, found together.

An independent implementation of, and successor to, the system of "Integrated Hardware Architecture and
Device Placement Search" (ICML 2024).
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rephaze.api import (
        Run,
        bill_cluster,
        compare,
        estimate_model,
        evaluate_plan,
        explore,
        export_plan,
        extract,
        judge_chip,
        judge_plan,
        list_chips,
        list_models,
        load_chip,
        load_model,
        load_scenario,
        open_run,
        place_model,
        schedule_model,
        sensitivity,
        support,
    )

__all__ = [
    "Run",
    "bill_cluster",
    "compare",
    "estimate_model",
    "evaluate_plan",
    "explore",
    "export_plan",
    "extract",
    "judge_chip",
    "judge_plan",
    "list_chips",
    "list_models",
    "load_chip",
    "load_model",
    "load_scenario",
    "open_run",
    "place_model",
    "schedule_model",
    "sensitivity",
    "support",
]


def __getattr__(name: str) -> Any:
    """A public name, loaded when it is first asked for: worker processes import rooms, not the door."""
    if name not in __all__:
        raise AttributeError(f"module 'rephaze' has no attribute {name!r}")
    import rephaze.api

    found = getattr(rephaze.api, name)
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
