"""``rephaze graph``: a model's layers, or one layer's operators, as a table."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rephaze.api.amounts import amount, byte_amount
from rephaze.cli.output import JsonOption, print_json, stdout
from rephaze.cli.tables import filled, has_room_for, new_table, print_table

if TYPE_CHECKING:
    from rephaze.api.models import Model
    from rephaze.types.graph import CollectiveDims, LayerType, Op, OpGraph

WIDE = 120
"""Columns from which on a terminal has room for the module and the gradient of an operator."""


_ATTENTION_FIELDS = (
    "num_heads",
    "num_kv_heads",
    "query_len",
    "key_len",
    "head_dim",
    "value_dim",
    "causal",
    "backward",
    "window_len",
    "num_ring_steps",
    "num_ring_members",
)


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("graph")(graph)


def graph(
    model: Annotated[str, typer.Argument(help="The name of a zoo model, or a graph file.")],
    tp: Annotated[int, typer.Option("--tp", help="Tensor-parallel degree.")] = 1,
    layer: Annotated[
        str | None, typer.Option("--layer", help="Number or name of the layer to show; default: all layers.")
    ] = None,
    microbatch: Annotated[int, typer.Option("--microbatch", help="Samples the sizes are for.")] = 1,
    attention: Annotated[str, typer.Option("--attention", help="For zoo models: fused or eager.")] = "fused",
    fuse: Annotated[bool, typer.Option("--fuse/--no-fuse", help="Merge operators into kernels.")] = False,
    sequence_parallel: Annotated[
        bool, typer.Option("--sp", "--sequence-parallel", help="Divide along the sequence what tp leaves whole.")
    ] = False,
    cp: Annotated[int, typer.Option("--cp", help="Chips that share a sample's tokens (context parallelism).")] = 1,
    cp_form: Annotated[
        str, typer.Option("--cp-form", help="How attention meets other chips' keys: ring, gather or ulysses.")
    ] = "ring",
    ep: Annotated[
        int, typer.Option("--ep", help="Groups of chips that a mixture's experts are dealt out to.")
    ] = 1,
    etp: Annotated[
        int | None, typer.Option("--etp", help="Chips that share each expert; default: tp at ep 1, else 1.")
    ] = None,
    imbalance: Annotated[
        float,
        typer.Option("--imbalance", help="Tokens of the busiest chip's experts over the average, at ep > 1."),
    ] = 1.0,
    views: Annotated[bool, typer.Option("--views", help="Show views too, which cost nothing.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Show a model's layers, or with --layer the operators of one, as one chip of the group runs them.

    Example: rephaze graph llama2-7b --tp 4 --layer 1
    Example: rephaze graph mixtral-8x7b --tp 2 --sp --cp 2 --ep 8 --layer 1
    """
    from rephaze.api import load_model
    from rephaze.types.checks import check_count

    check_count("microbatch", microbatch, at_most=2**20)
    shown = load_model(
        model,
        attention=attention,
        tp=tp,
        sequence_parallel=sequence_parallel,
        cp=cp,
        context_form=cp_form,
        ep=ep,
        etp=etp,
        imbalance_factor=imbalance,
        fuse=fuse,
    )
    if layer is None:
        _show_layers(shown, model, microbatch, as_json)
        return
    number = shown.layer_number(layer)
    layer_type = shown.layer_types[shown.layer_type_of[number]]
    if as_json:
        for direction, ops in (("forward", layer_type.forward), ("backward", layer_type.backward)):
            for op in ops.ops:
                print_json({"layer": shown.layer_names[number], "pass": direction} | _plain(op, microbatch))
        return
    _show_memory(shown, number, layer_type, microbatch)
    _show_ops("forward", layer_type.forward, microbatch, views)
    _show_ops("backward", layer_type.backward, microbatch, views)


def _show_layers(model: Model, name: str, microbatch: int, as_json: bool) -> None:
    if as_json:
        for sizes in model.layer_sizes(microbatch):
            cut = {key: getattr(model, key) for key in ("tp", "sequence_parallel", "cp", "ep", "etp")}
            print_json({"model": model.name} | cut | {"microbatch": microbatch} | asdict(sizes))
        return
    from rephaze.api.views import layer_table

    content = layer_table(model, microbatch)
    one_line = frozenset(content.headings) - content.left
    print_table(filled(new_table(content.title), content, no_wrap=one_line))
    stdout.print(f"One layer's operators: rephaze graph {name} --layer 1", highlight=False)


