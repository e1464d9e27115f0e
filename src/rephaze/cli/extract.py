"""``rephaze extract``: a model from a config, a Python function or the zoo to a graph file."""

from __future__ import annotations

import sys
from contextlib import redirect_stdout
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from rephaze.api.amounts import amount, byte_amount
from rephaze.cli.output import JsonOption, print_json, stdout, step_status, styled

if TYPE_CHECKING:
    from rephaze.api.models import ModelSummary


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
    r"""Record a model's training step as a graph, without weights and without a network.

    A function takes a microbatch size and returns a module and its inputs. It needs the extra:
    pip install 'rephaze\[extract]'.

    Example: rephaze extract config.json --seq-len 1024 --out graph.json
    """
    from rephaze.api import extract as extract_model

    # What the user's own code prints is not our answer.
    with step_status(f"recording {source}", quiet=as_json), redirect_stdout(sys.stderr):
        model = extract_model(
            source, seq_len=seq_len, dtype=dtype, attention=attention, training=training, out=out
        )
    summary = model.summary
    if as_json:
        print_json(asdict(summary) | {"out": str(out) if out is not None else None})
    else:
        _show(summary, out)


def _show(summary: ModelSummary, out: Path | None) -> None:
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
        stdout.print(styled((f"{label:<10}", "bold"), f"  {value}"))
    if out is not None:
        stdout.print(f"written to {out}", soft_wrap=True)
