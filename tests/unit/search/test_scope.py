"""The certificate says over what the proof ranges and admits what is not known; older runs still open."""

import importlib.util
from dataclasses import replace
from pathlib import Path

import pytest

from rephaze.hardware.scenarios import load_scenario
from rephaze.search.cosearch import run_search
from rephaze.search.scope import designs_scope, plans_scope
from rephaze.search.settings import resolve_settings
from rephaze.store.record_json import from_json, to_json
from rephaze.types.full import PlanFamily
from rephaze.types.search import Certificate, SearchStatus

_spec = importlib.util.spec_from_file_location(
    "search_cases", Path(__file__).parents[2] / "property" / "search_cases.py"
)
search_cases = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(search_cases)


def test_a_floor_is_named_where_there_is_one():
    paper, default = (load_scenario(name).space for name in ("paper", "coarse"))
    assert designs_scope(paper) == (
        "area up to 278.83 mm² (paper model); none below a floor of 83.65 mm² but single-core chips"
    )
    assert designs_scope(default) == "area up to 339.38 mm² (corrected model); no floor"
    limited = designs_scope(replace(default, power_limit_w=300.0))
    assert limited.endswith("no floor; power up to 300 W")


def test_the_plans_are_named_as_the_search_tries_them():
    default = plans_scope(resolve_settings(("gpt2-xl",), scenario="coarse"))
    assert default == (
        "tp 1, 2, 4, 8 where legal; microbatch 1, 2, 4, 8, 16, 32, 64; "
        "recompute none, block, stage (stage by stage); any dp, pp and stages under 1f1b"
    )
    paper = plans_scope(resolve_settings(("gpt2-xl",), scenario="paper"))
    assert "recompute none, stage (one for all stages); any dp, pp and stages under paper" in paper
    watts = plans_scope(
        resolve_settings(("gpt2-xl",), scenario="coarse", changes={"search": {"objective": "per-watt"}})
    )
    assert watts.endswith(
        "of each tp, microbatch and policy the fastest, every operator charged in its fastest mode"
    )


@pytest.mark.parametrize("seed", range(3))
def test_before_the_first_plan_nothing_is_near_the_best_and_all_may_be(seed):
    found = run_search(search_cases.small_settings(seed, "coarse"), time_limit_s=0.0)
    assert found.status is SearchStatus.UNKNOWN
    num_designs = found.certificate.num_designs
    assert num_designs
    assert set(found.certificate.num_within.values()) == {(0, num_designs)}


def test_where_nothing_fits_nothing_is_near_the_best():
    asked = search_cases.small_settings(0, "paper", num_devices=1)
    space = replace(asked.scenario.space, hbm_bytes_options=(1024,))
    found = run_search(replace(asked, scenario=replace(asked.scenario, space=space)))
    assert found.status is SearchStatus.INFEASIBLE
    assert set(found.certificate.num_within.values()) == {(0, 0)}


def test_a_certificate_of_an_older_run_still_opens():
    certificate = run_search(search_cases.small_settings(0, "coarse")).certificate
    assert from_json(Certificate, to_json(certificate)) == certificate
    new = ("designs_scope", "plans_scope", "num_unproven", "num_open")
    old = {name: value for name, value in to_json(certificate).items() if name not in new}
    opened = from_json(Certificate, old)
    assert (opened.designs_scope, opened.plans_scope, opened.num_unproven) == ("", "", None)
    assert opened.num_within == certificate.num_within


@pytest.mark.parametrize("family", list(PlanFamily))
def test_the_certificate_of_model_full_names_the_family(family):
    assert plans_scope(resolve_settings(("gpt2-xl",), scenario="default")).startswith("family exact ")
    asked = resolve_settings(("gpt2-xl",), scenario="default", changes={"plans": {"family": str(family)}})
    assert plans_scope(asked).startswith(f"family {family} of cost model full; ")
