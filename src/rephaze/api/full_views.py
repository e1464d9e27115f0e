"""What plans of cost model ``full`` show: the plan in a sentence, its stages, where the time goes, memory."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rephaze.api.present import Block, TextTable
from rephaze.types.full import DeviceMemory, FullGraph, FullLimits, FullPlan, FullPrice, TimeCauses
from rephaze.units import GIB, S_PER_MS

if TYPE_CHECKING:
    from rephaze.api.full_plans import FullAlternative, FullAnswer
    from rephaze.api.placed_from import PlacedFrom

MEMORY_PARTS = ("weights", "gradients", "state", "kept", "replay", "working")


def answer_blocks(found: FullAnswer) -> list[Block]:
    """Headline, replay, stages, where the time goes, memory of the fullest device, what would help."""
    if found.price is None or found.graph is None or found.causes is None or found.replay is None:
        blocks: list[Block] = [f"{found.label}: {found.status}: {found.reason}"]
    else:
        blocks = [
            f"{found.label}: {_headline(found, found.price)}",
            *([] if found.rates is None else [found.rates.sentence]),
            *([found.source.rates_sentence] if found.source and found.source.rates_sentence else []),
            *_not_proven(found),
            replay_sentence(found.replay.batch_s, found.replay_note),
            _stage_table(found.graph, found.price),
            causes_sentence(found.causes),
            memory_sentence(found.price),
            *([] if found.source is None else [margin_sentence(found.price, found.source)]),
        ]
        blocks += judged_sentences(found)
        blocks += [f"- {remedy}" for remedy in found.remedies]
    if found.alternative is not None:
        blocks += alternative_blocks(found, found.alternative)
    return blocks


def judged_sentences(found: FullAnswer) -> list[str]:
    """What measured runs say of the price and of the choice, if it was set beside them."""
    if not found.is_judged:
        return []
    near = found.nothing_near if found.expected is None else found.expected.sentence()
    said = [f"expected: {near}"]
    return said + ([found.stability.sentence()] if found.stability is not None else [])


def _not_proven(found: FullAnswer) -> list[str]:
    """What is open of an answer, and over which cuts it holds, if there is anything to say."""
    said = [f"not proven: {found.reason}"] if found.reason and found.solve_s is not None else []
    return said + ([f"those cuts: {found.scope}"] if found.scope else [])


def alternative_blocks(found: FullAnswer, alternative: FullAlternative) -> list[Block]:
    """The plan asked about beside the best."""
    blocks: list[Block] = [f"Why not {choices_asked(alternative.limits)}? {alternative.text}"]
    if alternative.launch_note:
        blocks.append(alternative.launch_note)
    other = alternative.placement.best
    if other is None:
        return blocks
    if found.causes is not None and found.price is not None and alternative.loss_s:
        blocks.append(_comparison(found.causes, found.price, other, alternative.loss_s))
    proof = f"{alternative.placement.status}, none such is faster than {alternative.placement.bound_s:.6g} s"
    if alternative.placement.scope:
        proof += f", over {alternative.placement.scope}"
    return [*blocks, f"the alternative: {plan_sentence(other.plan, other.num_cluster_devices)}; {proof}"]


def choices_asked(limits: FullLimits) -> str:
    """The choices an alternative keeps to."""
    chosen = {name: getattr(limits, name) for name in limits.__slots__}
    told = {name: ("off", "on")[value] if isinstance(value, bool) else value for name, value in chosen.items()}
    return ", ".join(f"{name} {value}" for name, value in told.items() if value is not None)


def _comparison(causes: TimeCauses, best: FullPrice, other: FullPrice, loss_s: dict[str, float]) -> TextTable:
    pairs = [("batch s", best.batch_s, other.batch_s)]
    for name, lost_s in loss_s.items():
        here_s = getattr(causes, f"{name}_s")
        pairs.append((name, here_s, here_s + lost_s))
    rows = [
        (name, f"{here:.6g}", f"{there:.6g}", f"{there - here:+.4g}")
        for name, here, there in pairs
        if here or there
    ]
    left, other_left = _left_gib(best), _left_gib(other)
    rows.append(("memory left GiB", f"{left:.4g}", f"{other_left:.4g}", f"{other_left - left:+.4g}"))
    return TextTable(headings=("", "optimum", "alternative", "difference"), rows=tuple(rows), left=frozenset({""}))


def _left_gib(price: FullPrice) -> float:
    return (price.device_memory_bytes - max(device.total_bytes for device in price.devices)) / GIB


def plan_sentence(plan: FullPlan, num_cluster_devices: int) -> str:
    """Degrees, schedule and sharding of a plan."""
    cut = f"{plan.sharding} sharded over {plan.shard_group}" if plan.shard_group > 1 else "nothing sharded"
    again = ", gathered for every pass" if plan.is_gathering else ""
    chunks = f" of {plan.chunks} chunks a device" if plan.chunks > 1 else ""
    experts = f" of etp {plan.etp}" if plan.etp > 1 else ""
    order = f", {plan.order}" if plan.dp > 1 and plan.pp > 1 else ""
    return (
        f"tp {plan.tp}{' and sp' if plan.sp else ''}, cp {plan.cp}, "
        f"ep {plan.ep}{experts}, pp {plan.pp}, dp {plan.dp}, microbatch {plan.microbatch}; "
        f"{plan.schedule}{chunks}, {cut}{again}{order}; "
        f"{plan.num_devices} of {num_cluster_devices} devices"
    )


def replay_sentence(replay_s: float, note: str) -> str:
    """The time of a batch as the devices would run it."""
    told = f"replayed pass by pass: {replay_s:.6g} s"
    return f"{told}; {note}" if note else told


def causes_sentence(causes: TimeCauses) -> str:
    """The parts of a batch's time."""
    total_s = causes.total_s or 1.0
    parts = {name.removesuffix("_s"): getattr(causes, name) for name in causes.__slots__}
    return "time: " + ", ".join(f"{name} {part / total_s:.1%}" for name, part in parts.items() if part > 0)


