"""The attacks put together: a small budget with fixed seeds, a large one with fresh seeds until time is up."""

from __future__ import annotations

import math
import random
import time
from collections.abc import Callable, Iterator
from itertools import product

from rephaze.types.full import PlanFamily
from rephaze.types.search import Aggregate, Objective
from rephaze.workload.zoo import ZOO_NAMES
from tests.attack import seeds
from tests.attack.box_draws import COARSE_MODELS, box_case, many_units_case, ruled_case, tied_case
from tests.attack.boxes import attack_boxes
from tests.attack.cases import SCENARIOS, SMALL_MODELS, Case, key_case, random_case, starved_case
from tests.attack.claims import attack_answer, attack_counts, chosen_designs, searched
from tests.attack.findings import Tally
from tests.attack.full_draws import FULL_MODELS, QUICK_MODELS, class_case, full_case, replay_case
from tests.attack.full_moves import FULL_MOVES
from tests.attack.honesty import attack_hurried
from tests.attack.layers import RESOURCES, attack_layer
from tests.attack.moves import MOVES, attack_move
from tests.attack.short_models import small_model
from tests.attack.sieves import SieveAttack
from tests.attack.slow import SlowEvaluator

Attack = Callable[[Tally], None]
LAYERS_A_TURN = 4
MOVES_A_TURN = 4
"""Under ``full``, whose searches are small."""
SHARES = {"others": 5 / 9, "full": 1 / 3, "boxes": 1 / 9}
"""Of the time of a large budget; boxes have a third of what ``full`` has."""
FEW_PLANS, MANY_PLANS = 40, 1000
"""Priced for each unit under ``full``."""
MODES = ["none", "block", "stage"]


def attack_search(
    case: Case,
    tally: Tally,
    *,
    at_most: int = 60,
    seed: int = 0,
    sieves: bool = True,
    num_plans: int = 0,
    until: float = math.inf,
) -> None:
    """One search: its answer, recorded bounds and counts, then every sieve by itself.

    Args:
        case: The search.
        tally: Takes what is found.
        at_most: Designs to solve slowly; all of a space no larger, and only then are counts compared.
        seed: Chooses them.
        sieves: Ask every sieve about them as well.
        num_plans: Of cost model ``full``, to price for each unit.
        until: No further design is begun after this moment of ``time.perf_counter``.
    """
    settings = case.settings()
    found = searched(settings)
    slow = SlowEvaluator(settings)
    designs = []
    for design in chosen_designs(found, slow, at_most, seed):
        if time.perf_counter() > until:
            break
        tally.num_unproven += not slow.worth(design).is_proven
        designs.append(design)
    tally.num_searches += 2
    tally.num_designs += len(designs)
    attack_answer(case, found, slow, designs, tally)
    if len(designs) == slow.census.num_designs:
        attack_counts(case, found, slow, tally)
    if sieves and designs:
        SieveAttack(case, slow, tally, num_plans).run(designs)


def move_case(seed: int) -> Case:
    """A small case to move from."""
    model = SMALL_MODELS[seed % len(SMALL_MODELS)]
    return random_case(seed, models=(model,), most_designs=8, most_units=2)


def hurried_case(seed: int, model: str = "bert-large") -> Case:
    """A case whose schedules take work to prove; plans may use every mode, as ``rephaze place`` does."""
    case = random_case(
        seed,
        scenario="coarse",
        models=(model,),
        objective=Objective.THROUGHPUT,
        least_designs=2,
        most_designs=4,
        most_units=2,
    )
    return case.changed("training", recompute=MODES)


def small_budget() -> dict[str, Attack]:
    """The attacks of every test run, by name."""
    return _small_others() | _small_full() | _small_boxes()


def _small_boxes() -> dict[str, Attack]:
    """Those of searches by boxes, under both cost models that allow them."""

    def search(seed: int, scenario: str, models: tuple[str, ...], objective: Objective, most: int) -> Attack:
        def run(tally: Tally) -> None:
            case = box_case(seed, scenario=scenario, models=models, objective=objective, most_designs=most)
            attack_boxes(case, tally, seed=seed)

        return run

    found: dict[str, Attack] = {
        f"boxes: {seed} {'+'.join(models)} {objective}": search(seed, scenario, models, objective, most)
        for seed, (scenario, models, objective, most) in seeds.BOX_SEEDS.items()
    }
    found["boxes: units"] = lambda tally: attack_boxes(many_units_case(), tally, seed=21)
    found["boxes: rules"] = lambda tally: attack_boxes(ruled_case(), tally, rungs=False)
    # Its largest chip first: whatever only ties on a smaller one must still be found.
    found["boxes: ties"] = lambda tally: attack_boxes(tied_case(), tally, rungs=False, num_first=1)
    return found


