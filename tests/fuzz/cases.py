"""Cases: sound files with one of them broken, and a command that reads it; or options that make no sense."""

import gzip
import json
import random
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import typer

from tests.fuzz.mutations import NUMBERS, WORDS, Mutant, break_bytes, mutate
from tests.fuzz.seeds import SOURCES
from tests.fuzz.toml_text import toml_text

TOO_FAR = {"--dask", "--install-completion", "--show-completion"}
"""Options that would leave this process or this folder."""
QUICK = {"--time-limit": "0.3", "--workers": "1", "--sample": "0", "--budget": "1", "--known-chips": "0"}
"""What keeps a case short, where a command has it."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Case:
    """What to run, where, and whether only a refusal is right."""

    args: tuple[str, ...]
    how: str
    is_nonsense: bool = False
    changes: frozenset[str] = frozenset()
    """Files of the folder that the command may write to."""


def write_sources(folder: Path, run: Path | None) -> None:
    """Sound files of every format, and a recorded run if there is one."""
    for name, source in SOURCES.items():
        (folder / name).write_bytes(content_of(name, source()))
    packed = gzip.compress((folder / "graph.json").read_bytes(), mtime=0)
    (folder / "graph.json.gz").write_bytes(packed)
    (folder / "page.html").write_text("<!doctype html><html>a page")
    if run is not None:
        shutil.copytree(run, folder / "run")


def content_of(name: str, data: Any) -> bytes:
    """Plain data as the file of that name."""
    if isinstance(data, bytes):
        return data
    if isinstance(data, str):
        return data.encode("utf-8", errors="surrogatepass")
    if name.endswith(".toml"):
        return toml_text(data).encode("utf-8", errors="surrogatepass")
    return json.dumps(data).encode()


def draw(rng: random.Random, folder: Path, has_run: bool) -> Case:
    """A case in a folder that holds the sound files."""
    kind = rng.random()
    if kind < 0.62:
        return _broken_file(rng, folder)
    if kind < 0.70 and has_run:
        return _broken_run(rng, folder)
    return _odd_options(rng, has_run)


def _broken_file(rng: random.Random, folder: Path) -> Case:
    name = rng.choice(list(READERS))
    if name == "designs.csv":
        mutant = _broken_csv(rng)
    elif name.endswith(".gz"):
        content, how = break_bytes(rng, (folder / name).read_bytes())
        mutant = Mutant(content, how)
    elif rng.random() < 0.8:
        mutant = mutate(rng, SOURCES[name]())
        for _ in range(rng.choice((0, 0, 0, 1, 3))):
            further = (
                mutate(rng, mutant.content) if isinstance(mutant.content, dict) and mutant.content else mutant
            )
            mutant = Mutant(further.content, f"{mutant.how}; {further.how}", False)
    else:
        content, how = break_bytes(rng, (folder / name).read_bytes())
        mutant = Mutant(content, how)
    (folder / name).write_bytes(content_of(name, mutant.content))
    args = rng.choice(READERS[name])
    if rng.random() < 0.3 and "--json" not in args:
        args = (*args, "--json")
    return Case(args=args, how=f"{name}: {mutant.how}", is_nonsense=mutant.is_nonsense)


def _broken_csv(rng: random.Random) -> Mutant:
    rows = [line.split(",") for line in SOURCES["designs.csv"]().splitlines()]
    at, cell = rng.randrange(len(rows)), rng.randrange(len(rows[0]))
    way = rng.choice(("cell", "cell", "number", "more", "twice", "less", "bytes", "quote"))
    if way == "bytes":
        return Mutant(*break_bytes(rng, SOURCES["designs.csv"]().encode()))
    if way == "cell":
        rows[at][cell] = rng.choice(
            ("x", "1.5", "", "\uff11", "1_0", "0x10", "\x1b[31m", "nan", "true", " ", "-4")
        )
        is_nonsense = bool(at and rows[at][cell].strip())
    elif way == "number":
        rows[at][cell], is_nonsense = str(rng.choice(NUMBERS)), at == 0
    elif way == "more":
        rows[at].append("77")
        is_nonsense = True
    elif way == "twice":
        rows = [[*row, row[cell]] for row in rows]
        is_nonsense = True
    elif way == "less":
        rows[at].pop()
        is_nonsense = True
    else:
        rows[at][cell] = '"' + rows[at][cell]
        is_nonsense = True
    return Mutant("\n".join(",".join(row) for row in rows) + "\n", f"{way} {at},{cell}", is_nonsense)


def _broken_run(rng: random.Random, folder: Path) -> Case:
    path = folder / "run" / "run.db"
    content, how = path.read_bytes(), "sound"
    for _ in range(rng.choice((1, 1, 3, 20))):
        content, how = break_bytes(rng, content)
    path.write_bytes(content)
    table = rng.choice(("evaluations", "plans", "stages", "bounds", "designs", "incumbents", "boxes"))
    args = rng.choice(
        (
            ("pareto", "run", "--coarse"),
            ("export", "run", "--out", "new.csv", "--table", table),
            ("report", "run", "--out", "new.html"),
            ("judge", "--run", "run", "--chip", "tpuv4"),
        )
    )
    return Case(args=args, how=f"run.db: {how}", changes=frozenset({"run"}))


def _odd_options(rng: random.Random, has_run: bool) -> Case:
    """A sound call with some of its command's options, known from the command itself, given odd values."""
    root: Any = typer.main.get_command(_app())
    name = rng.choice([one for one in BASES if has_run or "run" not in BASES[one][0]])
    args = [name, *rng.choice(BASES[name])]
    params = [p for p in root.commands[name].params if p.opts[0].startswith("-") and not set(p.opts) & TOO_FAR]
    for param in rng.sample(params, k=min(len(params), rng.choice((1, 1, 2, 3)))):
        option = max(param.opts, key=len)
        if getattr(param, "is_flag", False):
            args.append(option)
        elif option not in ("--help", "--version"):
            args += [option, _odd_value(rng, option)]
    for option, value in QUICK.items():
        if option not in args and any(option in param.opts for param in params):
            args += [option, value]
    if rng.random() < 0.05:
        args.insert(rng.randrange(len(args) + 1), rng.choice(WORDS).replace("\0", "") or "''")
    return Case(
        args=tuple(arg.replace("\0", "") for arg in args),
        how="options",
        changes=frozenset({"page.html", "run", "new.csv"}),
    )


