"""``rephaze extract``: a model from a config, a Python function or the zoo to a graph file."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from rephaze.cli.amounts import amount, byte_amount
from rephaze.cli.output import JsonOption, print_json, stderr, stdout

if TYPE_CHECKING:
    from rephaze.types.graph import ModelGraph
    from rephaze.workload.summary import ModelSummary


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("extract")(extract)


def extract(
    source: Annotated[
        str,
        typer.Argument(help="A Hugging Face config.json, MODULE.py:FUNCTION, or the name of a zoo model."),
    ],
    seq_len: Annotated[
        int | None, typer.Option("--seq-len", help="Tokens a sample; default: the config's longest.")
    ] = None,
    dtype: Annotated[
        str, typer.Option("--dtype", help="bfloat16, float16 or float32, of parameters and activations.")
    ] = "bfloat16",
    attention: Annotated[
        str, typer.Option("--attention", help="fused, or eager with the scores in memory.")
    ] = "fused",
    training: Annotated[
        bool, typer.Option("--training/--no-training", help="With the backward pass, or without.")
    ] = True,
    out: Annotated[Path | None, typer.Option("--out", help="Write the graph here (.json or .json.gz).")] = None,
    as_json: JsonOption = False,
) -> None:
    """Record a model's training step as a graph, without weights and without a network.

    A function takes a microbatch size and returns a module and its inputs. It needs the extra:
    pip install 'rephaze[extract]'.

    Example: rephaze extract config.json --seq-len 1024 --out graph.json
    """
    from rephaze.workload.graph_file import write_graph
    from rephaze.workload.summary import summarize

    quiet = as_json or not stderr.is_terminal
    with nullcontext() if quiet else stderr.status(f"Recording {source} ..."):
        graph = _extracted(source, seq_len, dtype, attention, training)
    if out is not None:
        _check_out(out)
        write_graph(graph, out)
    summary = summarize(graph)
    if as_json:
        print_json(asdict(summary) | {"out": str(out) if out is not None else None})
    else:
        _show(summary, out)


def _extracted(source: str, seq_len: int | None, dtype: str, attention: str, training: bool) -> ModelGraph:
    from rephaze.errors import SpecError
    from rephaze.types.checks import did_you_mean
    from rephaze.types.files import read_mapping
    from rephaze.workload.extract.extraction import extract_config, extract_function
    from rephaze.workload.zoo import ZOO_NAMES, zoo_config

    if source in ZOO_NAMES:
        facts = zoo_config(source)
        return extract_config(
            facts["config"],
            name=source,
            seq_len=seq_len or facts["seq_len"],
            dtype=dtype,
            attention=attention,
            training=training,
        )
    path_text, colon, _ = source.rpartition(":")
    if colon and path_text.endswith(".py"):
        if seq_len is not None:
            raise SpecError("seq_len", seq_len, "a function makes its own inputs", "leave --seq-len out")
        return extract_function(source, dtype=dtype, attention=attention, training=training)
    if source.endswith(".json") or Path(source).exists():
        path = Path(source)
        config = read_mapping(path)
        # config.json says nothing about the model; the folder it lies in usually does.
        name = path.stem if path.stem != "config" else path.absolute().parent.name or "config"
        return extract_config(
            config, name=name, seq_len=seq_len, dtype=dtype, attention=attention, training=training
        )
    raise SpecError(
        "source",
        source,
        "is not a config.json, MODULE.py:FUNCTION or zoo model",
        did_you_mean(source, ZOO_NAMES) or "see: rephaze models",
    )


def _check_out(out: Path) -> None:
    from rephaze.errors import FileError, SpecError

    if out.suffix not in (".json", ".gz"):
        raise SpecError("out", str(out), "must end in .json or .json.gz")
    if not out.absolute().parent.is_dir():
        raise FileError(f"{out}: its folder does not exist")


def _show(summary: ModelSummary, out: Path | None) -> None:
    from rich.table import Table

    table = Table(show_header=False, box=None, pad_edge=False)
    stacks = ", ".join(f"{count} x {path}" for path, count in summary.blocks.items())
    rows = [
        ("model", summary.name),
        ("parameters", f"{summary.num_parameters:,}"),
        ("layers", f"{summary.num_layers} ({stacks})" if stacks else str(summary.num_layers)),
        ("sequence", f"{summary.seq_len:,} tokens, {summary.dtype}, {summary.attention} attention"),
        ("forward", f"{amount(summary.forward_flops_per_sample)}model FLOP a sample"),
        ("backward", f"{amount(summary.backward_flops_per_sample)}model FLOP a sample"),
        ("saved", f"{byte_amount(summary.saved_bytes_per_sample)} a sample"),
        ("legal tp", ", ".join(map(str, summary.legal_tp))),
    ]
    for label, value in rows:
        table.add_row(f"[bold]{label}[/]", value)
    stdout.print(table)
    if out is not None:
        stdout.print(f"written to {out}", highlight=False)
