"""What results about models, chips, operators and schedules show: sentences and cells, drawn by ``present``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rephaze.api.amounts import amount, byte_amount
from rephaze.api.chip_facts import chip_facts
from rephaze.api.present import Block, TextTable
from rephaze.types.schedule import ScheduleStatus
from rephaze.units import FLOPS_PER_TFLOPS, J_PER_PJ, S_PER_MS, S_PER_US, UM2_PER_MM2

if TYPE_CHECKING:
    from rephaze.api.chips import KnownChip
    from rephaze.api.models import Model
    from rephaze.api.operators import Estimate
    from rephaze.api.schedules import ScheduledPass
    from rephaze.api.spaces import DesignCount
    from rephaze.types.chip import Chip

_J_PER_UJ = 1e6 * J_PER_PJ


def model_blocks(model: Model) -> list[Block]:
    """A model in a sentence, and its layer types."""
    headline = (
        f"{model.name}: {amount(model.num_parameters)} parameters, {len(model.layer_names)} layers, "
        f"{model.seq_len:,} tokens a sample, {model.dtype}, {model.attention} attention, {model.cut_text}; "
        f"legal tp {', '.join(map(str, model.legal_tp))}"
    )
    return [headline, layer_table(model)]


def layer_table(model: Model, microbatch: int = 1) -> TextTable:
    """The layer types of a model at a microbatch size."""
    rows = tuple(
        (
            sizes.type,
            _ranges(sizes.layers),
            amount(sizes.num_parameters),
            amount(sizes.forward_flops),
            amount(sizes.backward_flops),
            byte_amount(sizes.saved_bytes),
            byte_amount(sizes.input_bytes),
            byte_amount(sizes.working_bytes),
        )
        for sizes in model.layer_sizes(microbatch)
    )
    headings = ("layer type", "layers", "params", "FLOP fwd", "FLOP bwd", "saved", "input", "working")
    title = f"{model.name} at {model.cut_text}, microbatch {microbatch}"
    return TextTable(headings=headings, rows=rows, left=frozenset({"layer type"}), title=title)


def known_chip_blocks(known: KnownChip) -> list[Block]:
    """A known chip: every value with grade and source, and what follows from them."""
    rows = [
        (
            field,
            found.value if isinstance(found.value, str) else f"{found.value:,.6g}",
            f"{found.grade} {found.source}" + (f" {found.note}" if found.note else ""),
        )
        for field, found in known.values.items()
    ]
    rows += [(field, "—", "not found: using it is an error") for field in known.blanks]
    words = frozenset({"field", "source"})
    table = TextTable(headings=("field", "value", "source"), rows=tuple(rows), left=words)
    derived = [] if known.chip is None else [facts_sentence(known.chip)]
    return [f"{known.name}: {known.title}", table, *derived]


def facts_sentence(chip: Chip) -> str:
    """Area, peak, power and cost of a chip."""
    found = chip_facts(chip)
    cost = "no cost: no such die fits a wafer"
    if found.cost_usd is not None:
        cost = f"cost {found.cost_usd:,.0f} USD (die and memory)"
    return (
        f"area {found.area_um2['corrected'] / UM2_PER_MM2:,.1f} mm² (corrected model), "
        f"{found.area_um2['paper'] / UM2_PER_MM2:,.1f} mm² (paper's); "
        f"peak {chip.peak_flops_per_s / FLOPS_PER_TFLOPS:,.1f} TFLOP/s; "
        f"full-use power {found.full_power_w:,.0f} W; "
        f"{cost}"
    )


def design_count_blocks(count: DesignCount) -> list[Block]:
    """A design space in numbers: grid points, what each limit removes, what is left."""
    return [
        f"scenario {count.scenario.name}: {count.scenario.title}",
        limits_sentence(count),
        removal_table(count),
        *([] if count.census.num_designs else [nothing_sentence(count)]),
    ]


def limits_sentence(count: DesignCount) -> str:
    """The area limits of the space."""
    space = count.scenario.space
    floor = f"floor {space.area_floor_um2 / UM2_PER_MM2:,.2f} mm²" if space.area_floor_um2 else "no floor"
    return f"area limit {space.area_limit_um2 / UM2_PER_MM2:,.2f} mm² ({space.area_model} model), {floor}"


def removal_table(count: DesignCount) -> TextTable:
    """Grid points, how many fall to each limit, and the designs left."""
    space, census = count.scenario.space, count.census
    limit_mm2, floor_mm2 = space.area_limit_um2 / UM2_PER_MM2, space.area_floor_um2 / UM2_PER_MM2
    removed = [
        (census.num_above_area_limit, f"above the area limit of {limit_mm2:,.2f} mm² ({space.area_model} model)"),
        (census.num_below_area_floor, f"below the floor of {floor_mm2:,.2f} mm² (single-core chips stay)"),
        (census.num_above_power_limit, f"above {space.power_limit_w:,.0f} W at full use"),
        (census.num_against_constraints, "; ".join(f"not {rule.text}" for rule in space.constraints)),
    ]
    rows = (
        (f"{census.num_grid_points:,}", "grid points"),
        *((f"-{number:,}", reason) for number, reason in removed if number),
        (f"{census.num_designs:,}", "designs"),
    )
    return TextTable(headings=("chips", "what"), rows=rows, left=frozenset({"what"}))


def nothing_sentence(count: DesignCount) -> str:
    """Of a space without a design: the limit that removes most, and what to change."""
    space, census = count.scenario.space, count.census
    smallest = f"the smallest chip it lists has {count.smallest_um2 / UM2_PER_MM2:,.2f} mm²"
    _, name, fix = max(
        (census.num_above_area_limit, "area_limit_um2", f"raise it or list smaller values: {smallest}"),
        (census.num_below_area_floor, "area_floor_fraction", "lower it or list larger values"),
        (census.num_above_power_limit, "power_limit_w", "raise it or list smaller values"),
        (census.num_against_constraints, "constraints", "; ".join(rule.text for rule in space.constraints)),
    )
    return f"No design keeps to the limits, most break {name}; {fix}."


def estimate_blocks(found: Estimate) -> list[Block]:
    """The time of a microbatch in a sentence, and the operators."""
    return [*estimate_sentences(found), operator_table(found)]


def estimate_sentences(found: Estimate) -> list[str]:
    """What all operators together take and reach."""
    flops_per_s = found.num_flops / found.total_s if found.total_s else 0.0
    peak_share = flops_per_s / found.chip.peak_flops_per_s
    said = [
        f"{found.model} on {found.chip.name}, microbatch {found.microbatch}, tp {found.tp}: "
        f"one operator after the other {found.total_s / S_PER_MS:,.2f} ms, "
        f"{flops_per_s / FLOPS_PER_TFLOPS:,.1f} TFLOP/s ({peak_share:.1%} of peak), "
        f"{found.energy_per_sample_j:,.3g} J a sample"
    ]
    if found.num_model_flops > found.num_flops:
        said.append(
            f"model FLOPs, which count all of a causal square: {found.num_model_flops / FLOPS_PER_TFLOPS:,.1f} T "
            f"instead of the {found.num_flops / FLOPS_PER_TFLOPS:,.1f} T done"
        )
    return said


def operator_table(found: Estimate) -> TextTable:
    """The operators of each layer type, in order."""
    rows, last = [], ("", "")
    for one in found.operators:
        here = (one.layer, one.direction)
        rows.append(
            (
                one.layer if one.layer != last[0] else "",
                one.direction if here != last else "",
                one.name,
                one.engine.value,
                str(one.num_times),
                f"{one.time_s / S_PER_US:,.1f}",
                f"{one.time_share:.1%}",
                f"{one.tensor_utilization:.0%}" if one.num_flops else "",
                f"{one.energy_j / _J_PER_UJ:,.0f}",
                one.bound_by,
            )
        )
        last = here
    headings = ("layer", "pass", "operator", "engine", "times", "us", "share", "array", "uJ", "bound by")
    return TextTable(
        headings=headings,
        rows=tuple(rows),
        left=frozenset({"layer", "pass", "operator", "engine", "bound by"}),
        title="Operators, each on all cores of its engine",
    )


def schedule_blocks(found: ScheduledPass) -> list[Block]:
    """A schedule in a sentence with its proof, the use of the cores, and when each operator runs."""
    schedule = found.schedule
    if schedule.status is ScheduleStatus.INFEASIBLE:
        return [f"{found.label}: infeasible: {schedule.reason}"]
    length, proof, rest = headline_parts(found)
    return [f"{found.label}: {length}, {proof} {rest}", usage_sentence(found), start_table(found)]


def headline_parts(found: ScheduledPass) -> tuple[str, str, str]:
    """How long a schedule is, what is proven, and against which bound."""
    schedule, clock_hz = found.schedule, found.clock_hz

    def length(cycles: int) -> str:
        return f"{cycles:,} cycles" + (f" ({cycles / clock_hz / S_PER_US:,.4g} us)" if clock_hz else "")

    proof = "proven optimal" if schedule.status is ScheduleStatus.OPTIMAL else f"gap {found.gap:.3%}"
    solved = f"solved in {schedule.solve_s / S_PER_MS:.3g} ms"
    return length(schedule.makespan_cycles), proof, f"(bound {schedule.bound_cycles:,} cycles); {solved}"


def usage_sentence(found: ScheduledPass) -> str:
    """How busy the cores and the link are."""
    usage = found.usage
    return (
        f"tensor cores {usage.tensor_mean_utilization:.1%} on average, "
        f"peak {usage.tensor_peak_utilization:.0%}; "
        f"vector cores {usage.vector_mean_utilization:.1%}, peak {usage.vector_peak_utilization:.0%}; "
        f"link {usage.link_mean_utilization:.1%}"
    )


def start_table(found: ScheduledPass) -> TextTable:
    """When each operator that takes time runs, and how."""
    ops = {op.name: op for op in found.problem.ops}
    rows = []
    for start in sorted(found.schedule.starts, key=lambda start: start.start_cycles):
        op = ops[start.op]
        cycles = start.way_of(op).cycles
        if cycles:
            begin, end = f"{start.start_cycles:,}", f"{start.start_cycles + cycles:,}"
            mode = start.mode.replace("_", " ")
            rows.append((op.name, op.engine.value, mode, begin, f"{cycles:,}", end))
    words = ("op", "core", "mode")
    return TextTable(headings=(*words, "start", "cycles", "end"), rows=tuple(rows), left=frozenset(words))


def _ranges(numbers: tuple[int, ...]) -> str:
    first, last = numbers[0], numbers[-1]
    if len(numbers) == 1:
        return str(first)
    return f"{first}-{last}" if last - first + 1 == len(numbers) else f"{len(numbers)} of {first}-{last}"
