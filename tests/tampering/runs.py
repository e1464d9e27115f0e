"""Small recorded runs of both methods, finished and stopped, with a known chip beside them."""

from dataclasses import dataclass, replace
from pathlib import Path

from rephaze.hardware.presets import preset_chip
from rephaze.search.cosearch import run_search
from rephaze.search.evaluator import Preparation
from rephaze.store.run_store import RunStore
from rephaze.study.yardstick import Yardstick
from rephaze.types.search import SearchMethod, SearchStatus
from rephaze.types.system import ClusterBudget, HbmChoice, SystemSpace
from tests.property.box_cases import box_settings, slow_start
from tests.property.search_cases import small_settings
from tests.property.system_cases import NODES

SPACE = {
    "num_tensor_cores": [2, 4],
    "tensor_width": [32, 64],
    "tensor_depth": [64],
    "num_vector_cores": [1, 2],
    "vector_lanes": [128, 256],
    "global_buffer_mib": [2],
    "num_hbm_stacks": [1, 2],
}
FEW = SPACE | {"num_tensor_cores": [2, 4], "tensor_width": [64], "num_vector_cores": [1], "vector_lanes": [256]}
SYSTEMS = SystemSpace(
    clock_hz=(0.95e9, 1.3e9),
    hbm=(HbmChoice(generation="hbm2e", num_layers=8), HbmChoice(generation="hbm3", num_layers=8)),
    num_inside_links=(6,),
    num_outside_links=(1,),
    node_size=(4,),
    num_chips=(4, 8),
)
BUDGET = ClusterBudget(silicon_mm2=1e5, power_w=1e5, cost_usd=1e7)
TRAINING = {"microbatches": [1, 2], "tp_degrees": [1, 2], "global_batch": 12}


@dataclass(frozen=True)
class Kind:
    """How a run came about."""

    name: str
    method: str
    is_resumed: bool
    """After its first session was stopped with the first answer; else it stays stopped."""


KINDS = (
    Kind("list", "list", is_resumed=True),
    Kind("boxes", "boxes", is_resumed=True),
    Kind("list, stopped", "list", is_resumed=False),
    Kind("boxes, stopped", "boxes", is_resumed=False),
    Kind("systems", "systems", is_resumed=True),
    Kind("systems, stopped", "systems", is_resumed=False),
)


def settings_of(method):
    if method == "systems":
        given = box_settings(4, space=FEW, training=TRAINING)
        scenario = given.scenario
        space = replace(scenario.space, hbm_bytes_options=())
        return replace(
            given,
            scenario=replace(scenario, space=space, cluster=NODES),
            method=SearchMethod.AUTO,
            systems=SYSTEMS,
            budget=BUDGET,
        )
    if method == "boxes":
        return box_settings(4, space=SPACE, training=TRAINING)
    found = small_settings(4, "coarse", space=SPACE, training=TRAINING, num_devices=4)
    return replace(found, exhaustive=False)


def make_run(kind: Kind, folder: Path) -> Path:
    """A run of the kind in a new folder."""
    settings, answers = settings_of(kind.method), []
    with slow_start():
        result = run_search(
            settings,
            folder=folder,
            on_progress=lambda state: answers.append(state.objective) if state.objective else None,
            should_stop=lambda: bool(answers),
        )
        assert result.status is SearchStatus.FEASIBLE, (kind, result.status)
        if kind.is_resumed:
            result = run_search(settings, folder=folder, resume=True)
            assert result.status is SearchStatus.OPTIMAL, (kind, result.status)
    if kind.method == "systems":  # other chips would need systems of their own
        return folder
    answer = Yardstick(Preparation(settings)).with_searched_plans(preset_chip("tpuv2"))
    with RunStore.annotate(folder) as store:
        store.record_known_chips([answer])
    return folder
