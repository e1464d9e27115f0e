import pytest

from rephaze.errors import UnsupportedError
from rephaze.types.graph import OpKind
from rephaze.workload import ZOO_NAMES, load_model
from rephaze.workload.extract.aten import VECTOR_FUNCTIONS, kind_of, refuse_unknown, vector_function


@pytest.mark.parametrize(
    ("target", "kind"),
    [
        ("aten.mm", OpKind.GEMM),
        ("aten.convolution_backward", OpKind.GEMM),
        ("rephaze.attention", OpKind.ATTENTION),
        ("aten.native_layer_norm", OpKind.VECTOR),
        ("aten.add_", OpKind.VECTOR),
        ("aten.embedding", OpKind.GATHER),
        ("aten.transpose", OpKind.VIEW),
        ("aten.fft_rfft", None),
    ],
)
def test_kinds(target, kind):
    assert kind_of(target) is kind


def test_a_copy_that_changes_the_type_is_a_cast():
    assert vector_function("aten._to_copy", is_cast=True) == "cast"
    assert vector_function("aten._to_copy", is_cast=False) == "copy"
    assert vector_function("aten.masked_fill_") == "masked_fill"


def test_all_unknown_operators_are_told_at_once_with_counts():
    with pytest.raises(UnsupportedError) as caught:
        refuse_unknown(["aten.fft_rfft", "aten.mm", "aten.fft_rfft", "aten.svd"])
    assert str(caught.value) == "operators that are not in the map: aten.fft_rfft (2x), aten.svd (1x)"


def test_the_zoo_uses_only_the_documented_vocabulary():
    used = {
        work.function
        for name in ZOO_NAMES
        for layer in load_model(name).layer_types
        for graph in (layer.forward, layer.backward)
        for op in graph.ops
        for work in op.vector
    }
    assert used <= VECTOR_FUNCTIONS
