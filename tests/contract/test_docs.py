"""What the papers say is what the code does."""

import ast
import re
from pathlib import Path

import pytest
import typer

import rephaze
from rephaze.cli.main import app
from rephaze.hardware.area import _sram_node_factor, chip_area, lane_um2
from rephaze.hardware.presets import preset_chip
from rephaze.hardware.scenarios import load_scenario
from rephaze.hardware.space_census import count_space
from rephaze.types.chip import chip_table
from rephaze.types.space import AreaModel

ROOT = Path(__file__).parents[2]
DOOR = {"rephaze", "rephaze.types", "rephaze.units", "rephaze.errors"}
COMMANDS = typer.main.get_command(app).commands


@pytest.mark.parametrize("name", sorted(COMMANDS))
def test_every_command_is_in_the_readme_has_json_and_an_example(name):
    command = COMMANDS[name]
    assert f"`rephaze {name}" in (ROOT / "README.md").read_text()
    assert any("--json" in parameter.opts for parameter in command.params), "every command takes --json"
    assert "Example" in (command.help or ""), "help shows an example"
    assert command.help.count("rephaze " + name) >= 1


def test_links_in_the_papers_lead_somewhere():
    for page in [*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md")]:
        for target in re.findall(r"\]\((?!https?:|#)([^)#]+)", page.read_text()):
            assert (page.parent / target).exists(), f"{page.name} links to {target}"


def test_numbers_in_the_hardware_page_are_the_codes():
    text = (ROOT / "docs" / "hardware.md").read_text()
    tpuv4 = chip_area(chip_table([preset_chip("tpuv4")]), AreaModel.CORRECTED).total_um2_c[0]
    assert f"{tpuv4 / 1e6:.1f} mm²" in text
    assert f"{lane_um2():,.0f} um²" in text
    assert f"| {_sram_node_factor():.3f} |" in text
    cells = []
    for name in ("paper", "coarse", "default"):
        space = load_scenario(name).space
        census = count_space(space)
        cells.append(f"{census.num_grid_points:,} → {census.num_designs:,}")
        assert f"{space.area_limit_um2 / 1e6:.2f} mm²" in text
    assert " | ".join(cells) in text


def pieces_of_python():
    """By name, every block of Python in the pages and every example."""
    for page in [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]:
        blocks = re.findall(r"^```python\n(.*?)^```", page.read_text(), re.DOTALL | re.MULTILINE)
        for number, text in enumerate(blocks):
            yield f"{page.name} {number}", text
    for path in sorted((ROOT / "examples").glob("*.py")):
        yield path.name, path.read_text()


PYTHON = dict(pieces_of_python())


@pytest.mark.parametrize("name", PYTHON)
def test_pages_and_examples_go_through_the_door(name):
    tree = ast.parse(PYTHON[name])
    for node in ast.walk(tree):
        modules = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
        modules += [node.module] if isinstance(node, ast.ImportFrom) else []
        rooms = [one for one in modules if one.startswith("rephaze") and ".".join(one.split(".")[:2]) not in DOOR]
        assert not rooms, f"{name} imports {rooms}"
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "rephaze":
            assert node.attr in rephaze.__all__, f"{name} calls rephaze.{node.attr}"


def test_the_readme_and_an_example_show_python():
    assert any(name.startswith("README") for name in PYTHON)
    assert any(name.endswith(".py") for name in PYTHON)
