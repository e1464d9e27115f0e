"""What the papers say is what the code does."""

import re
from pathlib import Path

import pytest
import typer

from rephaze.cli.main import app
from rephaze.hardware.area import _sram_node_factor, chip_area, lane_um2
from rephaze.hardware.presets import preset_chip
from rephaze.hardware.scenarios import load_scenario
from rephaze.hardware.space import enumerate_designs
from rephaze.types.chip import chip_table
from rephaze.types.space import AreaModel

ROOT = Path(__file__).parents[2]
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


def test_figures_in_the_hardware_page_are_the_codes():
    text = (ROOT / "docs" / "hardware.md").read_text()
    tpuv4 = chip_area(chip_table([preset_chip("tpuv4")]), AreaModel.CORRECTED).total_um2_c[0]
    assert f"{tpuv4 / 1e6:.1f} mm²" in text
    assert f"{lane_um2():,.0f} um²" in text
    assert f"| {_sram_node_factor():.3f} |" in text
    cells = []
    for name in ("paper", "default"):
        space = load_scenario(name).space
        census = enumerate_designs(space)
        cells.append(f"{census.num_grid_points:,} → {census.num_designs:,}")
        assert f"{space.area_limit_um2 / 1e6:.2f} mm²" in text
    assert " | ".join(cells) in text
