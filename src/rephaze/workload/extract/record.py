"""Runs a module forward and backward on meta tensors so that every ATen operator is recorded.

Recording what really runs needs no export, no patched model and no weights: meta tensors carry shapes only.
"""

from __future__ import annotations

from contextlib import nullcontext
from typing import TYPE_CHECKING, Any

from rephaze.errors import UnsupportedError
from rephaze.workload.extract.known_values import KnownValues
from rephaze.workload.extract.source import Inputs, in_words
from rephaze.workload.extract.substitutes import substitutes
from rephaze.workload.extract.trace import Trace, without_dead_views, without_unread_constants
from rephaze.workload.extract.trace_builder import TraceBuilder

if TYPE_CHECKING:
    import torch
    from torch.utils._python_dispatch import TorchDispatchMode


def record_step(
    module: torch.nn.Module,
    inputs: Inputs,
    *,
    microbatch: int,
    attention: str,
    training: bool,
    known: KnownValues | None = None,
    folded: bool = False,
) -> Trace:
    """The trace of one training step (or of one forward pass) of ``module``.

    Args:
        module: On the meta device.
        inputs: Keyword or positional arguments of ``forward``, tensors on the meta device.
        microbatch: Number of samples in ``inputs``; kept in the trace.
        attention: ``fused`` or ``eager``: how ``scaled_dot_product_attention`` is recorded.
        training: Record the backward pass too, from the loss ``forward`` returns.
        known: Values of the inputs and of the module's constants, for code that asks for them.
        folded: Take constants with known values as given instead of recording how they are made.
    """
    import torch

    known = known or KnownValues()
    builder = TraceBuilder(microbatch, known if folded else None)
    builder.adopt_parameters(module)
    builder.adopt_inputs(inputs)
    module.train(training)
    module.zero_grad(set_to_none=True)
    grad = nullcontext() if training else torch.no_grad()
    with grad, builder.module_names(module), builder.saved_tensors(), substitutes(attention, known):
        mode = _dispatch_mode(builder, known)
        # Code that names no device for its constants means the one the model is on.
        with torch.device("meta"), mode:
            try:
                output = module(**inputs) if isinstance(inputs, dict) else module(*inputs)
            except (Exception, SystemExit) as error:
                raise UnsupportedError(_failure("forward", builder.path, error)) from error
        if training:
            loss = loss_of(output)
            builder.start_backward()
            with mode:
                try:
                    loss.backward()  # type: ignore[no-untyped-call]
                except (Exception, SystemExit) as error:
                    raise UnsupportedError(_failure("backward", builder.path, error)) from error
    trace = without_unread_constants(builder.trace)
    return without_dead_views(trace) if folded else trace


def loss_of(output: Any) -> torch.Tensor:
    """The scalar to differentiate: ``output.loss``, the first scalar of a tuple, or the sum of the output.

    A model that was given no labels returns several results, such as classes and boxes: all of them are summed,
    but for comparisons of every sample with every other.
    """
    import torch

    candidates: list[Any] = [getattr(output, "loss", None)]
    if isinstance(output, dict):
        candidates += [value for key, value in output.items() if not key.startswith("logits_per_")]
    elif isinstance(output, tuple | list):
        candidates += output
    else:
        candidates.append(output)
    tensors = [t for t in candidates if isinstance(t, torch.Tensor) and t.requires_grad]
    if not tensors:
        raise UnsupportedError(
            "the module's forward returned nothing with a gradient; return a loss, or give --no-training"
        )
    scalars = [t for t in tensors if t.dim() == 0]
    if scalars:
        return scalars[0]
    if isinstance(output, dict) and len(tensors) > 1:
        return torch.stack([t.float().sum() for t in tensors]).sum()
    return tensors[0].float().sum()


def _failure(direction: str, path: str, error: BaseException) -> str:
    if isinstance(error, UnsupportedError):
        return f"{path or 'the module'}, {direction}: {error}"
    where = f" in {path}" if path else ""
    return f"the module failed in {direction}{where}: {in_words(error)}"


def _dispatch_mode(builder: TraceBuilder, known: KnownValues) -> TorchDispatchMode:
    """A dispatch mode that hands every operator to ``builder`` after it ran."""
    from torch.utils._python_dispatch import TorchDispatchMode

    class Mode(TorchDispatchMode):  # type: ignore[no-untyped-call]
        def __torch_dispatch__(
            self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
        ) -> Any:
            out, args = known.run(func, args, kwargs or {}, is_backward=builder.is_backward)
            builder.add(func, args, kwargs or {}, out)
            return out

    return Mode()  # type: ignore[no-untyped-call]
