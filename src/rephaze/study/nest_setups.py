"""NEST's scenarios as scenarios of ours, and the figures its artifact prints."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from importlib.resources import files
from typing import Any

from rephaze.hardware.chip_file import chip_from_mapping
from rephaze.hardware.scenarios import load_scenario
from rephaze.types.chip import Chip
from rephaze.types.cluster import Cluster, NetworkLevel
from rephaze.types.comparison import ExpertDegrees
from rephaze.types.full import FullLimits, PlanFamily, PlanOptions
from rephaze.types.placement import Optimizer, PrecisionName, Recompute
from rephaze.types.reproduction import NestFigure
from rephaze.types.scenario import Scenario
from rephaze.units import GIB


@cache
def nest_data() -> dict[str, Any]:
    """The data file: scenarios, models, figures."""
    return tomllib.loads(files("rephaze.study").joinpath("data", "nest.toml").read_text("utf-8"))


def nest_figures() -> Iterator[NestFigure]:
    """Every cell of its two setups."""
    for row in nest_data()["figures"]:
        degrees = ExpertDegrees(**row["degrees"]) if "degrees" in row else None
        yield NestFigure(**(row | {"degrees": degrees}))


def nest_chip(setup: str) -> Chip:
    """The chip of both setups: 8 arrays of 128x128, 2 vector cores of 128 lanes, 128 MiB at 1.05 GHz."""
    hbm_bytes = int(nest_data()["setups"][setup]["hbm_gib"]) * GIB
    # NEST does not time HBM: it keeps TPUv4's.
    changed = {"base": "tpuv4", "vector_lanes": 128, "hbm_bytes": hbm_bytes}
    return chip_from_mapping(changed, default_name=setup)


def nest_scenario(figure: NestFigure, *, is_free: bool) -> Scenario:
    """Its network, batch and optimizer, with what it may choose of a plan, or with all that ours may.

    Args:
        figure: Which cell.
        is_free: Everything scenario ``default`` lists, in place of NEST's own choices.
    """
    base, data = load_scenario("default"), nest_data()
    model = data["models"][figure.model]
    training = replace(
        base.training,
        global_batch=data["global_batch"],
        optimizer=Optimizer.SGD,
        precision=PrecisionName.PAPER,
    )
    plans = base.plans
    if not is_free:
        training = replace(
            training,
            microbatches=(1,),
            tp_degrees=tuple(model["tp_degrees"]),
            sequence_parallel=(False,),
            cp_degrees=(1,),
            ep_degrees=(model.get("ep_degree", 1),),
            etp_degrees=(1,),
            recompute=(Recompute(model["recompute"]),),
        )
        # Devices may idle and stages differ, as in its program; nothing is hidden behind compute. Experts that
        # span replicas want these on neighbouring chips, as there.
        plans = PlanOptions(family=PlanFamily.ANY, order=base.plans.order)
    return replace(base, name=figure.setup, cluster=_cluster(figure), training=training, plans=plans)


def nest_limits(figure: NestFigure) -> FullLimits | None:
    """Its degrees as choices of ours, in which replicas count every chip that sees other samples."""
    if figure.degrees is None:
        return None
    ep = nest_data()["models"][figure.model].get("ep_degree", 1)
    return FullLimits(tp=figure.degrees.tp, pp=figure.degrees.pp, dp=figure.degrees.dp * ep)


def _cluster(figure: NestFigure) -> Cluster:
    data = nest_data()
    sizes = [*data["num_inner_devices"], figure.num_devices]
    rates = data["setups"][figure.setup]["level_bytes_per_s"]
    levels = [
        NetworkLevel(num_devices=size, bytes_per_s=rate, latency_s=latency)
        for size, rate, latency in zip(sizes, rates, data["latency_s"], strict=True)
    ]
    return Cluster(num_devices=figure.num_devices, levels=tuple(levels))