def _small_full() -> dict[str, Attack]:
    """Those under scenario ``default``."""

    def search(seed: int, models: tuple[str, ...]) -> Attack:
        # Drawn when it is run: a draw prices plans to find a memory they fit into.
        return lambda tally: attack_search(small_full_case(seed, models), tally, num_plans=FEW_PLANS)

    def move(name: str, seed: int) -> Attack:
        def run(tally: Tally) -> None:
            case = full_case(seed, models=("tiny-gpt",), most_designs=2, most_units=2)
            assert attack_move(case, name, seed, tally, FULL_MOVES), f"{name} does not apply to seed {seed}"

        return run

    found: dict[str, Attack] = {
        "full: starved": lambda tally: attack_search(starved_case("default", "bert-large:1"), tally),
        "full: class": lambda tally: attack_search(class_case(), tally, num_plans=FEW_PLANS),
        "full: replays": lambda tally: attack_search(replay_case(), tally, num_plans=FEW_PLANS),
    }
    found |= {
        f"full: {seed} {'+'.join(models)}": search(seed, models) for seed, models in seeds.FULL_SEEDS.items()
    }
    found |= {f"full move: {name}": move(name, seed) for name, seed in seeds.FULL_MOVE_SEEDS.items()}
    found["full status: hurried"] = lambda tally: attack_hurried(hurried_full_case(seeds.FULL_HURRIED_SEED), tally)
    return found


def small_full_case(seed: int, models: tuple[str, ...]) -> Case:
    """A case under ``full`` of a few seconds."""
    return full_case(seed, models=models, most_designs=2, most_units=3 if len(models) == 1 else 1)


def hurried_full_case(seed: int, model: str = "opt-350m:1") -> Case:
    """A case under ``full`` whose schedules take work to prove."""
    return full_case(seed, models=(model,), objective=Objective.THROUGHPUT, most_designs=2, most_units=2)


def _small_others() -> dict[str, Attack]:
    """Those under scenarios ``paper`` and ``coarse``."""

    def search(case: Case) -> Attack:
        return lambda tally: attack_search(case, tally)

    def move(name: str, seed: int) -> Attack:
        def run(tally: Tally) -> None:
            assert attack_move(move_case(seed), name, seed, tally), f"{name} does not apply to seed {seed}"

        return run

    def layer(model: str, seed: int) -> Attack:
        return lambda tally: attack_layer(model, RESOURCES, seed, tally)

    found: dict[str, Attack] = {"search: key": search(key_case())}
    found |= {f"search: starved {name}": search(starved_case(name, "bert-large")) for name in SCENARIOS}
    found |= {
        f"search: {seed} {'+'.join(models)}": search(
            random_case(seed, models=models, most_designs=8, most_units=2 if len(models) == 1 else 1)
        )
        for seed, models in seeds.SEARCH_SEEDS.items()
    }
    found |= {f"move: {name}": move(name, seed) for name, seed in seeds.MOVE_SEEDS.items()}
    found |= {f"layer: {seed} {model}": layer(model, seed) for seed, model in seeds.LAYER_SEEDS.items()}
    found["status: hurried"] = lambda tally: attack_hurried(hurried_case(seeds.HURRIED_SEED), tally)
    return found


def large_budget(seed: int, until: float, only: str | None = None) -> Iterator[tuple[str, Attack]]:
    """Attacks without end, in shares of the time: all kinds in turn, everything else drawn.

    Args:
        seed: Of the draws.
        until: A moment of ``time.perf_counter``.
        only: One of ``SHARES`` alone.
    """
    every = {
        "others": _large_others(seed, until),
        "full": _large_full(seed, until),
        "boxes": _large_boxes(seed, until),
    }
    if only is not None:
        yield from every[only]
        return
    # Whoever had least of its share goes on; an attack is over when the next is asked for.
    spent_s = dict.fromkeys(every, 0.0)
    while True:
        name = min(every, key=lambda one: spent_s[one] / SHARES[one])
        began = time.perf_counter()
        yield next(every[name])
        spent_s[name] += time.perf_counter() - began


def _large_boxes(seed: int, until: float) -> Iterator[tuple[str, Attack]]:
    """Searches by boxes: every objective and aggregate in turn, half of them under ``full``."""
    rng = random.Random(seed)
    combinations = list(product(("coarse", "default"), Objective, Aggregate))
    for turn in range(2**31):
        if turn % len(combinations) == 0:
            rng.shuffle(combinations)
        scenario, objective, aggregate = combinations[turn % len(combinations)]
        drawn = rng.randrange(2**31)
        names = QUICK_MODELS if scenario == "default" or turn % 3 else COARSE_MODELS
        models = tuple(rng.sample(names, rng.choice((1, 1, 2))))
        most = 8 if scenario == "default" else 40

        def run(tally: Tally, drawn=drawn, scenario=scenario, models=models, asked=(objective, aggregate, most)):
            case = box_case(
                drawn,
                scenario=scenario,
                models=models,
                objective=asked[0],
                aggregate=asked[1],
                most_designs=asked[2],
            )
            attack_boxes(case, tally, seed=drawn, until=min(until, time.perf_counter() + 120))

        yield f"boxes: {drawn} {scenario} {'+'.join(models)} {objective} {aggregate}", run


