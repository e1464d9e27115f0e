"""Defects put back on purpose, one at a time: each a patch of the code under attack."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
import pytest

from rephaze.hardware import scenarios
from rephaze.measure.chip_solver import ChipSolver
from rephaze.measure.layer_bounds import FinerBounds
from rephaze.search import cosearch, evaluator
from rephaze.types.latency import ModeTable
from tests.attack import box_mutants, full_mutants, full_sieves, sieves, slow

Patch = pytest.MonkeyPatch
TOO_TIGHT = 0.97
"""What a mutant makes of an upper bound."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Mutant:
    """A defect and what must show it."""

    name: str
    plant: Callable[[Patch], None]
    attacks: tuple[str, ...]
    """Of the small budget: the first words of their names."""
    kinds: tuple[str, ...]
    claim: str = ""
    """Whose claim must be refuted; any if empty."""


def one_rate_for_all_products(patch: Patch) -> None:
    """The paper's words charged to one rate of the whole chip, also for products that run side by side."""
    sound = evaluator.device_time_batch_s

    def words_s(graph, chips, model):
        words_c = np.zeros(len(chips))
        a_mac_c = 3.0 / np.sqrt(chips.tensor_scratchpad_bytes / 2.0)
        for op in graph.ops:
            if op.gemm is None:
                continue
            sizes = (op.gemm.batch, op.gemm.m, op.gemm.n, op.gemm.k)
            one, two = (np.array([size.at(b) for size in sizes], dtype=np.float64) for b in (1, 2))
            words_c += np.maximum((two.prod() - one.prod()) * a_mac_c - one[:3].prod(), 0.0)
        return words_c / (model.array_words_per_cycle * chips.clock_hz)

    def sample_s(graph, chips, model):
        counts = np.bincount(np.array(graph.layer_type_of), minlength=len(graph.layer_types))
        return sum(
            count * (graph.tp if kind.is_sharded else 1) * words_s(one_pass, chips, model)
            for count, kind in zip(counts.tolist(), graph.layer_types, strict=True)
            for one_pass in (kind.forward, kind.backward)
        )

    def mutant(work, chips, model, exclusion):
        bound_s = sound(work, chips, model, exclusion)
        if model.has_memory_terms:
            return bound_s
        least_s = np.minimum.reduce([sample_s(work.graph(cut), chips, model) for cut in work.cuts])
        share = work.scenario.training.global_batch / work.scenario.cluster.num_devices
        return np.maximum(bound_s, least_s * share)

    patch.setattr(evaluator, "device_time_batch_s", mutant)


def unproven_called_optimal(patch: Patch) -> None:
    """Schedules that ran out of work taken for proven."""
    honest = ChipSolver.pass_times

    def mutant(self, *args, **kwargs):
        times = honest(self, *args, **kwargs)
        return replace(times, bound_cycles=times.cycles)

    patch.setattr(ChipSolver, "pass_times", mutant)


def floor_grows_with_the_limit(patch: Patch) -> None:
    """A higher area limit takes small designs away."""
    sound = scenarios._space

    def mutant(found):
        space = sound(found)
        return replace(space, area_floor_um2=0.5 * space.area_limit_um2)

    patch.setattr(scenarios, "_space", mutant)


def _counts(patch: Patch, change: Callable[[int, int], tuple[int, int]]) -> None:
    sound = cosearch.certify

    def mutant(*args, **kwargs):
        found = sound(*args, **kwargs)
        within = {name: change(least, most) for name, (least, most) in found.num_within.items()}
        return replace(found, num_within=within)

    patch.setattr(cosearch, "certify", mutant)


def unsolved_left_out_of_counts(patch: Patch) -> None:
    """Designs near the best that no one solved are not counted."""
    _counts(patch, lambda least, _most: (least, least))


def unsolved_counted_as_near(patch: Patch) -> None:
    """Designs are counted as near the best because their bound is."""
    _counts(patch, lambda _least, most: (most, most))


def one_counted_twice(patch: Patch) -> None:
    """The winner counted apart from the designs near it."""
    _counts(patch, lambda least, most: (least + 1, most + 1))


def a_dropped_design_counted_twice(patch: Patch) -> None:
    """A design is both dropped and solved in the certificate."""
    sound = cosearch.certify

    def mutant(*args, **kwargs):
        found = sound(*args, **kwargs)
        return replace(found, num_solved_exactly=found.num_solved_exactly + 1)

    patch.setattr(cosearch, "certify", mutant)


