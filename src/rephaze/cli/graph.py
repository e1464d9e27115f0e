"""``rephaze graph``: a model's layers, or one layer's operators, as a table."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from rephaze.cli.amounts import amount, byte_amount
from rephaze.cli.output import JsonOption, print_json, stdout
from rephaze.cli.tables import has_room_for, new_table, print_table

if TYPE_CHECKING:
    from rephaze.types.graph import LayerType, ModelGraph, Op, OpGraph


WIDE = 120
"""Columns from which on a terminal has room for the module and the gradient of an operator."""


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
        bool, typer.Option("--sequence-parallel", help="Divide along the sequence what tp leaves whole.")
    ] = False,
    views: Annotated[bool, typer.Option("--views", help="Show views too, which cost nothing.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Show a model's layers, or with --layer the operators of one, as one chip of the group runs them.

    Example: rephaze graph llama2-7b --tp 4 --layer 1
    """
    from rephaze.types.checks import check_count
    from rephaze.workload import fuse_graph, load_model, shard_graph

    check_count("tp", tp, at_most=2**20)
    check_count("microbatch", microbatch, at_most=2**20)
    shown = shard_graph(load_model(model, attention), tp, sequence_parallel)
    if fuse:
        shown = fuse_graph(shown)
    if layer is None:
        _show_layers(shown, model, microbatch, as_json)
        return
    number = _layer_number(shown, layer)
    layer_type = shown.layer_types[shown.layer_type_of[number]]
    if as_json:
        for direction, ops in (("forward", layer_type.forward), ("backward", layer_type.backward)):
            for op in ops.ops:
                print_json({"layer": shown.layer_names[number], "pass": direction} | _plain(op, microbatch))
        return
    _show_memory(shown, number, layer_type, microbatch)
    _show_ops("forward", layer_type.forward, microbatch, views)
    _show_ops("backward", layer_type.backward, microbatch, views)


def _layer_number(graph: ModelGraph, layer: str) -> int:
    from rephaze.errors import SpecError
    from rephaze.types.checks import did_you_mean

    if layer in graph.layer_names:
        return graph.layer_names.index(layer)
    if layer.isdigit() and int(layer) < len(graph.layer_names):
        return int(layer)
    raise SpecError(
        "layer",
        layer,
        f"{graph.name} has layers 0 to {len(graph.layer_names) - 1}",
        did_you_mean(layer, graph.layer_names),
    )


def _show_layers(graph: ModelGraph, model: str, microbatch: int, as_json: bool) -> None:
    rows: list[dict[str, Any]] = []
    for number, layer in enumerate(graph.layer_types):
        places = [i for i, t in enumerate(graph.layer_type_of) if t == number]
        rows.append(
            {
                "type": layer.name,
                "layers": places,
                "num_parameters": layer.num_parameters,
                "forward_flops": sum(op.num_flops.at(microbatch) for op in layer.forward.ops),
                "backward_flops": sum(op.num_flops.at(microbatch) for op in layer.backward.ops),
                "saved_bytes": layer.saved_bytes.at(microbatch),
                "input_bytes": layer.input_bytes.at(microbatch),
                "working_bytes": layer.working_bytes.at(microbatch),
                "num_forward_ops": len(layer.forward.ops),
                "num_backward_ops": len(layer.backward.ops),
            }
        )
    if as_json:
        for row in rows:
            print_json({"model": graph.name, "tp": graph.tp, "microbatch": microbatch} | row)
        return

    table = new_table(f"{graph.name} at tp {graph.tp}, microbatch {microbatch}")
    table.add_column("layer type", overflow="fold")
    for heading in ("layers", "params", "FLOP fwd", "FLOP bwd", "saved", "input", "working"):
        table.add_column(heading, justify="right", no_wrap=True)
    for row in rows:
        table.add_row(
            str(row["type"]),
            _ranges(row["layers"]),
            amount(row["num_parameters"]),
            amount(row["forward_flops"]),
            amount(row["backward_flops"]),
            *(byte_amount(row[key]) for key in ("saved_bytes", "input_bytes", "working_bytes")),
        )
    print_table(table)
    stdout.print(f"One layer's operators: rephaze graph {model} --layer 1", highlight=False)


def _ranges(numbers: Any) -> str:
    first, last = numbers[0], numbers[-1]
    if len(numbers) == 1:
        return str(first)
    return f"{first}-{last}" if last - first + 1 == len(numbers) else f"{len(numbers)} of {first}-{last}"


def _show_memory(graph: ModelGraph, number: int, layer: LayerType, microbatch: int) -> None:
    b = microbatch
    stdout.print(
        f"[bold]{graph.name}[/] layer {number} [bold]{graph.layer_names[number]}[/] "
        f"at tp {graph.tp}, microbatch {b}: "
        f"{amount(layer.num_parameters)} parameters, {byte_amount(layer.saved_bytes.at(b))} saved, "
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
        parts.append(f"{dims.num_heads} heads, {dims.query_len} x {dims.key_len} x {dims.head_dim}")
    if op.collective is not None:
        parts.append(f"{op.collective.kind.value} over {op.collective.num_members}")
    names = dict.fromkeys(work.function for work in op.vector)
    if names:
        elements = max(work.num_elements.at(microbatch) for work in op.vector)
        parts.append(f"{'+'.join(names)} {amount(elements)}")
    return ", ".join(parts)


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
        "attention": attention
        and {
            key: getattr(attention, key)
            for key in ("num_heads", "num_kv_heads", "query_len", "key_len", "head_dim", "causal", "backward")
        },
        "collective": op.collective
        and {
            "kind": op.collective.kind.value,
            "payload_bytes": op.collective.payload_bytes.at(microbatch),
            "num_members": op.collective.num_members,
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