def _odd_value(rng: random.Random, option: str) -> str:
    if option == "--workers":
        return rng.choice(("-1", "0", "1", "nan", "x"))
    if option in ("--time-limit", "--known-chips"):
        return rng.choice(("nan", "-1", "0", "0.1", "inf" if option == "--time-limit" else "0.2", "x", "1e-9"))
    if option in ("--sample", "--budget"):
        return rng.choice(("-1", "0", "1", "x", "1e9"))
    if option in ("--out", "--html"):
        names = (
            "page.html",
            "graph.json",
            "designs.csv",
            "run/run.db",
            "run",
            ".",
            "",
            "no/such/x.html",
            "new.html",
        )
        return rng.choice(
            (*names, "new.csv", "a" * 300 + ".html", "[/x].html", "/dev/null", "chip.toml", "x\x1b[31m.html")
        )
    files = (
        "graph.json",
        "chip.toml",
        "scenario.toml",
        "run.toml",
        "designs.csv",
        "run",
        "nowhere.toml",
        "system.toml",
    )
    return rng.choice(
        (*files, *map(str, NUMBERS), *WORDS, "default", "coarse", "paper", "tpuv4", "tp=2,dp=x", "full")
    )


def _app() -> typer.Typer:
    from rephaze.cli.main import app

    return app


_ON_CHIP = ("--chip", "tpuv4")
READERS: dict[str, tuple[tuple[str, ...], ...]] = {
    "schedule.json": (
        ("schedule", "schedule.json", "--time-limit", "0.5"),
        ("schedule", "schedule.json", "--solver", "ilp", "--time-limit", "0.5"),
    ),
    "gemm.json": (("estimate", "gemm.json"),),
    "problem1.json": (("place", "problem1.json"), ("place", "problem1.json", "--why", "tp=2")),
    "problem2.json": (("place", "problem2.json"), ("place", "problem2.json", "--why", "sharding=none")),
    "plan1.json": (("evaluate", "plan1.json"), ("evaluate", "plan1.json", "--timeline")),
    "plan2.json": (("evaluate", "plan2.json"), ("evaluate", "plan2.json", "--timeline"), ("judge", "plan2.json")),
    "graph.json": (
        ("graph", "graph.json"),
        ("graph", "graph.json", "--layer", "1"),
        ("graph", "graph.json", "--tp", "2", "--layer", "1"),
        ("estimate", "graph.json", *_ON_CHIP),
        ("schedule", "graph.json", *_ON_CHIP, "--time-limit", "0.3"),
    ),
    "graph.json.gz": (("graph", "graph.json.gz"),),
    "chip.toml": (
        ("chips", "chip.toml"),
        ("bill", "chip.toml"),
        ("estimate", "graph.json", "--chip", "chip.toml"),
    ),
    "chip.json": (
        ("chips", "chip.json"),
        ("schedule", "graph.json", "--chip", "chip.json", "--time-limit", "0.3"),
    ),
    "system.toml": (("bill", "tpuv4", "--system", "system.toml"),),
    "run.toml": (("search", "--config", "run.toml", "--workers", "1", "--time-limit", "0.3"),),
    "scenario.toml": (
        ("space", "--scenario", "scenario.toml"),
        ("space", "--scenario", "scenario.toml"),
        ("bill", "tpuv4", "--scenario", "scenario.toml"),
        ("search", "graph.json", "--scenario", "scenario.toml", "--workers", "1", "--time-limit", "0.3"),
    ),
    "designs.csv": (("area", "designs.csv"), ("area", "designs.csv", "--model", "paper")),
}
"""Commands by the file they read."""

BASES: dict[str, tuple[tuple[str, ...], ...]] = {
    "graph": (("graph.json",),),
    "chips": ((), ("tpuv4",), ("chip.toml",)),
    "area": (("designs.csv",),),
    "bill": (("tpuv4",), ("chip.toml",)),
    "space": (("--scenario", "scenario.toml"),),
    "estimate": (("gemm.json",), ("graph.json", *_ON_CHIP)),
    "schedule": (("schedule.json",), ("graph.json", *_ON_CHIP)),
    "place": (("problem1.json",), ("problem2.json",)),
    "evaluate": (("plan1.json",), ("plan2.json",)),
    "judge": (("plan2.json",), ("--run", "run", *_ON_CHIP)),
    "search": (("--config", "run.toml"),),
    "report": (("run",),),
    "pareto": (("run", "--coarse"),),
    "export": (("run", "--out", "new.csv"),),
}
"""Sound calls by command, to which odd options are added."""
Draw = Callable[[random.Random, Path, bool], Case]