def fastest_mapping_only(patch: Patch) -> None:
    """Every operator mapped as if it were alone: the fastest mapping with the shares that one happens to need."""

    def mutant(self, graph, microbatch):
        table = self.exact(graph, microbatch)

        def modes(field):
            return np.hstack([getattr(table, f"{mode}_{field}_oc") for mode in ("one_core", "all_cores")])

        return ModeTable(
            op_names=table.op_names,
            engines=table.engines,
            all_cores_m=np.array([False, True]),
            cycles_om=modes("cycles"),
            energy_j_om=modes("j"),
            hbm_share_om=modes("hbm_share"),
            buffer_share_om=modes("buffer_share"),
        )

    patch.setattr(slow.Estimator, "modes", mutant)


def charged_in_another_mode(patch: Patch) -> None:
    """Operators charged as on one core, where all cores are faster: a plan's energy is that of no agreed modes."""
    patch.setattr(ModeTable, "energy_j", property(lambda table: float(table.energy_j_om[:, 0].sum())))


def _tight_device_time(patch: Patch) -> None:
    sound = evaluator.device_time_batch_s
    patch.setattr(evaluator, "device_time_batch_s", lambda *args: sound(*args) / TOO_TIGHT)


def _tight_layer_bounds(patch: Patch) -> None:
    sound = evaluator.layer_bounds

    def mutant(*args):
        found = sound(*args)
        return replace(found, batch_s_uc=found.batch_s_uc / TOO_TIGHT)

    patch.setattr(evaluator, "layer_bounds", mutant)


def _tight_placed(patch: Patch) -> None:
    sound = ChipSolver.placed_bound_s
    patch.setattr(ChipSolver, "placed_bound_s", lambda self, *args, **how: sound(self, *args, **how) / TOO_TIGHT)


def _tight_mapped(patch: Patch) -> None:
    sound = FinerBounds.map_class

    def mutant(self, k, columns):
        sound(self, k, columns)
        for u in self.units_of_k[k]:
            self.bounds.batch_s_uc[u, columns] /= TOO_TIGHT

    patch.setattr(FinerBounds, "map_class", mutant)


def _tight_hurried(patch: Patch) -> None:
    sound = ChipSolver.hurried_bound_s
    patch.setattr(ChipSolver, "hurried_bound_s", lambda self, *args: sound(self, *args) / TOO_TIGHT)


def _tight_solved(patch: Patch) -> None:
    sound = ChipSolver.solve

    def mutant(self, *args):
        answer = sound(self, *args)
        return replace(answer, bound_s=answer.bound_s / TOO_TIGHT)

    patch.setattr(ChipSolver, "solve", mutant)


def _tight(name: str, plant: Callable[[Patch], None], *attacks: str) -> Mutant:
    return Mutant(name=f"{name} x {TOO_TIGHT}", plant=plant, attacks=attacks, kinds=("bound",), claim=name)


def _tight_full(name: str, plant: Callable[[Patch], None], *attacks: str) -> Mutant:
    return replace(_tight(name, plant, *attacks), name=f"full: {name} x {TOO_TIGHT}")


def _full(plant: Callable[[Patch], None], attack: str, kind: str = "bound", claim: str = "") -> Mutant:
    name = f"full: {plant.__name__.replace('_', ' ')}"
    return Mutant(name=name, plant=plant, attacks=(attack, "full: "), kinds=(kind,), claim=claim)


def _box(plant: Callable[[Patch], None], *kinds: str, claim: str = "", attack: str = "boxes: ") -> Mutant:
    name = f"boxes: {plant.__name__.replace('_', ' ')}"
    return Mutant(name=name, plant=plant, attacks=(attack, "boxes: "), kinds=kinds, claim=claim)


