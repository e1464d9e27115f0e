"""``rephaze graph``: a model's layers, or one layer's operators, as a table."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rephaze.api.amounts import amount, byte_amount
from rephaze.api.present import TextTable
from rephaze.cli.output import JsonOption, print_json, refuse_given, stdout, styled
from rephaze.cli.tables import print_content

if TYPE_CHECKING:
    from rephaze.api.models import Model
    from rephaze.types.graph import CollectiveDims, LayerType, Op, OpGraph

WIDE = 120
"""Columns from which on a terminal has room for the module and the gradient of an operator."""
NARROW_COLUMNS = (0, 2, 3, 4, 5, 6)


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
    ctx: typer.Context,
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
    from rephaze.api import list_models, load_model
    from rephaze.types.checks import check_count

    if model not in list_models():
        refuse_given(ctx, ["attention"], "is for models of the zoo; a graph file has its own")
    if layer is None:
        refuse_given(ctx, ["views"], "is for the operators of a layer", "add --layer 1")
    if cp == 1:
        refuse_given(ctx, ["cp_form"], "is for --cp above 1")
    if ep == 1:
        refuse_given(ctx, ["imbalance"], "is for --ep above 1")
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

    print_content(layer_table(model, microbatch))
    stdout.print(f"One layer's operators: rephaze graph {name} --layer 1")


def _show_memory(graph: Model, number: int, layer: LayerType, microbatch: int) -> None:
    b = microbatch
    experts = f" ({byte_amount(layer.expert_param_bytes)} in experts)" if layer.expert_param_bytes else ""
    stdout.print(
        styled(
            (graph.name, "bold"),
            f" layer {number} ",
            (graph.layer_names[number], "bold"),
            f" at {graph.cut_text}, microbatch {b}: "
            f"{amount(layer.num_parameters)} parameters{experts}, {byte_amount(layer.saved_bytes.at(b))} saved, "
            f"{byte_amount(layer.input_bytes.at(b))} input, {byte_amount(layer.working_bytes.at(b))} working",
        )
    )


def _show_ops(title: str, ops: OpGraph, microbatch: int, views: bool) -> None:
    rows: tuple[tuple[str, ...], ...] = tuple(
        (
            op.name,
            op.module,
            op.kind.value,
            _size(op, microbatch),
            amount(op.num_flops.at(microbatch)),
            byte_amount(op.input_bytes.at(microbatch)),
            byte_amount(op.output_bytes.at(microbatch)),
            op.gradient.value if op.gradient != "none" else "",
        )
        for op in ops.ops
        if views or op.kind != "view"
    )
    headings: tuple[str, ...] = ("operator", "module", "kind", "size", "FLOP", "in", "out", "gradient")
    if stdout.width < WIDE:  # what identifies an operator and what it costs; --json has all
        headings = tuple(headings[at] for at in NARROW_COLUMNS)
        rows = tuple(tuple(row[at] for at in NARROW_COLUMNS) for row in rows)
    words = frozenset({"operator", "module", "kind", "size", "gradient"})
    print_content(TextTable(headings=headings, rows=rows, left=words, title=title))


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
