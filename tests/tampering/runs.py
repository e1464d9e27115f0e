"""Small recorded runs of both methods, finished and stopped, with a known chip beside them."""

from dataclasses import dataclass, replace
from pathlib import Path

from rephaze.hardware.presets import preset_chip
from rephaze.search.cosearch import run_search
from rephaze.search.evaluator import Preparation
from rephaze.store.run_store import RunStore
from rephaze.study.yardstick import Yardstick
from rephaze.types.search import SearchStatus
from tests.property.box_cases import box_settings, slow_start
from tests.property.search_cases import small_settings

SPACE = {
    "num_tensor_cores": [2, 4],
    "tensor_width": [32, 64],
    "tensor_depth": [64],
    "num_vector_cores": [1, 2],
    "vector_lanes": [128, 256],
    "global_buffer_mib": [2],
    "num_hbm_stacks": [1, 2],
}
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
)


def settings_of(method):
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
    answer = Yardstick(Preparation(settings)).with_searched_plans(preset_chip("tpuv2"))
    with RunStore.annotate(folder) as store:
        store.record_known_chips([answer])
    return folder
