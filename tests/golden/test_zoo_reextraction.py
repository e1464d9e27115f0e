"""The shipped zoo is what the extractor makes of the shipped configs, also at sizes it was not fitted to."""

from dataclasses import replace

import pytest

from rephaze.workload import ZOO_NAMES, load_model
from rephaze.workload.extract.extraction import extract_source
from rephaze.workload.zoo import zoo_config
from tests.kits.long_hunt import seldom
from tests.kits.one_size import extract_at

pytest.importorskip("torch")
pytest.importorskip("transformers")

EAGER = ("bert-large", "llama2-7b")
SOON = ("bert-large", "vit-large", "opt-350m", "gpt2-xl", "llama2-7b", "mixtral-8x7b", "t5-large")
"""One of each kind of model: the others are extracted anew by ``make test-slow``."""
CASES = [(name, "fused") for name in ZOO_NAMES] + [(name, "eager") for name in EAGER]


def source_of(name, attention):
    from rephaze.workload.extract.config_source import source_from_config

    facts = zoo_config(name)
    return source_from_config(
        facts["config"], name=name, seq_len=facts["seq_len"], dtype="bfloat16", attention=attention
    )


def without_origin(graph):
    return replace(graph, made_by=())


def numbers(graph, b):
    """Every number of a graph at one microbatch size."""
    found = []
    for layer in graph.layer_types:
        found.append((layer.name, layer.num_parameters, layer.saved_bytes.at(b), layer.input_bytes.at(b)))
        for ops in (layer.forward, layer.backward):
            for op in ops.ops:
                sizes = [op.num_flops, op.num_elements, op.input_bytes, op.output_bytes]
                sizes += [getattr(op.gemm, axis) for axis in ("batch", "m", "n", "k")] if op.gemm else []
                sizes += [work.num_elements for work in op.vector]
                found.append((op.name, op.target, op.module, *(size.at(b) for size in sizes)))
    found += [(edge.src, edge.dst, edge.payload_bytes.at(b)) for edge in graph.edges]
    return found


@pytest.mark.parametrize(("name", "attention"), seldom(CASES, lambda case: case[0] in SOON))
def test_the_zoo_is_what_the_extractor_makes(name, attention):
    from rephaze.workload.extract.hugging_face import plain_masks, quiet_library

    shipped = load_model(name, attention)
    with quiet_library(), plain_masks():
        source = source_of(name, attention)
        again = extract_source(source, dtype="bfloat16", attention=attention, training=True)
        direct = extract_at(source, 3, dtype="bfloat16", attention=attention)
    assert without_origin(again) == without_origin(shipped)
    assert numbers(shipped, 3) == numbers(direct, 3)


def test_parameters_equal_the_instantiated_model_and_flops_torchs_own_count():
    import torch
    from torch.utils.flop_counter import FlopCounterMode

    from rephaze.workload.extract.extraction import extract_config
    from rephaze.workload.extract.hugging_face import plain_masks, quiet_library

    config = {
        "model_type": "llama", "hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 5,
        "num_attention_heads": 4, "num_key_value_heads": 2, "vocab_size": 2048,
    }  # fmt: skip
    graph = extract_config(config, name="small", seq_len=16, attention="eager")
    with quiet_library(), plain_masks():
        from rephaze.workload.extract.config_source import source_from_config

        source = source_from_config(config, name="small", seq_len=16, dtype="bfloat16", attention="eager")
        assert graph.num_parameters == sum(p.numel() for p in source.module.parameters())
        counter = FlopCounterMode(display=False)
        with counter, torch.no_grad():
            source.module(**source.inputs_at(2))
    ours = sum(op.num_flops.at(2) for t in graph.layer_type_of for op in graph.layer_types[t].forward.ops)
    assert ours == counter.get_total_flops()
