"""Run files and options become settings; what is wrong is named."""

import pytest

from rephaze.errors import SpecError
from rephaze.search.settings import resolve_settings
from rephaze.types.search import Aggregate, Objective


def test_the_default_scenario_is_taken_as_it_is():
    settings = resolve_settings(("gpt2-xl",))
    assert settings.scenario.name == "default"
    assert settings.objective is Objective.THROUGHPUT
    assert settings.weights == (1.0,)


def test_a_run_file_changes_single_fields_and_options_come_last(tmp_path):
    path = tmp_path / "run.toml"
    path.write_text(
        'scenario = "paper"\n[search]\nmodels = ["gpt2-xl", "bert-large"]\naggregate = "worst"\n'
        "[space]\narea_limit_um2 = 2e8\n[training]\nglobal_batch = 512\nmicrobatches = [1, 2]\n"
    )
    settings = resolve_settings(config=path, changes={"training": {"global_batch": 256}})
    assert settings.models == ("gpt2-xl", "bert-large")
    assert settings.aggregate is Aggregate.WORST
    assert settings.scenario.space.area_limit_um2 == 2e8
    assert settings.scenario.training.global_batch == 256
    assert settings.scenario.training.microbatches == (1, 2)
    assert settings.scenario.cluster.num_devices == 1024


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[search]\nmodels = []\n", "models is .*name at least one model"),
        ('[search]\nmodels = ["a", "a"]\n', "names a model twice"),
        (
            '[search]\nmodels = ["a"]\nobjective = "speed"\n',
            "objective is 'speed': must be one of throughput",
        ),
        ('[search]\nmodels = ["a"]\nweights = [1.0, 2.0]\n', "one weight for each of the 1 models"),
        ('[search]\nmodels = ["a"]\nweights = [0.0]\n', "must all be positive"),
        ('[search]\nmodels = ["a"]\nmodel = 1\n', "model is 1: is not a known field"),
        ('[serach]\nmodels = ["a"]\n', "serach is"),
        ('scenario = "papers"\n[search]\nmodels = ["a"]\n', "did you mean 'paper'"),
        ('[search]\nmodels = ["a"]\n[space]\nwidth = [1]\n', "space.width is"),
        ('[search]\nmodels = ["a"]\n[training]\nmicrobatches = [0]\n', "microbatches is 0"),
    ],
)
def test_a_bad_run_file_names_the_field(tmp_path, text, said):
    path = tmp_path / "run.toml"
    path.write_text(text)
    with pytest.raises(SpecError, match=said):
        resolve_settings(config=path)
