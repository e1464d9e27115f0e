"""Puts the site's pages together in build/pages: docs/, README, one page a command, the tutorial as page and notebook.

Run: python docs/make_pages.py [--skip-tutorial]; then mkdocs build --strict -f build/mkdocs.yml, or both: make docs.
"""

from __future__ import annotations

import contextlib
import io
import json
import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
BUILD = ROOT / "build"
NAMES = {"README.md": "index.md", "CONTRIBUTING.md": "contributing.md", "CHANGELOG.md": "changelog.md"}
TITLES = (
    ("Start", "index"), ("Tutorial", "tutorial"), ("Questions", "questions"), ("Bring your own", "bring-your-own"),
    ("Exports", "exports"), ("In a browser", "serve"), ("Plans", "plans"), ("Best plans", "best-plans"),
    ("Placement", "placement"), ("Search", "search"), ("Proof", "proof"), ("Verification", "verify"), ("Comparisons", "compare"), ("The paper", "paper"), ("NEST", "nest"), ("Performance", "performance"),
    ("Workloads", "workloads"), ("Hardware", "hardware"), ("Estimates", "how-it-works"), ("Scheduling", "scheduling"),
    ("Run stores", "run-store"), ("Limits", "limits"), ("Glossary", "glossary"), ("Architecture", "architecture"),
)  # fmt: skip
"""Pages in the order of the menu; those that are not listed come after them."""


def main(*, runs_tutorial: bool, build: Path = BUILD) -> None:
    """Write every page and the file that mkdocs reads."""
    pages = build / "pages"
    pages.mkdir(parents=True, exist_ok=True)
    for old in pages.rglob("*.md"):
        old.unlink()
    for path in [*sorted((ROOT / "docs").glob("*.md")), *(ROOT / name for name in NAMES)]:
        (pages / NAMES.get(path.name, path.name)).write_text(with_site_links(path.read_text("utf-8")), "utf-8")
    for picture in (ROOT / "docs").glob("*.png"):
        (pages / picture.name).write_bytes(picture.read_bytes())
    commands = write_commands(pages / "commands")
    cells = tutorial_cells((ROOT / "docs" / "tutorial.py").read_text("utf-8"))
    outputs = run_cells(cells) if runs_tutorial else [""] * len(cells)
    (pages / "tutorial.md").write_text(tutorial_page(cells, outputs), "utf-8")
    (pages / "tutorial.ipynb").write_text(json.dumps(notebook(cells, outputs), indent=1) + "\n", "utf-8")
    (build / "mkdocs.yml").write_text(json.dumps(site_settings(commands, pages), indent=1) + "\n", "utf-8")


def with_site_links(text: str) -> str:
    """Links as the site has them: pages lie beside each other, and what is no page is named without a link."""

    def linked(found: re.Match[str]) -> str:
        label, target, anchor = found.groups()
        name = target.removeprefix("docs/").removeprefix("../docs/")
        name = NAMES.get(name.removeprefix("../"), name)
        if target.startswith(("http:", "https:", "mailto:")) or not target:
            return found.group()
        is_page = "/" not in name and name.endswith((".md", ".png"))
        return f"[{label}]({name}{anchor})" if is_page else label

    # Pictures lie beside the pages, too.
    text = re.sub(r"!\[([^\]]*)\]\(docs/([\w-]+\.png)\)", r"![\1](\2)", text)
    return re.sub(r"(?<!!)\[([^\]]+)\]\(([^)#\s]*)(#[^)\s]*)?\)", lambda m: linked(_filled(m)), text)


def _filled(found: re.Match[str]) -> re.Match[str]:
    """The match with an empty anchor instead of none."""
    return re.match(r"\[([^\]]+)\]\(([^)#\s]*)((?:#[^)\s]*)?)\)", found.group()) or found


def write_commands(folder: Path) -> list[str]:
    """A page for each command, from what its help says; their names."""
    import typer

    from rephaze.cli.main import app

    folder.mkdir(exist_ok=True)
    group = typer.main.get_command(app)
    commands = group.commands  # type: ignore[attr-defined]
    for name, command in commands.items():
        (folder / f"{name}.md").write_text(command_page(name, command), "utf-8")
    return list(commands)


