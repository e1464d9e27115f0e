"""The door: every public function, each a few lines over the rooms, records in and records out.

The command line goes through here and nowhere else. Nothing heavy is loaded before a function needs it.
"""

from rephaze.api.billing import bill_cluster
from rephaze.api.chips import list_chips, load_chip
from rephaze.api.exploring import compare, explore, sensitivity
from rephaze.api.exports import export_plan
from rephaze.api.judging import judge_chip, judge_plan
from rephaze.api.models import extract, list_models, load_model
from rephaze.api.operators import estimate_model
from rephaze.api.plans import evaluate_plan, place_model
from rephaze.api.runs import Run, open_run
from rephaze.api.schedules import schedule_model
from rephaze.api.spaces import load_scenario
from rephaze.api.supported import support

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