def _show_memory(graph: Model, number: int, layer: LayerType, microbatch: int) -> None:
    b = microbatch
    experts = f" ({byte_amount(layer.expert_param_bytes)} in experts)" if layer.expert_param_bytes else ""
    stdout.print(
        f"[bold]{graph.name}[/] layer {number} [bold]{graph.layer_names[number]}[/] "
        f"at {graph.cut_text}, microbatch {b}: "
        f"{amount(layer.num_parameters)} parameters{experts}, {byte_amount(layer.saved_bytes.at(b))} saved, "
        f"{byte_amount(layer.input_bytes.at(b))} input, {byte_amount(layer.working_bytes.at(b))} working",
        highlight=False,
        soft_wrap=True,
    )


def _show_ops(title: str, ops: OpGraph, microbatch: int, views: bool) -> None:
    from rich.markup import escape

    table = new_table(title)
    is_wide = has_room_for(WIDE)
    table.add_column("operator", no_wrap=True, max_width=None if is_wide else 18)
    if is_wide:
        table.add_column("module")
    table.add_column("kind", no_wrap=True)
    table.add_column("size")
    for heading in ("FLOP", "in", "out"):
        table.add_column(heading, justify="right", no_wrap=True)
    if is_wide:
        table.add_column("gradient", no_wrap=True)
    for op in ops.ops:
        if op.kind == "view" and not views:
            continue
        row = [
            op.name,
            escape(op.module),
            op.kind.value,
            escape(_size(op, microbatch)),
            amount(op.num_flops.at(microbatch)),
            byte_amount(op.input_bytes.at(microbatch)),
            byte_amount(op.output_bytes.at(microbatch)),
            op.gradient.value if op.gradient != "none" else "",
        ]
        table.add_row(*(row if is_wide else [row[0], *row[2:-1]]))
    print_table(table)


def _size(op: Op, microbatch: int) -> str:
    """What a person wants to know of an operator's dimensions."""
    parts = []
    if op.gemm is not None:
        batch, m, n, k = (getattr(op.gemm, axis).at(microbatch) for axis in ("batch", "m", "n", "k"))
        product = f"{m} x {n} x {k}"
        parts.append(product if batch == 1 else f"{batch} of {product}")
    if op.attention is not None:
        dims = op.attention
        window = f", window {dims.window_len}" if dims.window_len else ""
        parts.append(f"{dims.num_heads} heads, {dims.query_len} x {dims.key_len} x {dims.head_dim}{window}")
    if op.collective is not None:
        parts.append(_collective(op.collective, microbatch))
    names = dict.fromkeys(work.function for work in op.vector)
    if names:
        elements = max(work.num_elements.at(microbatch) for work in op.vector)
        parts.append(f"{'+'.join(names)} {amount(elements)}")
    return ", ".join(parts)


def _collective(dims: CollectiveDims, microbatch: int) -> str:
    """Kind, members and group, and the messages of a ring."""
    said = f"{dims.kind.value} over {dims.num_members} of {dims.group.value}"
    if dims.num_messages == 1:
        return said
    return f"{said}, {dims.num_messages} of {byte_amount(dims.payload_bytes.at(microbatch))}"


def _plain(op: Op, microbatch: int) -> dict[str, Any]:
    gemm, attention = op.gemm, op.attention
    return {
        "name": op.name,
        "target": op.target,
        "kind": op.kind.value,
        "module": op.module,
        "gradient": op.gradient.value,
        "gemm": gemm and {axis: getattr(gemm, axis).at(microbatch) for axis in ("batch", "m", "n", "k")},
        "num_experts": gemm.num_experts if gemm is not None else 0,
        "attention": attention and {key: getattr(attention, key) for key in _ATTENTION_FIELDS},
        "collective": op.collective
        and {
            "kind": op.collective.kind.value,
            "payload_bytes": op.collective.payload_bytes.at(microbatch),
            "num_members": op.collective.num_members,
            "group": op.collective.group.value,
            "stride": op.collective.stride,
            "num_messages": op.collective.num_messages,
        },
        "vector": [
            {
                "function": w.function,
                "num_elements": w.num_elements.at(microbatch),
                "row_length": w.row_length,
            }
            for w in op.vector
        ],
        "num_flops": op.num_flops.at(microbatch),
        "num_elements": op.num_elements.at(microbatch),
        "input_bytes": op.input_bytes.at(microbatch),
        "output_bytes": op.output_bytes.at(microbatch),
        "param_bytes": op.param_bytes,
    }
