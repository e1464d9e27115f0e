"""The plans of a search: decisions, where the time and the memory go, stage by stage."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rephaze.report.page import details, figure, heading, paragraph, table
from rephaze.report.search_plots import stages_figure
from rephaze.types.full import DeviceMemory, Sharding, TimeCauses
from rephaze.types.plan_account import PlanAccount
from rephaze.types.search import ModelPlan
from rephaze.units import GIB, S_PER_MS

CAUSE_WORDS = {
    "compute_s": "compute: forward and backward passes",
    "replay_s": "replay: computing again what was not kept",
    "messages_s": "messages between stages",
    "gathers_s": "gathers: waiting for weights of a pass and their gradients",
    "bubble_s": "bubble: waiting for other stages",
    "sync_s": "sync: gradients summed once a batch, as far as nothing hides it",
    "tied_s": "tied weights",
    "step_s": "the optimizer's step",
    "regather_s": "regather: weights gathered once a batch, as far as nothing hides it",
}
MEMORY_WORDS = {
    "weights_bytes": "weights",
    "gradients_bytes": "gradients",
    "state_bytes": "optimizer state",
    "kept_bytes": "kept activations",
    "replay_bytes": "replayed activations",
    "working_bytes": "working set",
}


def plans_body(plans: Sequence[ModelPlan], accounts: Sequence[PlanAccount], missing: str, is_full: bool) -> str:
    """The section's HTML.

    Args:
        plans: One for each model.
        accounts: Where time and memory go, under cost model ``full``; may be lacking.
        missing: Why they are, if they should be there.
        is_full: Under cost model ``full``.
    """
    if not plans:
        return paragraph("There is no plan.")
    body = table(*_overview(plans))
    account_of = {account.model: account for account in accounts}
    if is_full:
        body += heading("Decisions") + table(*_decisions(plans, account_of))
        body += paragraph(missing, "note") if missing else ""
    for plan in plans:
        if plan.model in account_of:
            body += _account(plan, account_of[plan.model])
        body += _stages(plan)
    return body


def _overview(plans: Sequence[ModelPlan]) -> tuple[list[str], list[list[str]]]:
    header = ["model", "samples/s", "batch (ms)", "tp", "dp", "pp", "microbatch", "recompute", "HBM (GiB)"]
    rows = [
        [
            plan.model,
            f"{plan.samples_per_s:,.5g}",
            f"{plan.batch_s / S_PER_MS:,.5g}",
            *(f"{number:,}" for number in (plan.tp, plan.dp, plan.pp, plan.microbatch)),
            plan.recompute,
            f"{plan.hbm_bytes / GIB:,.4g}",
            f"{plan.energy_per_sample_j:,.4g}",
        ]
        for plan in plans
    ]
    return [*header, "J/sample"], rows


def _decisions(
    plans: Sequence[ModelPlan], account_of: dict[str, PlanAccount]
) -> tuple[list[str], list[list[str]]]:
    """One row for each decision of cost model ``full``, one column for each model."""

    def told(plan: ModelPlan) -> dict[str, str]:
        is_sharded = plan.sharding is not Sharding.NONE
        chunks = f", {plan.chunks} chunks a device" if plan.chunks > 1 else ""
        return {
            "tensor parallel (tp)": f"{plan.tp:,}",
            "sequence parallel (sp)": "on" if plan.sp else "off",
            "context parallel (cp)": f"{plan.cp:,}",
            "expert parallel (ep), etp": f"{plan.ep:,}, {plan.etp:,}",
            "data parallel (dp)": f"{plan.dp:,}",
            "pipeline parallel (pp)": f"{plan.pp:,}",
            "chips in use (tp x cp x dp x pp)": f"{plan.num_devices:,}",
            "order of devices": str(plan.order)
            if plan.dp > 1 and plan.pp > 1
            else "no matter with one replica or one stage",
            "sharding": str(plan.sharding),
            "shard group": f"{plan.shard_group:,} of {plan.cp * plan.dp:,} replicas" if is_sharded else "none",
            "reshard": _reshard(plan),
            "schedule": f"{plan.schedule}{chunks}",
            "microbatch": f"{plan.microbatch:,}",
            "kept of a stage": _kept(plan, account_of.get(plan.model)),
        }

    columns = [told(plan) for plan in plans]
    rows = [[name, *(column[name] for column in columns)] for name in columns[0]]
    return ["decision", *(plan.model for plan in plans)], rows


def _reshard(plan: ModelPlan) -> str:
    if plan.sharding is not Sharding.WEIGHTS:
        return "off"
    return "on: weights gathered for every pass" if plan.reshard else "off: weights gathered once a batch"


def _kept(plan: ModelPlan, account: PlanAccount | None) -> str:
    """What stages keep between their passes, as positions in their layers' lists."""
    keeps = [stage.keep for stage in plan.stages]
    if not any(keeps):
        return "everything: nothing is replayed"
    least, most = min(keeps), max(keeps)
    positions = f"position {least}" if least == most else f"positions {least} to {most}"
    last = f" of 0 to {account.num_keep_positions - 1}" if account else ""
    return f"{positions}{last} (0 keeps everything, the last least)"