COUNTED = ("search: 7 ", "search: 47 ", "search: 23 ")
"""Some whose bounds leave designs near the best unsolved."""
SEARCHES = ("search: starved", "search: key", "search:")
MUTANTS = (
    Mutant(
        name="one rate for all products",
        plant=one_rate_for_all_products,
        attacks=("search: key", "search:"),
        kinds=("better design",),
    ),
    Mutant(name="unproven called optimal", plant=unproven_called_optimal, attacks=("status",), kinds=("status",)),
    Mutant(
        name="area floor grows with the limit",
        plant=floor_grows_with_the_limit,
        attacks=("move: area limit",),
        kinds=("move",),
    ),
    Mutant(
        name="charged in another mode",
        plant=charged_in_another_mode,
        attacks=("search:",),
        kinds=("status", "bound"),
    ),
    *(
        Mutant(name=plant.__name__.replace("_", " "), plant=plant, attacks=COUNTED, kinds=("count",))
        for plant in (
            unsolved_left_out_of_counts,
            unsolved_counted_as_near,
            one_counted_twice,
            a_dropped_design_counted_twice,
        )
    ),
    Mutant(name="fastest mapping only", plant=fastest_mapping_only, attacks=("layer",), kinds=("layer",)),
    _tight(sieves.DEVICE_TIME, _tight_device_time, *SEARCHES),
    _tight(sieves.LAYER_BOUNDS, _tight_layer_bounds, *SEARCHES),
    _tight(sieves.PLACED, _tight_placed, *SEARCHES),
    _tight(sieves.MAPPED, _tight_mapped, *SEARCHES),
    _tight(sieves.HURRIED, _tight_hurried, *SEARCHES),
    _tight(sieves.SOLVED, _tight_solved, *SEARCHES),
    _tight_full(sieves.DEVICE_TIME, _tight_device_time, "full: starved", "full: "),
    _tight_full(sieves.LAYER_BOUNDS, _tight_layer_bounds, "full: 6 ", "full: "),
    _tight_full(sieves.PLACED, _tight_placed, "full: 6 ", "full: "),
    _tight_full(sieves.MAPPED, _tight_mapped, "full: 6 ", "full: "),
    _tight_full(sieves.HURRIED, _tight_hurried, "full: 6 ", "full: "),
    _tight_full(sieves.SOLVED, _tight_solved, "full: 6 ", "full: "),
    _full(full_mutants.tight_layouts, "full: 6 "),
    _full(full_mutants.slowest_of_a_class, "full: class", claim=sieves.LAYER_BOUNDS),
    _full(full_mutants.order_of_the_first, "full: class", claim=sieves.MAPPED),
    _full(full_mutants.replays_overcharged_in_bounds, "full: replays", claim=sieves.MAPPED),
    _full(full_mutants.replays_overcharged_in_lists, "full: 4 ", claim=full_sieves.KEEP_LISTS),
    _full(full_mutants.forced_stages_too_slow, "full: 6 ", claim=sieves.LAYER_BOUNDS),
    _full(full_mutants.weight_part_forgotten, "full: 7 ", claim=sieves.LAYER_BOUNDS),
    _full(full_mutants.cutoff_off_by_a_little, "full: 5 ", claim=full_sieves.CUTOFF),
    _full(full_mutants.family_ignored, "full: 5 ", kind="status"),
    _full(full_mutants.an_order_left_out, "full: 32 ", claim=sieves.SOLVED),
    _full(full_mutants.cuts_left_out, "full: 4 ", kind="better design"),
    _full(full_mutants.room_left_empty, "full: replays", kind="plan"),
    _full(full_mutants.replays_without_energy, "full: replays", claim=sieves.SOLVED),
    replace(_full(unproven_called_optimal, "full status", kind="status"), attacks=("full status",)),
    _box(box_mutants.small_corner_for_speed, "bound", claim="corner", attack="boxes: 2 "),
    _box(box_mutants.large_corner_for_area, "bound", claim="corner", attack="boxes: 3 "),
    _box(box_mutants.corner_short_by_one, "bound", claim="corner", attack="boxes: 6 "),
    _box(box_mutants.irregular_sides_spanned, "cover", claim="array sides"),
    _box(box_mutants.rules_asked_beyond_what_fits, "space", attack="boxes: rules"),
    _box(box_mutants.half_closed_by_the_other, "bound", "better design"),
    _box(box_mutants.slab_recorded_whole, "cover"),
    _box(box_mutants.what_does_not_fit_forgotten, "cover", attack="boxes: 8 "),
    _box(box_mutants.units_left_out_too_early, "bound", "better design", "status", attack="boxes: 9 "),
    _box(box_mutants.units_left_out_forgotten, "bound", claim="box", attack="boxes: units"),
    _box(box_mutants.closed_a_little_above, "bound", "better design"),
    _box(box_mutants.tie_rule_ignored, "status", claim="tie", attack="boxes: ties"),
    _box(box_mutants.dropped_counted_as_solved, "count", attack="boxes: 3 "),
    _box(box_mutants.ties_closed_at_any_bound, "bound", "better design", attack="boxes: 4 "),
)
