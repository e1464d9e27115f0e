from rephaze.place.model_layers import layer_graph
from rephaze.types.graph import Affine, LayerEdge, LayerType, ModelGraph, OpGraph, TiedParameter

EMPTY = OpGraph(ops=(), edges=())


def layer_type(name, params, saved, is_sharded):
    return LayerType(
        name=name, forward=EMPTY, backward=EMPTY, num_parameters=params // 2, param_bytes=params,
        saved_bytes=Affine(1, saved), input_bytes=Affine(0, 10), working_bytes=Affine(5, 7),
        is_sharded=is_sharded,
    )  # fmt: skip


def model(tp):
    return ModelGraph(
        name="toy", seq_len=8, dtype="bf16", attention="fused", tp=tp, legal_tp=(1, 2),
        layer_types=(layer_type("embed", 40, 2, False), layer_type("block", 100, 30, True)),
        layer_names=("embed", "block0", "block1"), layer_type_of=(0, 1, 1),
        edges=(
            LayerEdge(src=0, dst=1, payload_bytes=Affine(0, 10)),
            LayerEdge(src=1, dst=2, payload_bytes=Affine(0, 10)),
        ),
        tied=(TiedParameter(name="w", layers=(0, 2), param_bytes=40),), num_parameters=120,
    )  # fmt: skip


def test_layers_take_their_types_figures_at_the_microbatch():
    graph = layer_graph(model(2), 4, [1.0, 3.0], [2.0, 6.0])
    assert [layer.name for layer in graph.layers] == ["embed", "block0", "block1"]
    block = graph.layers[1]
    assert (block.forward_s, block.backward_s, block.param_bytes) == (3.0, 6.0, 100.0)
    # Saved bytes leave the input out; placement counts it in.
    assert block.activation_bytes == (1 + 4 * 30) + 40
    assert (block.input_bytes, block.working_bytes) == (40.0, 33.0)
    assert [layer.is_sharded for layer in graph.layers] == [False, True, True]
    assert graph.links[0].payload_bytes == 40.0
    assert graph.tied[0].layers == (0, 2)


def test_nothing_is_sharded_on_one_device():
    assert not any(layer.is_sharded for layer in layer_graph(model(1), 1, [1.0, 3.0], [2.0, 6.0]).layers)