def memory_sentence(price: FullPrice) -> str:
    """What is left, or lacking, on the fullest device, and what fills it."""
    fullest = max(price.devices, key=lambda device: device.total_bytes)
    left = price.device_memory_bytes - fullest.total_bytes
    told = f"{left / GIB:.3g} GiB left" if left >= 0 else f"{-left / GIB:.3g} GiB over"
    return f"fullest device: {told} of {price.device_memory_bytes / GIB:.4g} GiB ({memory_parts(fullest)})"


def margin_sentence(price: FullPrice, source: PlacedFrom) -> str:
    """What of the memory is kept free, and why."""
    from rephaze.hardware.derating import usable_memory_share

    share = usable_memory_share()
    why = f"beyond {share:.1%} of a device by our count measured runs failed or slowed to a third"
    if source.rates_sentence:
        return f"margin: the {source.chip.hbm_bytes / GIB:.4g} GiB of the chip less {1 - share:.1%}: {why}"
    fullest = max(device.total_bytes for device in price.devices)
    if fullest <= share * price.device_memory_bytes:
        return f"margin: kept; {why}"
    return f"margin: not kept; {why}; --physics calibrated plans with it"


def memory_parts(device: DeviceMemory) -> str:
    """GiB by purpose."""
    sizes = {name: getattr(device, f"{name}_bytes") / GIB for name in MEMORY_PARTS}
    return ", ".join(f"{name} {size:.3g}" for name, size in sizes.items() if size > 0)


def _headline(found: FullAnswer, price: FullPrice) -> str:
    some = " of some cuts" if found.scope else ""
    proof = f"none of family {found.problem.options.family}{some} is faster than {found.bound_s:.6g} s"
    told = found.status if found.solve_s is None else f"{found.status}: {proof}"
    return f"{price.batch_s:.6g} s a batch ({told}) with {plan_sentence(price.plan, price.num_cluster_devices)}"


def _stage_table(graph: FullGraph, price: FullPrice) -> TextTable:
    rows = []
    for at, (stage, load_s) in enumerate(zip(price.plan.stages, price.stage_load_s, strict=True)):
        names = [graph.layers[v].name for v in stage.layers]
        told = names[0] if len(names) == 1 else f"{names[0]}..{names[-1]} ({len(names)})"
        held = f"{price.devices[at % price.plan.pp].total_bytes / GIB:.3g}"
        rows.append((str(at), told, str(stage.keep), f"{load_s / S_PER_MS:.4g}", held))
    headings = ("stage", "layers", "keep", "load ms", "GiB on its device")
    return TextTable(headings=headings, rows=tuple(rows), left=frozenset({"layers"}))