def _large_full(seed: int, until: float) -> Iterator[tuple[str, Attack]]:
    """Scenario ``default``: every small model, objective and aggregate in turn, plans of every family."""
    rng = random.Random(seed)
    combinations = list(product(Objective, Aggregate, PlanFamily))
    for turn in range(2**31):
        if turn % len(combinations) == 0:
            rng.shuffle(combinations)
        objective, aggregate, family = combinations[turn % len(combinations)]
        drawn = rng.randrange(2**31)
        model = rng.choice(QUICK_MODELS) if turn % 3 else FULL_MODELS[turn // 3 % len(FULL_MODELS)]
        others = [name for name in FULL_MODELS[:4] if name != model]
        models = (model, *rng.sample(others, rng.choice((0, 0, 0, 1))))
        yield _full_search_attack(drawn, models, objective, aggregate, family, until)
        for number in range(drawn, drawn + MOVES_A_TURN):
            yield f"full move: {number} {model}", _full_move_attack(number, model)
        if turn % 8 == 0:
            yield (
                f"full status: hurried {drawn} {model}",
                lambda t, m=model, d=drawn: attack_hurried(hurried_full_case(d, m), t),
            )


def _full_search_attack(
    seed: int,
    models: tuple[str, ...],
    objective: Objective,
    aggregate: Aggregate,
    family: PlanFamily,
    until: float,
) -> tuple[str, Attack]:
    def run(tally: Tally) -> None:
        # Passes of mixtures take long to schedule.
        has_experts = any(small_model(name).num_experts for name in models)
        case = full_case(
            seed,
            models=models,
            objective=objective,
            aggregate=aggregate,
            family=family,
            most_designs=2 if has_experts else 6,
            most_units=2 if has_experts else 4,
        )
        limit = min(until, time.perf_counter() + 120)
        attack_search(case, tally, seed=seed, num_plans=MANY_PLANS, until=limit)

    return f"full: {seed} {'+'.join(models)} {objective} {aggregate} {family}", run


def _full_move_attack(seed: int, model: str) -> Attack:
    def run(tally: Tally) -> None:
        case = full_case(seed, models=(model,), most_designs=2, most_units=3)
        names = random.Random(seed).sample(list(FULL_MOVES), len(FULL_MOVES))
        next((name for name in names if attack_move(case, name, seed, tally, FULL_MOVES)), None)

    return run


def _large_others(seed: int, until: float) -> Iterator[tuple[str, Attack]]:
    """Scenarios ``paper`` and ``coarse``: every model, objective and aggregate in turn."""
    rng = random.Random(seed)
    combinations = list(product(SCENARIOS, Objective, Aggregate, (1, 1, 2, 3)))
    for turn in range(2**31):
        if turn % len(combinations) == 0:
            rng.shuffle(combinations)
        model = ZOO_NAMES[turn % len(ZOO_NAMES)]
        scenario, objective, aggregate, num_models = combinations[turn % len(combinations)]
        drawn = rng.randrange(2**31)
        others = rng.sample([name for name in ZOO_NAMES if name != model], num_models - 1)
        yield _search_attack(drawn, scenario, (model, *others), objective, aggregate, until)
        yield f"move: {drawn} {scenario} {model}", _move_attack(drawn, scenario, model)
        for number in range(drawn, drawn + LAYERS_A_TURN):
            yield f"layer: {number} {model}", lambda t, m=model, d=number: attack_layer(m, RESOURCES, d, t)
        if turn % 8 == 0:
            yield (
                f"status: hurried {drawn} {model}",
                lambda t, m=model, d=drawn: attack_hurried(hurried_case(d, m), t),
            )


def _search_attack(
    seed: int, scenario: str, models: tuple[str, ...], objective: Objective, aggregate: Aggregate, until: float
) -> tuple[str, Attack]:
    # Half are solved through; of the others a part is, near the winner and where bounds are tight.
    is_large = seed % 2 == 0
    at_most = 24

    def run(tally: Tally) -> None:
        case = random_case(
            seed,
            scenario=scenario,
            models=models,
            objective=objective,
            aggregate=aggregate,
            least_designs=40 if is_large else 4,
            most_designs=400 if is_large else at_most,
            most_units=3,
        )
        attack_search(case, tally, at_most=at_most, seed=seed, until=min(until, time.perf_counter() + 180))

    return f"search: {seed} {scenario} {'+'.join(models)} {objective} {aggregate}", run


def _move_attack(seed: int, scenario: str, model: str) -> Attack:
    def run(tally: Tally) -> None:
        case = random_case(seed, scenario=scenario, models=(model,), most_designs=16, most_units=2)
        names = random.Random(seed).sample(list(MOVES), len(MOVES))
        # Not every move applies to every case: the first that does.
        next((name for name in names if attack_move(case, name, seed, tally)), None)

    return run
