"""The plans of a search: decisions, where the time and the memory go, stage by stage."""

from __future__ import annotations

from collections.abc import Sequence

from rephaze.report.figure import figure_html
from rephaze.report.memory_bars import PURPOSES, memory_figure
from rephaze.report.page import details, heading, paragraph, table, tabs
from rephaze.report.timeline import timeline_figure
from rephaze.types.full import DeviceMemory, Sharding, TimeCauses
from rephaze.types.plan_account import PlanAccount, PlanDetail
from rephaze.types.readable import amount
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


def plans_body(plans: Sequence[ModelPlan], found: Sequence[PlanDetail], missing: str, is_full: bool) -> str:
    """The section's HTML.

    Args:
        plans: One for each model.
        found: What was found out of each plan; may be lacking.
        missing: Why it is, if it should be there.
        is_full: Under cost model ``full``.
    """
    if not plans:
        return paragraph("There is no plan.")
    body = table(*_overview(plans))
    detail_of = {detail.model: detail for detail in found}
    if is_full:
        account_of = {name: detail.account for name, detail in detail_of.items() if detail.account}
        body += heading("Decisions") + table(*_decisions(plans, account_of), texts=range(1, 1 + len(plans)))
    if missing:
        body += paragraph(missing, "note")
    panels = [(plan.model, _one_plan(plan, detail_of.get(plan.model))) for plan in plans]
    return body + tabs("Plans by model", panels)


def _one_plan(plan: ModelPlan, detail: PlanDetail | None) -> str:
    body = ""
    if detail is not None and detail.missing:
        body += paragraph(f"What the plan of {plan.model} does could not be told: {detail.missing}.", "note")
    if detail is not None and detail.timeline is not None:
        body += figure_html(timeline_figure(plan.model, detail.timeline))
    if detail is not None and detail.account is not None:
        body += figure_html(memory_figure(detail.account, plan.hbm_bytes))
        body += _account(plan, detail.account)
    return body + _stages(plan)


def _overview(plans: Sequence[ModelPlan]) -> tuple[list[str], list[list[str]]]:
    header = ["model", "samples/s", "batch (ms)", "tp", "dp", "pp", "microbatch", "recompute", "GiB used"]
    rows = [
        [
            plan.model,
            amount(plan.samples_per_s),
            amount(plan.batch_s / S_PER_MS),
            *(f"{number:,}" for number in (plan.tp, plan.dp, plan.pp, plan.microbatch)),
            plan.recompute,
            f"{max(stage.memory_bytes for stage in plan.stages) / GIB:,.1f} of {plan.hbm_bytes / GIB:,.4g}",
            amount(plan.energy_per_sample_j),
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
    body += paragraph(f"Device {number} of {plan.pp} of a pipeline.", "note") if plan.pp > 1 else ""
    return details(f"Time and memory of {plan.model} as tables", body)


def _causes(causes: TimeCauses) -> tuple[list[str], list[list[str]]]:
    total_s = causes.total_s or 1.0
    parts = [(words, getattr(causes, name)) for name, words in CAUSE_WORDS.items()]
    shown = [(words, part) for words, part in parts if part > 1e-9 * total_s]
    rows = [[words, amount(part / S_PER_MS), f"{part / total_s:.2%}"] for words, part in shown]
    return ["cause", "ms", "share"], [*rows, ["a batch", amount(causes.total_s / S_PER_MS, 5), ""]]


def _memory(device: DeviceMemory, hbm_bytes: int) -> tuple[list[str], list[list[str]]]:
    parts = [(words, getattr(device, name)) for name, (words, _) in PURPOSES.items()]
    parts = [*((words, part) for words, part in parts if part > 0), ("free", hbm_bytes - device.total_bytes)]
    rows = [[words, f"{part / GIB:,.4g}", f"{part / hbm_bytes:.1%}"] for words, part in parts]
    return ["purpose", "GiB", "of HBM"], [*rows, ["HBM of a chip", f"{hbm_bytes / GIB:,.4g}", ""]]


def _stages(plan: ModelPlan) -> str:
    header = ["stage", "first layer", "last layer", "layers", "chips", "load (ms)", "memory (GiB)", "recompute"]
    rows = [
        [
            str(number),
            stage.first_layer,
            stage.last_layer,
            f"{stage.num_layers:,}",
            f"{stage.num_devices:,}",
            amount(stage.load_s / S_PER_MS),
            f"{stage.memory_bytes / GIB:,.4g}",
            stage.recompute,
        ]
        for number, stage in enumerate(plan.stages, start=1)
    ]
    return details(f"Stages of {plan.model} as a table", table(header, rows, texts=(1, 2)))