def command_page(name: str, command: object) -> str:
    """What a command does and takes."""
    help_text = re.sub(r"\[/?\w*\]", "", command.help or "")  # type: ignore[attr-defined]
    about, _, shown = re.sub(r"\n(?!\n)\s*", "\n", help_text).partition("Example")
    lines = [f"# rephaze {name}", "", *about.strip().splitlines(), ""]
    examples = [one.strip() for one in re.sub(r"\s+", " ", shown.partition(":")[2]).split("|") if "rephaze" in one]
    if examples:
        lines += ["```console", *(f"$ {one}" for one in examples), "```", ""]
    lines += ["| takes | |", "|---|---|"]
    for parameter in command.params:  # type: ignore[attr-defined]
        names = ", ".join(f"`{option}`" for option in parameter.opts)
        if parameter.param_type_name == "argument":
            names = f"`{parameter.metavar or parameter.name.upper()}`".replace("|", "\\|")
        said = (getattr(parameter, "help", None) or "").replace("|", "\\|").replace("<", "&lt;")
        if not getattr(parameter, "hidden", False):
            lines.append(f"| {names} | {said} |")
    return "\n".join(lines) + "\n"


def tutorial_cells(text: str) -> list[tuple[str, str]]:
    """Kind (``markdown`` or ``code``) and content of each cell."""
    cells = []
    for part in re.split(r"^# %%", text, flags=re.M)[1:]:
        kind, _, content = part.partition("\n")
        if "markdown" in kind:
            cells.append(
                (
                    "markdown",
                    "\n".join(line.removeprefix("#").removeprefix(" ") for line in content.splitlines()).strip(),
                )
            )
        else:
            cells.append(("code", content.strip()))
    return cells


def run_cells(cells: list[tuple[str, str]]) -> list[str]:
    """What each cell prints; an error ends it all."""
    names: dict[str, object] = {}
    outputs = []
    for kind, content in cells:
        printed = io.StringIO()
        if kind == "code":
            with contextlib.redirect_stdout(printed):
                exec(compile(content, "tutorial.py", "exec"), names)  # noqa: S102, our own page
        outputs.append(printed.getvalue())
    return outputs


def tutorial_page(cells: list[tuple[str, str]], outputs: list[str]) -> str:
    """The tutorial as a page."""
    parts = []
    for (kind, content), output in zip(cells, outputs, strict=True):
        parts.append(content if kind == "markdown" else f"```python\n{content}\n```")
        if output:
            parts.append(f"```text\n{output.rstrip()}\n```")
    return "\n\n".join([*parts, "[The same as a notebook](tutorial.ipynb)"]) + "\n"


def notebook(cells: list[tuple[str, str]], outputs: list[str]) -> dict[str, object]:
    """The tutorial as a notebook (nbformat 4)."""
    found = []
    for at, ((kind, content), output) in enumerate(zip(cells, outputs, strict=True)):
        cell = {"cell_type": kind, "id": f"cell-{at}", "metadata": {}, "source": content.splitlines(keepends=True)}
        if kind == "code":
            stream = {"output_type": "stream", "name": "stdout", "text": output.splitlines(keepends=True)}
            cell |= {"execution_count": None, "outputs": [stream] if output else []}
        found.append(cell)
    return {"cells": found, "metadata": {"language_info": {"name": "python"}}, "nbformat": 4, "nbformat_minor": 5}


def site_settings(commands: list[str], pages: Path) -> dict[str, object]:
    """What mkdocs reads (JSON is YAML): the settings of the root, the pages put together and the menu."""
    listed: list[object] = [{title: f"{page}.md"} for title, page in TITLES]
    listed.insert(4, {"Commands": [{name: f"commands/{name}.md"} for name in commands]})
    known = {f"{page}.md" for _, page in TITLES}
    listed += [path.name for path in sorted(pages.glob("*.md")) if path.name not in known]
    return {"INHERIT": str(ROOT / "mkdocs.yml"), "docs_dir": "pages", "site_dir": "site", "nav": listed}


if __name__ == "__main__":
    main(runs_tutorial="--skip-tutorial" not in sys.argv[1:])
