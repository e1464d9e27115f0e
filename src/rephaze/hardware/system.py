"""A system applied to a scenario: the template and the cluster that all other code knows, and what is billed."""

from __future__ import annotations

from dataclasses import replace

from rephaze.errors import SpecError
from rephaze.hardware.clock import check_clock
from rephaze.hardware.hbm import TODAYS_HBM, hbm_stack
from rephaze.hardware.links import inside_bytes_per_s, link_value, outside_bytes_per_s
from rephaze.hardware.space_terms import space_bill
from rephaze.hardware.system_chips import System
from rephaze.types.chip import Chip, chip_table
from rephaze.types.cluster import Cluster, NetworkLevel, resized_cluster
from rephaze.types.scenario import Scenario
from rephaze.types.space import AreaModel, Template
from rephaze.types.system import BilledSystem, ChosenSystem, ClusterBudget, SystemChoice


def with_system(scenario: Scenario, choice: SystemChoice) -> Scenario:
    """The scenario with this system: nothing chosen is the scenario as it is."""
    if choice == SystemChoice():
        return scenario
    _check_knows_systems(scenario)
    template = system_template(scenario.space.template, choice)
    cluster = system_cluster(scenario.cluster, choice)
    return replace(scenario, space=replace(scenario.space, template=template), cluster=cluster)


def billed_scenario(scenario: Scenario, choice: SystemChoice, budget: ClusterBudget) -> Scenario:
    """The scenario with this system, its chips billed for it and its cluster held to the budget."""
    resolved, given = resolved_system(scenario, choice), with_system(scenario, choice)
    billed = BilledSystem(
        hbm=TODAYS_HBM if choice.hbm is None else choice.hbm,
        num_inside_links=resolved.num_inside_links,
        num_outside_links=resolved.num_outside_links,
        num_node_chips=resolved.node_size,
        num_chips=resolved.num_chips,
        nominal_hz=scenario.space.template.clock_hz,
        budget=budget,
    )
    return replace(given, space=replace(given.space, system=billed))


def chosen_system(scenario: Scenario, chip: Chip) -> ChosenSystem:
    """The system of a billed scenario with what a cluster of this chip takes."""
    system, bill = scenario.space.system, space_bill(chip_table([chip]), scenario.space)
    assert system is not None
    return ChosenSystem(
        clock_hz=chip.clock_hz,
        hbm=system.hbm,
        num_inside_links=system.num_inside_links,
        num_outside_links=system.num_outside_links,
        inside_bytes_per_s=inside_bytes_per_s(system.num_inside_links),
        outside_bytes_per_s=outside_bytes_per_s(system.num_outside_links),
        num_node_chips=system.num_node_chips,
        num_chips=system.num_chips,
        silicon_mm2=float(bill.silicon_mm2_c[0]),
        power_w=float(bill.power_w_c[0]),
        cost_usd=float(bill.usd_c[0]),
    )


def system_template(template: Template, choice: SystemChoice) -> Template:
    """The template with the clock and the stacks chosen."""
    if choice.clock_hz is not None:
        check_clock("clock_hz", choice.clock_hz)
        template = replace(template, clock_hz=choice.clock_hz)
    if choice.hbm is not None:
        stack = hbm_stack(choice.hbm)
        template = replace(
            template, hbm_stack_bytes=stack.stack_bytes, hbm_stack_bytes_per_s=stack.stack_bytes_per_s
        )
    return template


def system_chip(chip: Chip, choice: SystemChoice) -> Chip:
    """The chip with the clock and the stacks chosen; where nothing is, it keeps its own, whatever they are."""
    if choice.clock_hz is not None:
        check_clock("clock_hz", choice.clock_hz)
        chip = replace(chip, clock_hz=choice.clock_hz)
    if choice.hbm is not None:
        stack = hbm_stack(choice.hbm)
        chip = replace(
            chip,
            hbm_bytes=chip.num_hbm_stacks * stack.stack_bytes,
            hbm_bytes_per_s=chip.num_hbm_stacks * stack.stack_bytes_per_s,
        )
    return chip


def system_cluster(cluster: Cluster, choice: SystemChoice) -> Cluster:
    """The cluster with the links, the node and the number of chips chosen; latencies stay."""
    chosen = (choice.num_inside_links, choice.num_outside_links, choice.node_size)
    if chosen == (None, None, None):
        return cluster if choice.num_chips is None else resized_cluster(cluster, choice.num_chips)
    if len(cluster.levels) != 2:
        rule = "links and nodes can be chosen where the cluster has two levels, inside a node and outside"
        raise SpecError("levels", [level.num_devices for level in cluster.levels], rule)
    inner, outer = cluster.levels
    num_chips = cluster.num_devices if choice.num_chips is None else choice.num_chips
    node_size = inner.num_devices if choice.node_size is None else choice.node_size
    if choice.num_inside_links is not None:
        inner = replace(inner, bytes_per_s=inside_bytes_per_s(choice.num_inside_links))
    if choice.num_outside_links is not None:
        outer = replace(outer, bytes_per_s=outside_bytes_per_s(choice.num_outside_links))
    levels: tuple[NetworkLevel, ...]
    if num_chips <= node_size:
        levels = (replace(inner, num_devices=num_chips),)
    else:
        reach = -(-num_chips // node_size) * node_size
        levels = (replace(inner, num_devices=node_size), replace(outer, num_devices=reach))
        # A node of one chip has nobody inside it.
        levels = levels[1:] if node_size == 1 else levels
    return Cluster(num_devices=num_chips, levels=levels)


def resolved_system(scenario: Scenario, choice: SystemChoice) -> System:
    """What a choice is billed for; where it leaves a field alone, links for the scenario's bytes a second.

    Links are a chip's own, also those outside of a cluster that is a single node.
    """
    _check_knows_systems(scenario)
    cluster = scenario.cluster
    # All levels but the innermost are outside; a flat network is a node if a rack holds it.
    has_node = len(cluster.levels) > 1 or cluster.levels[0].num_devices <= link_value("inside", "rack_chips")
    inside = cluster.levels[0].bytes_per_s if has_node else 0.0
    outside = sum(level.bytes_per_s for level in cluster.levels[1 if has_node else 0 :])
    system = System(
        # Whatever a template's stacks are, today's model charges them as these.
        hbm=hbm_stack(TODAYS_HBM if choice.hbm is None else choice.hbm),
        num_inside_links=inside / link_value("inside", "bytes_per_s"),
        num_outside_links=outside / link_value("outside", "bytes_per_s"),
        node_size=cluster.levels[0].num_devices if has_node else 1,
        num_chips=cluster.num_devices,
    )
    for field in ("num_inside_links", "num_outside_links", "node_size", "num_chips"):
        chosen = getattr(choice, field)
        if chosen is not None:
            system = replace(system, **{field: chosen})
    return system


def _check_knows_systems(scenario: Scenario) -> None:
    if scenario.space.area_model is not AreaModel.CORRECTED:
        rule = "a system has area, power and cost only under area model corrected"
        raise SpecError("area_model", str(scenario.space.area_model), rule)
