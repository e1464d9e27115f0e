"""How answers end: nearest alternatives, memory margin, how to launch; and what is covered."""

import json
import re

import pytest
from typer.testing import CliRunner

import rephaze
from rephaze.api.full_plans import placed_full
from rephaze.api.nearest import nearest_plans
from rephaze.cli.main import app
from rephaze.place.full.limits import parse_full_limits
from rephaze.place.full.problem_file import parse_full_problem
from rephaze.place.full.solver import FullPlacer
from rephaze.place.full.why_not import explain_full_alternative
from rephaze.types.full import PlanFamily
from tests.integration.test_full_plan_commands import problem
from tests.kits import command
from tests.property.full_cases import random_problem


def run(*arguments):
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


def test_alternatives_are_what_why_answers():
    told, lacking = 0, 0
    for seed in range(60):
        small = random_problem(seed, family=PlanFamily.EXACT)
        answer = placed_full("random", small)
        if answer.plan is None:
            continue
        optimum = FullPlacer(small).solve()
        near = nearest_plans(answer)
        losses = [one.loss_ratio for one in near.plans if one.loss_ratio is not None]
        assert losses == sorted(losses)
        for one in near.plans:
            asked = explain_full_alternative(small, optimum, parse_full_limits(one.why))
            if one.loss_ratio is None:
                lacking += 1
                assert asked.placement.best is None
                short = (asked.needed_bytes - small.device_memory_bytes) / 2**30
                assert f"does not fit by {short:.2g} GiB" in one.text
            else:
                told += 1
                assert one.loss_ratio == pytest.approx(asked.loss_ratio)
    assert told > 20
    assert lacking


def test_place_ends_with_why_and_how(tmp_path):
    path = tmp_path / "problem.json"
    path.write_text(json.dumps(problem()))
    done = run("place", path)
    assert done.exit_code == 0
    assert "nearest alternatives" in done.stdout
    assert re.search(r"^- .*: (\+\d+\.\d %, \w+|as fast|does not fit by)", done.stdout, re.M)
    assert re.search(r"GiB left of", done.stdout)
    assert "--to megatron" in done.stdout
    asked = run("place", path, "--why", "dp=2")
    assert "nearest alternatives" not in asked.stdout, "one was asked about"
    assert "nearest" not in run("place", path, "--json").stdout


def test_alternatives_are_left_out_with_a_word_where_they_take_long(monkeypatch):
    monkeypatch.setattr("rephaze.api.nearest.MOST_SOLVE_S", 0.0)
    answer = placed_full("small", parse_full_problem(problem()))
    assert answer.plan is not None
    assert nearest_plans(answer).plans == ()
    assert "--why" in nearest_plans(answer).skipped
    monkeypatch.setattr("rephaze.api.nearest.MOST_SOLVE_S", 9.0)
    monkeypatch.setattr("rephaze.api.nearest.BUDGET_S", 0.0)
    assert len(nearest_plans(answer).plans) <= 1


def test_support_says_yes_no_or_the_limit():
    for name in rephaze.list_models():
        found = rephaze.support(name)
        assert {one.answer for one in found.coverage} <= {"yes", "no", "limited"}
    for name in rephaze.list_chips():
        rephaze.support(name)
    answers = {one.what: one.answer for one in rephaze.support("mixtral-8x7b").coverage}
    assert answers["expert parallelism"] == answers["stage map exported"] == "yes"
    assert _calibrated("h100") == _calibrated("tpuv4") == "limited"
    assert _calibrated("tpuv2") == "no"
    done = run("support", "h100", "--json")
    assert json.loads(done.stdout)["kind"] == "chip"
    assert "no source gives" in run("support", _blank_chip()).stdout


def _calibrated(chip):
    return {one.what: one.answer for one in rephaze.support(chip).coverage}["calibration"]


def _blank_chip():
    from rephaze.api.chips import known_chips

    return next(one.name for one in known_chips() if one.blanks)


def test_support_reads_files_and_refuses_others(tmp_path):
    chip = tmp_path / "mine.toml"
    chip.write_text('base = "tpuv4"\nname = "mine"\nnum_tensor_cores = 16\n')
    assert "16 x 128x128" in run("support", chip).stdout
    done = run("support", "no-such-thing")
    assert "neither a model" in str(done.exception)
    other = tmp_path / "other.json"
    other.write_text("{}")
    assert "neither a graph file" in str(run("support", other).exception)


def test_support_is_whole_at_eighty_columns_and_knows_near_names():
    done = command.rephaze("support", "llama3-70b", columns=80)
    lines = done.stdout.splitlines()
    assert max(map(len, lines)) <= 80
    assert "ring, gather or Ulysses by layer" in " ".join(done.stdout.split())
    assert lines[1].split() == ["what", "covered", "how", "far"]
    done = command.rephaze("support", "gpt2xl")
    assert done.returncode == 1
    assert "did you mean 'gpt2-xl'?" in done.stderr
