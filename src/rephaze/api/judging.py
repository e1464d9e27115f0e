"""How far a given chip or plan is from the proven best of a space, through the door."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rephaze.api.chips import as_chip
from rephaze.api.full_plans import is_full
from rephaze.api.measured_chips import keep_measured
from rephaze.api.present import Block, Shown
from rephaze.api.schedules import OnStep, ignore_step
from rephaze.errors import RunError, SpecError
from rephaze.types.checks import under
from rephaze.types.chip import Chip
from rephaze.types.files import read_mapping
from rephaze.types.standing import Standing


@dataclass(frozen=True, kw_only=True, slots=True, repr=False)
class Judgement(Shown, Standing):
    """A chip or a plan beside a bound that nothing of a space beats.

    Objectives are those of a search, or batches a second.
    """

    space: str
    """Over what the bound holds, in words."""

    def record(self) -> dict[str, Any]:
        """As plain data."""
        return {
            "label": self.label,
            "space": self.space,
            "value": self.objective,
            "bound": self.bound,
            "loss": self.loss,
            "reason": self.reason,
        }

    def blocks(self) -> Sequence[Block]:
        """One sentence."""
        if not self.objective:
            return [f"{self.label}: {self.distance}"]
        return [f"{self.label} is {self.distance} of {self.space}, proven"]


def judge_chip(run: str | Path, chip: str | Path | Chip, *, on_step: OnStep = ignore_step) -> Judgement:
    """How far a chip, with its own best plans, is from the best of a recorded search, by that search's bound.

    What was measured is kept with the run, for its report and for the next time.

    Example:
        >>> import rephaze
        >>> space = {"num_tensor_cores": [8], "tensor_width": [128], "tensor_depth": [128], "num_hbm_stacks": [2]}
        >>> few = {"space": space, "training": {"microbatches": [1], "tp_degrees": [1]}}
        >>> _ = rephaze.explore("vit-large", scenario="coarse", changes=few, store="judged-run")
        >>> print(rephaze.judge_chip("judged-run", "tpuv2"))  # doctest: +ELLIPSIS
        tpuv2 is within ...% of the best of the 119 designs for vit-large, proven

    Args:
        run: A folder with an answer; what the search left open is in its bound.
        chip: A name of ``list_chips``, a chip file, or a chip; it need not keep to the limits of the space. Where
            the system was searched, it is measured with the cluster of the answer.
        on_step: Told what is being done.
    """
    from rephaze.hardware.derating import chip_at
    from rephaze.search.evaluator import Preparation
    from rephaze.search.systems import settings_of_design
    from rephaze.store.run_store import RunStore
    from rephaze.study.yardstick import Yardstick

    with RunStore.read(Path(run), whole=True) as store:
        info, result, held = store.info(), store.result(), store.known_chips()
    settings = info.settings
    if result is None:
        raise RunError(f"{run}: has no answer yet; finish it with rephaze search --out {run} --resume")
    chosen = chip_at(as_chip(chip), settings.scenario)
    on_step(f"the best plans on {chosen.name}")
    answer = next((one for one in held if one.chip == chosen), None)
    if answer is None:
        own = settings_of_design(settings, result.design)
        answer = Yardstick(Preparation(own)).with_searched_plans(chosen)
        keep_measured(Path(run), info, [answer])
    counted = "designs" if result.certificate.num_boxes is None else "grid points"
    # Its cluster is that of the answer, which may take more of this chip than the budget allows.
    cluster = ", on the answer's cluster whatever it takes," if settings.has_systems else ""
    return Judgement(
        label=f"{chosen.name or 'the chip'}{cluster}",
        space=f"the {result.certificate.num_designs:,} {counted} for {', '.join(settings.models)}",
        objective=answer.objective,
        bound=result.bound,
        reason=answer.reason,
    )


def judge_plan(plan_file: str | Path) -> Judgement:
    """How far a plan is from the fastest of its problem's options and family.

    Example:
        >>> import json, pathlib, rephaze
        >>> layer = {"param_bytes": 1e9, "forward_s": 0.01, "backward_s": 0.02}
        >>> layer |= {"keep": [{"bytes": 1e8, "replay_s": 0}]}
        >>> problem = {
        ...     "format": "rephaze.placement-problem/2",
        ...     "cost_model": "full",
        ...     "cluster": {"num_devices": 2, "device_memory_bytes": 8e10,
        ...                 "levels": [{"num_devices": 2, "bytes_per_s": 1e11}]},
        ...     "training": {"global_batch": 8, "optimizer": "adam", "precision": "mixed"},
        ...     "graphs": [{"tp": 1, "microbatch": 1, "layers": [{"name": "a"} | layer, {"name": "b"} | layer],
        ...                 "edges": [{"src": "a", "dst": "b", "bytes": 1e6}]}],
        ... }
        >>> plan = {"tp": 1, "dp": 1, "microbatch": 1, "stages": [{"layers": ["a", "b"]}]}
        >>> text = json.dumps({"format": "rephaze.placement-plan/2", "problem": problem, "plan": plan})
        >>> _ = pathlib.Path("judged.json").write_text(text)
        >>> print(rephaze.judge_plan("judged.json"))  # doctest: +ELLIPSIS
        judged.json is within ...% of the best of family any of its problem, proven

    Args:
        plan_file: Of format 2, with problem and plan.
    """
    from rephaze.place.full.legality import check_plan
    from rephaze.place.full.price import price_full_plan
    from rephaze.place.full.problem_file import parse_full_plan
    from rephaze.place.full.solver import FullPlacer

    data = read_mapping(Path(plan_file))
    with under(f"{plan_file}: "):
        if not is_full(data):
            rule = "must be a plan file of format rephaze.placement-plan/2"
            raise SpecError("format", data.get("format"), rule)
        problem, graph, plan = parse_full_plan(data)
        check_plan(problem, graph, plan)
    price = price_full_plan(problem, graph, plan)
    best = FullPlacer(problem).solve()
    return Judgement(
        label=str(plan_file),
        space=f"family {problem.options.family} of its problem",
        objective=1 / price.batch_s if price.fits else 0.0,
        bound=1 / best.bound_s,
        reason="" if price.fits else "the plan does not fit the memory",
    )
