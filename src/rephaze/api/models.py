"""The models of the door: the zoo, graph files, and models recorded from a config or a function."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rephaze.api.present import Block, Shown
from rephaze.errors import SpecError
from rephaze.types.checks import check_choice, check_count, did_you_mean, whole_number
from rephaze.types.cut import GraphCut
from rephaze.types.graph import ContextForm, ModelGraph
from rephaze.types.output_files import check_output

if TYPE_CHECKING:
    from rephaze.workload.summary import ModelSummary as ModelSummary

MAX_COUNT = 2**20
"""Largest tensor-parallel degree or microbatch size taken."""


@dataclass(frozen=True, kw_only=True, slots=True)
class LayerSizes:
    """A layer type of a model on one chip of its group: what it computes and holds for a microbatch."""

    type: str
    layers: tuple[int, ...]
    """Positions of the layers of this type."""
    num_parameters: int
    forward_flops: int
    backward_flops: int
    saved_bytes: int
    input_bytes: int
    working_bytes: int
    num_forward_ops: int
    num_backward_ops: int


@dataclass(frozen=True, kw_only=True, slots=True, repr=False)
class Model(Shown, ModelGraph):
    """A model's training step, as one chip of a replica runs it."""

    @property
    def cut_text(self) -> str:
        """How it is cut, in words: ``tp 2 with sp, cp 4 (ring)``."""
        said = [f"tp {self.tp}" + (" with sp" if self.sequence_parallel else "")]
        if self.cp > 1:
            said.append(f"cp {self.cp} ({self.context_form})")
        if self.ep > 1 or (self.num_experts and self.etp != self.tp):
            said.append(f"ep {self.ep}, etp {self.etp}")
        if self.imbalance_factor > 1:
            said.append(f"imbalance {self.imbalance_factor:g}")
        return ", ".join(said)

    @property
    def summary(self) -> ModelSummary:
        """Parameters, layers, FLOPs and saved bytes of the whole model."""
        from rephaze.workload.summary import summarize

        return summarize(self)

    def layer_sizes(self, microbatch: int = 1) -> tuple[LayerSizes, ...]:
        """Work and memory of every layer type at a microbatch size."""
        check_count("microbatch", microbatch, at_most=MAX_COUNT)
        return tuple(
            LayerSizes(
                type=layer.name,
                layers=tuple(place for place, kind in enumerate(self.layer_type_of) if kind == number),
                num_parameters=layer.num_parameters,
                forward_flops=sum(op.num_flops.at(microbatch) for op in layer.forward.ops),
                backward_flops=sum(op.num_flops.at(microbatch) for op in layer.backward.ops),
                saved_bytes=layer.saved_bytes.at(microbatch),
                input_bytes=layer.input_bytes.at(microbatch),
                working_bytes=layer.working_bytes.at(microbatch),
                num_forward_ops=len(layer.forward.ops),
                num_backward_ops=len(layer.backward.ops),
            )
            for number, layer in enumerate(self.layer_types)
        )

    def layer_number(self, layer: str) -> int:
        """Position of the layer of this name, or of this number written out."""
        if layer in self.layer_names:
            return self.layer_names.index(layer)
        number = whole_number(layer)
        if number is not None and number < len(self.layer_names):
            return number
        rule = f"{self.name} has layers 0 to {len(self.layer_names) - 1}"
        raise SpecError("layer", layer, rule, did_you_mean(layer, self.layer_names))

    def blocks(self) -> Sequence[Block]:
        """Headline and layer types."""
        from rephaze.api.views import model_blocks

        return model_blocks(self)


def list_models() -> Sequence[str]:
    """Names of the models that ship with rephaze.

    Example:
        >>> import rephaze
        >>> "gpt2-xl" in rephaze.list_models()
        True
    """
    from rephaze.workload.zoo import ZOO_NAMES

    return ZOO_NAMES


