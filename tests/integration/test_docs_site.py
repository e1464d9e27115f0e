"""The site: builds strictly and offline, links lead somewhere, every command has its page, own files work."""

import importlib.util
import json
import os
import re
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest
import typer
from typer.testing import CliRunner

from rephaze.cli.main import app

ROOT = Path(__file__).parents[2]
COMMANDS = typer.main.get_command(app).commands
OWN = re.findall(r"^\$ rephaze (.*)$", (ROOT / "docs" / "bring-your-own.md").read_text(), re.M)


class Links(HTMLParser):
    """What a page links to, loads, and offers as anchors."""

    def __init__(self):
        super().__init__()
        self.links, self.loaded, self.anchors = [], [], set()

    def handle_starttag(self, tag, attrs):
        given = dict(attrs)
        self.anchors.update(filter(None, (given.get("id"), given.get("name"))))
        if tag == "a" and given.get("href"):
            self.links.append(given["href"])
        if tag in ("script", "img", "source", "iframe") and given.get("src"):
            self.loaded.append(given["src"])
        if tag == "link" and given.get("href") and given.get("rel") != "canonical":
            self.loaded.append(given["href"])


@pytest.fixture(scope="module")
def maker():
    spec = importlib.util.spec_from_file_location("make_pages", ROOT / "docs" / "make_pages.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """A folder of this process's own: others may build the site at the same time."""
    return tmp_path_factory.mktemp("build")


@pytest.fixture(scope="module")
def site(maker, built):
    pytest.importorskip("material")
    maker.main(runs_tutorial=False, build=built)
    command = [
        sys.executable,
        "-m",
        "mkdocs",
        "build",
        "--quiet",
        "--strict",
        "-f",
        str(built / "mkdocs.yml"),
    ]
    # No proxy leads anywhere: what would be fetched fails.
    nowhere = {"http_proxy": "http://127.0.0.1:9", "https_proxy": "http://127.0.0.1:9", "NO_MKDOCS_2_WARNING": "1"}
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, env=os.environ | nowhere)
    assert done.returncode == 0, done.stderr
    found = {}
    for path in (built / "site").rglob("*.html"):
        links = Links()
        links.feed(path.read_text("utf-8"))
        found[path] = links
    return found


def test_links_and_anchors_lead_somewhere(site):
    num_links = 0
    for page, found in site.items():
        for link in found.links + found.loaded:
            parts = urlsplit(link)
            if parts.scheme or parts.netloc or page.name == "404.html":
                continue
            target = (page.parent / unquote(parts.path)).resolve() if parts.path else page
            target = target / "index.html" if target.is_dir() else target
            assert target.exists(), f"{page.name} links to {link}"
            if parts.fragment and target in site and parts.fragment != "__skip":
                assert unquote(parts.fragment) in site[target].anchors, f"{page.name} links to {link}"
            num_links += 1
    assert num_links > 500


def test_nothing_is_loaded_from_elsewhere(site, built):
    for page, found in site.items():
        assert not [one for one in found.loaded if urlsplit(one).netloc], page.name
    styles = [path.read_text("utf-8") for path in (built / "site").rglob("*.css")]
    assert styles
    assert not [text for text in styles if re.search(r"url\(\s*[\"']?https?:|@import\s+[\"']?https?:", text)]


@pytest.mark.parametrize("name", sorted(COMMANDS))
def test_every_command_has_its_page_with_every_option(maker, name):
    page = maker.command_page(name, COMMANDS[name])
    assert page.startswith(f"# rephaze {name}\n")
    assert re.search(rf"^\$ .*rephaze {name}", page, re.M), "an example"
    for parameter in COMMANDS[name].params:
        if parameter.param_type_name == "option" and not parameter.hidden:
            assert f"`{parameter.opts[0]}`" in page


def test_the_tutorial_is_run_and_becomes_a_notebook(maker):
    pytest.importorskip("torch")
    cells = maker.tutorial_cells((ROOT / "docs" / "tutorial.py").read_text())
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(ROOT)
        outputs = maker.run_cells(cells)
    said = "\n".join(outputs)
    for word in ("optimal", "[parallelism]", "certificate", "checks hold", "report.html written"):
        assert word in said
    found = json.loads(json.dumps(maker.notebook(cells, outputs)))
    assert found["nbformat"] == 4
    assert {cell["cell_type"] for cell in found["cells"]} == {"markdown", "code"}


@pytest.mark.parametrize("command", OWN)
def test_files_of_your_own_work(command, tmp_path, monkeypatch):
    if "extract" in command or "own.json.gz" in command:
        pytest.importorskip("torch")
    for name in ("examples", "docs"):
        (tmp_path / name).symlink_to(ROOT / name)
    monkeypatch.chdir(tmp_path)
    if "place own" in command:
        assert CliRunner().invoke(app, OWN[0].split()).exit_code == 0
    done = CliRunner().invoke(app, command.split())
    assert done.exit_code == 0, done.output


def test_every_example_is_named_on_a_page():
    pages = "\n".join(
        path.read_text()
        for path in [*(ROOT / "docs").glob("*.*"), ROOT / "README.md"]
        if path.suffix in (".md", ".py")
    )
    for path in (ROOT / "examples").iterdir():
        if path.is_file() and path.suffix in (".json", ".toml", ".py"):
            assert path.name in pages, f"{path.name} is on no page"