def _account(plan: ModelPlan, account: PlanAccount) -> str:
    fullest = max(account.devices, key=lambda device: device.total_bytes)
    number = account.devices.index(fullest) + 1
    body = heading(f"{plan.model}: where the time of a batch goes") + table(*_causes(account.causes))
    body += heading(f"{plan.model}: what fills the fullest chip") + table(*_memory(fullest, plan.hbm_bytes))
    if plan.pp > 1:
        body += paragraph(f"Device {number} of {plan.pp} of a pipeline.", "note")
        body += figure(memory_figure(account, plan.hbm_bytes))
    return body


def _causes(causes: TimeCauses) -> tuple[list[str], list[list[str]]]:
    total_s = causes.total_s or 1.0
    parts = [(words, getattr(causes, name)) for name, words in CAUSE_WORDS.items()]
    shown = [(words, part) for words, part in parts if part > 1e-9 * total_s]
    rows = [[words, f"{part / S_PER_MS:,.4g}", f"{part / total_s:.2%}"] for words, part in shown]
    return ["cause", "ms", "share"], [*rows, ["a batch", f"{causes.total_s / S_PER_MS:,.5g}", ""]]


def _memory(device: DeviceMemory, hbm_bytes: int) -> tuple[list[str], list[list[str]]]:
    parts = [(words, getattr(device, name)) for name, words in MEMORY_WORDS.items()]
    parts = [*((words, part) for words, part in parts if part > 0), ("free", hbm_bytes - device.total_bytes)]
    rows = [[words, f"{part / GIB:,.4g}", f"{part / hbm_bytes:.1%}"] for words, part in parts]
    return ["purpose", "GiB", "of HBM"], [*rows, ["HBM of a chip", f"{hbm_bytes / GIB:,.4g}", ""]]


def memory_figure(account: PlanAccount, hbm_bytes: int) -> Any:
    """Memory of each device of a pipeline by purpose, against what a chip has."""
    import plotly.graph_objects as go

    plot = go.Figure()
    numbers = list(range(1, len(account.devices) + 1))
    for name, words in MEMORY_WORDS.items():
        sizes = [getattr(device, name) / GIB for device in account.devices]
        if any(sizes):
            plot.add_bar(
                name=words,
                x=numbers,
                y=sizes,
                hovertemplate="device %{x}: %{y:,.4g} GiB " + words + "<extra></extra>",
            )
    plot.add_hline(y=hbm_bytes / GIB, line={"color": "#a62424", "dash": "dot"})
    plot.update_xaxes(title="device of a pipeline", tickformat="d")
    plot.update_yaxes(title="GiB", range=[0, 1.1 * hbm_bytes / GIB])
    plot.update_layout(
        barmode="stack",
        template="plotly_white",
        height=320,
        margin={"l": 70, "r": 20, "t": 60, "b": 50},
        legend={"orientation": "h", "yanchor": "bottom", "y": 1.0, "x": 0},
        font={"family": "system-ui, sans-serif", "size": 13},
    )
    return plot


def _stages(plan: ModelPlan) -> str:
    header = ["stage", "first layer", "last layer", "layers", "chips", "load (ms)", "memory (GiB)", "recompute"]
    rows = [
        [
            str(number),
            stage.first_layer,
            stage.last_layer,
            f"{stage.num_layers:,}",
            f"{stage.num_devices:,}",
            f"{stage.load_s / S_PER_MS:,.4g}",
            f"{stage.memory_bytes / GIB:,.4g}",
            stage.recompute,
        ]
        for number, stage in enumerate(plan.stages, start=1)
    ]
    return (
        heading(f"{plan.model}: stages")
        + figure(stages_figure(plan))
        + details(f"Stages of {plan.model} as a table", table(header, rows))
    )
