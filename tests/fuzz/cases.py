"""Cases: sound files with one of them broken, and a command that reads it; or options that make no sense."""

import gzip
import json
import random
import shutil
from dataclasses import dataclass
from enum import EnumType
from pathlib import Path
from typing import Any, get_args

from tests.fuzz.broken_csv import break_csv
from tests.fuzz.commands import BASES, ON_RUNS, QUICK, RARE, READERS
from tests.fuzz.harness import commands
from tests.fuzz.mutations import NUMBERS, WORDS, Mutant, break_bytes, mutate
from tests.fuzz.recorded import edit_rows
from tests.fuzz.seeds import SOURCES
from tests.fuzz.toml_text import toml_text

TOO_FAR = {"--dask", "--install-completion", "--show-completion"}
"""Options that would leave this process or this folder."""


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
    names = list(READERS)
    name = rng.choices(names, weights=[RARE.get(one, 1.0) for one in names])[0]
    if name.endswith(".csv"):
        mutant = break_csv(rng, SOURCES[name]())
    elif name.endswith((".gz", ".jsonl")):
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
    # A library decides what fields of a config mean, and ignores those it does not know.
    is_nonsense = mutant.is_nonsense and name != "config.json"
    return Case(args=args, how=f"{name}: {mutant.how}", is_nonsense=is_nonsense)


def _broken_run(rng: random.Random, folder: Path) -> Case:
    path = folder / "run" / "run.db"
    args = rng.choice(ON_RUNS)
    if rng.random() < 0.5:
        return Case(args=args, how=edit_rows(rng, path), is_nonsense=True, changes=frozenset({"run"}))
    content, how = path.read_bytes(), "sound"
    for _ in range(rng.choice((1, 1, 3, 20))):
        content, how = break_bytes(rng, content)
    path.write_bytes(content)
    return Case(args=args, how=f"run.db: {how}", changes=frozenset({"run"}))


def _odd_options(rng: random.Random, has_run: bool) -> Case:
    """A sound call with some of its command's options, known from the command itself, given odd values."""
    root = commands()
    name = rng.choice([one for one in BASES if has_run or "run" not in BASES[one][0]])
    args = [name, *rng.choice(BASES[name])]
    params = [p for p in root.commands[name].params if p.opts[0].startswith("-") and not set(p.opts) & TOO_FAR]
    is_nonsense = False
    for param in rng.sample(params, k=min(len(params), rng.choice((1, 1, 2, 3)))):
        option = max(param.opts, key=len)
        if getattr(param, "is_flag", False):
            args.append(option)
        elif option not in ("--help", "--version"):
            value = _odd_value(rng, option, _choices(param))
            args += [option, value]
            is_nonsense |= _is_numeric(param) and _is_below_zero_or_none(value)
    for option, value in QUICK.items():
        if option not in args and any(option in param.opts for param in params) and _applies(option, args):
            args += [option, value]
    if rng.random() < 0.05:
        args.insert(rng.randrange(len(args) + 1), rng.choice(WORDS).replace("\0", "") or "''")
    return Case(
        args=tuple(arg.replace("\0", "") for arg in args),
        how="options",
        is_nonsense=is_nonsense and not {"--help", "--version"} & set(args),
        changes=frozenset({"page.html", "run", "new.csv", "cells.jsonl"}),
    )


def _is_numeric(param: Any) -> bool:
    kind = getattr(getattr(param, "type_descriptor", None), "annotation", None)
    return any(one in (int, float) for one in (kind, *get_args(kind)))


def _is_below_zero_or_none(text: str) -> bool:
    """Whether it is a number that no option of numbers takes."""
    try:
        return not float(text) >= 0
    except ValueError:
        return False


def _applies(option: str, args: list[str]) -> bool:
    """Whether what keeps a case short is no misuse in this call."""
    if args[0] == "compare" and "--run" in args:
        return option == "--budget" or "--own-best" in args
    if args[0] == "pareto":
        return option != "--workers" or "--solve" in args
    return args[0] != "reproduce" or "paper" in args


def _choices(param: Any) -> list[str]:
    """The values an option takes, where those are a list of words."""
    kind = getattr(getattr(param, "type_descriptor", None), "annotation", None)
    return [str(one.value) for one in kind] if isinstance(kind, EnumType) else []


def _odd_value(rng: random.Random, option: str, choices: list[str]) -> str:
    if choices and rng.random() < 0.6:
        return rng.choice(choices)
    if option == "--port":
        return rng.choice(("0", "0", "-1", "65536", "x", ""))
    if option == "--steps":
        return rng.choice(("0", "1", "-1", "x", "21"))
    if option == "--max-chips":
        return rng.choice(("0", "1", "-1", "x", "7"))
    if option == "--workers":
        return rng.choice(("-1", "0", "1", "nan", "x"))
    if option in ("--time-limit", "--known-chips"):
        return rng.choice(("nan", "-1", "0", "0.1", "inf" if option == "--time-limit" else "0.2", "x", "1e-9"))
    if option in ("--sample", "--budget"):
        return rng.choice(("-1", "0", "1", "x", "1e9"))
    if option in ("--out", "--html", "--page"):
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
            (
                *names,
                "new.csv",
                "new.md",
                "runs.csv",
                "run/report.html",
                "a" * 300 + ".html",
                "[/x].html",
                "/dev/null",
                "chip.toml",
                "x\x1b[31m.html",
            )
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
        "system-run.toml",
        "runs.csv",
        "plan2.json",
        "problem2.json",
    )
    return rng.choice(
        (*files, *map(str, NUMBERS), *WORDS, "default", "coarse", "paper", "tpuv4", "tp=2,dp=x", "full")
    )
