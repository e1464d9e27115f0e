"""Every code name that the pages mention is the name of some code."""

import pytest

from tests.contract.code_names import ROOT, is_code_name, is_found, words

PAGES = [*sorted((ROOT / "docs").glob("*.md")), ROOT / "README.md", ROOT / "CONTRIBUTING.md"]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_code_names_of_a_page_are_found_in_the_sources(page):
    named = dict.fromkeys(word for word in words(page.read_text()) if is_code_name(word))
    missing = [word for word in named if not is_found(word)]
    assert not missing, f"{page.name} names what is not there: {', '.join(missing)}"


def test_the_pages_name_code():
    named = {word for page in PAGES for word in words(page.read_text()) if is_code_name(word)}
    assert len(named) > 100


@pytest.mark.parametrize(
    "word",
    [
        "search/engine.py",
        "rephaze.types",
        "engine.run_best_first",
        "SpaceEvaluator.coarse",
        "types.search.Objective.PER_USD",
        "Objective",
        "RELATIVE_SLACK",
        "tests/contract/",
        "test_code_names.py",
        "test_the_pages_name_code",
        "num_tensor_cores",
        "engine.py: run_best_first",
    ],
)
def test_what_is_there_is_a_code_name_and_found(word):
    assert is_code_name(word)
    assert is_found(word)


@pytest.mark.parametrize(
    "word",
    [
        "search/no_such_file.py",
        "no_such_file.py",
        "engine.no_such_function",
        "no_such_module.run_best_first",
        "SpaceEvaluator.no_such_method",
        "types.search.Objective.NO_SUCH_MEMBER",
        "NoSuchClass",
        "NO_SUCH_CONSTANT",
        "tests/no_such_folder/",
        "test_no_such_" + "test",
        "no_such_" + "name",
        "engine.py: no_such_function",
    ],
)
def test_what_is_not_there_is_not_found(word):
    assert is_code_name(word)
    assert not is_found(word)


@pytest.mark.parametrize(
    "word",
    [
        "rephaze search MODEL...",
        "--json",
        "rephaze.graph/1",
        "run.db",
        "cluster.num_devices",
        "default",
        "torch.nn",
    ],
)
def test_what_names_no_code_is_left_alone(word):
    assert not is_code_name(word)


def test_blocks_of_code_are_no_running_text():
    page = "`a_b`\n```python\n`c_d`\n```\n    `e_f`\nand `g_h`"
    assert words(page) == ["a_b", "g_h"]
