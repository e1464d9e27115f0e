"""A model's graph from its source: record, partition, lay out, assemble."""

from __future__ import annotations

from typing import Any

from rephaze.errors import SpecError, UnsupportedError
from rephaze.types.checks import check_choice, check_count
from rephaze.types.graph import ModelGraph, OpKind
from rephaze.workload.extract.affine import (
    AffineTrace,
    DifferentOperatorsError,
    check_against,
    merge,
    without_comparisons,
)
from rephaze.workload.extract.aten import kind_of, refuse_unknown
from rephaze.workload.extract.blocks import Stack, find_stacks, only_traced_blocks, uncut
from rephaze.workload.extract.config_source import MAX_SEQ_LEN, source_from_config
from rephaze.workload.extract.function_source import source_from_function
from rephaze.workload.extract.hugging_face import plain_masks, quiet_library
from rephaze.workload.extract.partition import partition
from rephaze.workload.extract.record import record_step
from rephaze.workload.extract.scans import loops_as_scans
from rephaze.workload.extract.source import Source, require_torch
from rephaze.workload.extract.trace import Trace
from rephaze.workload.extract.whole_model import whole_model

ATTENTION_MODES = ("fused", "eager")
FITTED_MICROBATCHES = (2, 5)
CHECKED_MICROBATCH = 3
"""A size between the fitted ones: a graph that is not affine shows itself here."""


def extract_config(
    config: dict[str, Any],
    *,
    name: str,
    seq_len: int | None = None,
    dtype: str = "bfloat16",
    attention: str = "fused",
    training: bool = True,
) -> ModelGraph:
    """The graph of the model a Hugging Face ``config.json`` describes, at tp = 1.

    Args:
        config: The file's content; nothing is fetched and no weight is made.
        name: The graph's name.
        seq_len: Tokens a sample; None takes the longest the config allows.
        dtype: Of parameters and activations.
        attention: ``fused``, or ``eager`` with the scores in memory.
        training: With the backward pass.
    """
    _check(attention, seq_len)
    require_torch()
    with quiet_library(), plain_masks():
        source = source_from_config(config, name=name, seq_len=seq_len, dtype=dtype, attention=attention)
        with loops_as_scans(source.module):
            return extract_source(source, dtype=dtype, attention=attention, training=training)


def extract_function(
    text: str, *, dtype: str = "bfloat16", attention: str = "fused", training: bool = True
) -> ModelGraph:
    """The graph of what ``module.py:function`` returns for a microbatch size: a module and its inputs."""
    _check(attention, None)
    source = source_from_function(text, dtype=dtype)
    return extract_source(source, dtype=dtype, attention=attention, training=training)


def extract_source(source: Source, *, dtype: str, attention: str, training: bool) -> ModelGraph:
    """The graph of a module, traced with as few of its blocks as tell them all."""
    stacks = find_stacks(source.module)
    try:
        trace, first = _affine_trace(source, stacks, attention, training)
        if (whole := _with_unlike_whole(first, stacks)) != stacks:
            stacks = whole
            trace, first = _affine_trace(source, stacks, attention, training)
    except UnsupportedError:
        # Some modules count on every block being there; the whole model's error is the one to tell.
        if stacks == uncut(stacks):
            raise
        stacks = uncut(stacks)
        trace, first = _affine_trace(source, stacks, attention, training)
    stacks = _that_ran(first, stacks)
    refuse_unknown(op.target for op in trace.ops)
    return whole_model(
        source,
        stacks,
        trace,
        partition(first, stacks),
        dtype=dtype,
        attention=attention,
        training=training,
    )


def _affine_trace(
    source: Source, stacks: tuple[Stack, ...], attention: str, training: bool
) -> tuple[AffineTrace, Trace]:
    """The affine trace and the first of those it was made from, which tells what autograd kept."""
    if source.makes_constants_by_sample:
        return _affine_trace_of(source, stacks, attention, training, folded=True)
    try:
        return _affine_trace_of(source, stacks, attention, training, folded=False)
    except DifferentOperatorsError:
        return _affine_trace_of(source, stacks, attention, training, folded=True)


def _affine_trace_of(
    source: Source, stacks: tuple[Stack, ...], attention: str, training: bool, *, folded: bool
) -> tuple[AffineTrace, Trace]:
    with only_traced_blocks(source.module, stacks):
        traces = [
            record_step(
                source.module,
                source.inputs_at(microbatch),
                microbatch=microbatch,
                attention=attention,
                training=training,
                known=source.known,
                folded=folded,
            )
            for microbatch in (*FITTED_MICROBATCHES, CHECKED_MICROBATCH)
        ]
    first, second, third = without_comparisons(*traces)
    merged = merge(first, second)
    check_against(merged, third)
    return merged, first


def _with_unlike_whole(trace: Trace, stacks: tuple[Stack, ...]) -> tuple[Stack, ...]:
    """The stacks, with every block of those to be traced whose like blocks multiply unlike tensors.

    Where each block leaves fewer positions than the one before (strided convolutions over sound), none can stand
    for another, and without one all that follows would be longer.
    """
    return tuple(
        stack if len(stack.traced) == stack.num_blocks or _are_alike(trace, stack) else uncut((stack,))[0]
        for stack in stacks
    )


def _are_alike(trace: Trace, stack: Stack) -> bool:
    products: dict[str, list[tuple[int, ...]]] = {str(place): [] for place in range(len(stack.traced))}
    for op in trace.ops:
        if op.is_backward or not op.module.startswith(stack.path + "."):
            continue
        place = op.module.removeprefix(stack.path + ".").partition(".")[0]
        if place in products and kind_of(op.target) in (OpKind.GEMM, OpKind.ATTENTION):
            products[place] += [trace.tensors[output].shape for output in op.outputs]
    found: dict[int, list[tuple[int, ...]]] = {}
    return all(
        found.setdefault(stack.signatures[at], shapes) == shapes
        for at, shapes in zip(stack.traced, products.values(), strict=True)
    )


def _that_ran(trace: Trace, stacks: tuple[Stack, ...]) -> tuple[Stack, ...]:
    """Stacks of which every traced block ran; others (a tower the inputs did not reach) are no layers."""
    modules = {op.module for op in trace.ops}
    prefixes = {".".join(parts[:n]) for parts in (m.split(".") for m in modules) for n in range(1, len(parts) + 1)}
    return tuple(s for s in stacks if all(f"{s.path}.{k}" in prefixes for k in range(len(s.traced))))


def _check(attention: str, seq_len: int | None) -> None:
    check_choice("attention", attention, ATTENTION_MODES)
    if seq_len is not None:
        check_count("seq_len", seq_len, at_most=MAX_SEQ_LEN)
        if seq_len < 2:
            raise SpecError("seq_len", seq_len, "must be at least 2: the loss needs a next token")