def load_model(
    name_or_path: str | Path,
    *,
    attention: str = "fused",
    tp: int = 1,
    sequence_parallel: bool = False,
    cp: int = 1,
    context_form: str = "",
    ep: int = 1,
    etp: int | None = None,
    imbalance_factor: float = 1.0,
    fuse: bool = False,
) -> Model:
    """A model's training step as a graph, as one chip of a replica runs it.

    Example:
        >>> import rephaze
        >>> model = rephaze.load_model("llama2-7b", tp=4)
        >>> f"{model.num_parameters:,} parameters, {model.summary.blocks}"
        "6,738,415,616 parameters, {'model.layers': 32}"
        >>> sum(op.num_flops.at(8) for op in model.layer_types[1].forward.ops)  # of one chip, microbatch 8
        3865470566400
        >>> mixture = rephaze.load_model("mixtral-8x7b", cp=2, ep=8)
        >>> [op.collective.group.value for op in mixture.layer_types[1].forward.ops if op.collective]
        ['cp', 'ep', 'ep']

    Args:
        name_or_path: A name of ``list_models``, or a ``.json`` or ``.json.gz`` graph file (see ``extract``).
        attention: For models that ship: ``fused``, or ``eager`` with the scores in memory.
        tp: Tensor-parallel degree; one of the model's ``legal_tp``.
        sequence_parallel: Also divide along the sequence what tensor parallelism leaves whole.
        cp: Chips that share the tokens of a sample (context parallelism); divides the sequence.
        context_form: How attention meets the keys of other chips: ``ring`` (the default), ``gather`` or
            ``ulysses``.
        ep: Groups of chips over which a mixture's experts are dealt out; divides the experts.
        etp: Chips that share each expert; None: tp at ep = 1, else 1.
        imbalance_factor: At ep > 1, tokens of the busiest chip's experts over the average; 1 is forced balance.
        fuse: Merge operators as one kernel would run them.
    """
    from rephaze.workload import cut_graph, fuse_graph
    from rephaze.workload import load_model as read_model

    form = ContextForm.NONE
    if context_form:
        check_choice("context_form", context_form, [one.value for one in ContextForm if one])
        form = ContextForm(context_form)
    cut = GraphCut(
        tp=tp,
        sp=sequence_parallel,
        cp=cp,
        context_form=form,
        ep=ep,
        etp=etp,
        imbalance_factor=imbalance_factor,
    )
    graph = cut_graph(read_model(str(name_or_path), attention), cut)
    return as_model(fuse_graph(graph) if fuse else graph)


def extract(
    source: str | Path,
    *,
    seq_len: int | None = None,
    dtype: str = "bfloat16",
    attention: str = "fused",
    training: bool = True,
    out: str | Path | None = None,
) -> Model:
    """The graph of a model of your own, recorded without weights and without a network (extra ``[extract]``).

    Example:
        >>> import json, rephaze
        >>> from pathlib import Path
        >>> config = {"model_type": "gpt2", "n_embd": 64, "n_layer": 2, "n_head": 4, "vocab_size": 2048}
        >>> _ = Path("tiny.json").write_text(json.dumps(config))
        >>> model = rephaze.extract("tiny.json", seq_len=64, out="graph.json")
        >>> rephaze.load_model("graph.json").num_parameters == model.num_parameters
        True

    Args:
        source: A Hugging Face ``config.json``, ``module.py:function`` (takes a microbatch size, returns a module
            and its inputs), or the name of a model that ships.
        seq_len: Tokens a sample; None: the longest the config allows.
        dtype: ``bfloat16``, ``float16`` or ``float32``, of parameters and activations.
        attention: ``fused``, or ``eager`` with the scores in memory.
        training: With the backward pass.
        out: Graph file to write (``.json`` or ``.json.gz``), for all that take a model's name.
    """
    from rephaze.workload.graph_file import GRAPH_FILE, write_graph

    if out is not None:
        check_output(Path(out), GRAPH_FILE, reads=(source, str(source).rpartition(":")[0]))
    graph = _extracted(str(source), seq_len, dtype=dtype, attention=attention, training=training)
    if out is not None:
        write_graph(graph, Path(out))
    return as_model(graph)


def as_model(graph: ModelGraph) -> Model:
    """The graph as one that shows itself."""
    return Model(**{field.name: getattr(graph, field.name) for field in fields(ModelGraph)})


def as_kernels(model: str | Path | ModelGraph, tp: int, attention: str) -> ModelGraph:
    """The model as a chip runs it, sharded and fused; a graph that is so already stays as it is."""
    from rephaze.workload import fuse_graph, shard_graph
    from rephaze.workload import load_model as read_model

    graph = model if isinstance(model, ModelGraph) else read_model(str(model), attention)
    if graph.tp == graph.cp == graph.ep == 1 and not graph.is_fused:
        graph = shard_graph(graph, tp)
    elif tp not in (1, graph.tp):
        raise SpecError("tp", tp, f"{graph.name} was loaded at tp {graph.tp}", "load it at tp 1, or leave tp out")
    return graph if graph.is_fused else fuse_graph(graph)


def _extracted(source: str, seq_len: int | None, **options: Any) -> ModelGraph:
    from rephaze.types.files import is_file, read_mapping
    from rephaze.workload.extract.extraction import extract_config, extract_function
    from rephaze.workload.zoo import ZOO_NAMES, zoo_config

    if source in ZOO_NAMES:
        facts = zoo_config(source)
        return extract_config(facts["config"], name=source, seq_len=seq_len or facts["seq_len"], **options)
    path_text, colon, _ = source.rpartition(":")
    if colon and path_text.endswith(".py"):
        if seq_len is not None:
            raise SpecError("seq_len", seq_len, "a function makes its own inputs", "leave --seq-len out")
        return extract_function(source, **options)
    if source.endswith(".json") or is_file(Path(source)):
        path = Path(source)
        # config.json says nothing about the model; the folder it lies in usually does.
        name = path.stem if path.stem != "config" else path.absolute().parent.name or "config"
        return extract_config(read_mapping(path, is_finite=False), name=name, seq_len=seq_len, **options)
    raise SpecError(
        "source",
        source,
        "is not a config.json, MODULE.py:FUNCTION or zoo model",
        did_you_mean(source, ZOO_NAMES) or "see: rephaze models",
    )
