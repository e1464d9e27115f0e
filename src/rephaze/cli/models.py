"""``rephaze models``: the zoo at a glance."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated

import typer

from rephaze.api.amounts import amount, byte_amount
from rephaze.api.present import TextTable
from rephaze.cli.output import JsonOption, print_json
from rephaze.cli.tables import print_content


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("models")(models)


def models(
    attention: Annotated[str, typer.Option("--attention", help="fused or eager.")] = "fused",
    as_json: JsonOption = False,
) -> None:
    """List the models that ship with rephaze; none of them needs torch.

    Example: rephaze models --json
    """
    from rephaze.api import list_models, load_model

    summaries = [load_model(name, attention=attention).summary for name in list_models()]
    if as_json:
        for summary in summaries:
            print_json(asdict(summary))
        return

    rows = tuple(
        (
            summary.name,
            amount(summary.num_parameters),
            str(summary.num_layers),
            str(summary.seq_len),
            amount(summary.forward_flops_per_sample),
            byte_amount(summary.saved_bytes_per_sample),
            " ".join(map(str, summary.legal_tp)),
        )
        for summary in summaries
    )
    headings = ("model", "params", "layers", "tokens", "FLOP", "saved", "legal tp")
    title = f"Zoo ({attention} attention; per sample, backward not counted)"
    words = frozenset({"model", "legal tp"})
    print_content(TextTable(headings=headings, rows=rows, left=words, title=title))
