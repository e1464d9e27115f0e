"""Layouts of small steps, worked out by hand."""

from rephaze.types.graph import Split
from rephaze.workload.extract.tp_propagate import lay_out
from rephaze.workload.extract.trace import Ref


def mlp(step, name=""):
    """x @ up, relu, @ down: gives back the tensors."""
    x, up, down = step.tensor(6, 8), step.weight(f"{name}up", 8, 16), step.weight(f"{name}down", 16, 8)
    wide, active, out = step.tensor(6, 16), step.tensor(6, 16), step.tensor(6, 8)
    step.op("aten.mm", (Ref(x), Ref(up)), wide)
    step.op("aten.relu", (Ref(wide),), active)
    step.op("aten.mm", (Ref(active), Ref(down)), out)
    return {"x": x, "up": up, "down": down, "wide": wide, "active": active, "out": out}


def test_a_column_parallel_product_feeds_a_row_parallel_one(step):
    t = mlp(step)
    layout = lay_out(step.affine())
    assert layout.splits == {0: (Split.N, 16), 1: (Split.ELEMENTS, 16), 2: (Split.K, 16)}
    assert layout.units == {t[name]: 16 for name in ("up", "wide", "active", "down")}
    assert layout.reduced == {t["out"]}
    assert layout.legal_degrees() == (1, 2, 4, 8, 16)


def test_the_all_reduce_of_a_partial_sum_comes_before_the_residual_sum(step):
    t = mlp(step)
    view, total = step.tensor(2, 3, 8), step.tensor(2, 3, 8)
    step.op("aten.view", (Ref(t["out"]), (2, 3, 8)), view)
    step.op("aten.add", (Ref(view), Ref(t["x"])), total)
    layout = lay_out(step.affine())
    # It belongs to the product that made the sum, not to its view.
    assert layout.reduced == {t["out"]}
    assert 4 not in layout.splits


def test_two_partial_sums_are_added_before_one_all_reduce(step):
    first, second = mlp(step, "first."), mlp(step, "second.")
    total, normed = step.tensor(6, 8), step.tensor(6, 8)
    step.op("aten.add", (Ref(first["out"]), Ref(second["out"])), total)
    step.op("aten.tanh", (Ref(total),), normed)
    assert lay_out(step.affine()).reduced == {total}


def test_a_weight_whose_sharded_result_meets_a_replicated_one_is_replicated(step):
    x, w, wide, total = step.tensor(6, 8), step.weight("w", 8, 8), step.tensor(6, 8), step.tensor(6, 8)
    step.op("aten.mm", (Ref(x), Ref(w)), wide)
    step.op("aten.add", (Ref(wide), Ref(x)), total)
    layout = lay_out(step.affine())
    assert (layout.splits, layout.units, layout.reduced) == ({}, {}, set())
    assert layout.legal_degrees() == (1,)


def test_a_norm_over_the_sharded_axis_replicates_only_the_weight_before_it(step):
    x, w, wide, normed = step.tensor(6, 8), step.weight("w", 8, 8), step.tensor(6, 8), step.tensor(6, 8)
    step.op("aten.mm", (Ref(x), Ref(w)), wide)
    step.op("aten.native_layer_norm", (Ref(wide), (8,), None, None, 1e-5), normed)
    up, result = step.weight("up", 8, 32), step.tensor(6, 32)
    step.op("aten.mm", (Ref(normed), Ref(up)), result)
    layout = lay_out(step.affine())
    assert layout.units_of(w) == 0
    assert layout.splits == {2: (Split.N, 32)}


def test_a_bias_is_sharded_with_the_columns_it_is_added_to(step):
    x, w, b, out = step.tensor(6, 8), step.weight("w", 8, 16), step.weight("b", 16), step.tensor(6, 16)
    step.op("aten.addmm", (Ref(b), Ref(x), Ref(w)), out)
    assert lay_out(step.affine()).units_of(b) == 16


def test_a_parameter_that_was_read_before_it_had_to_match_is_sharded_from_the_start(step):
    x, w, gain = step.tensor(6, 8), step.weight("w", 8, 16), step.weight("gain", 16)
    early, wide, scaled = step.tensor(16), step.tensor(6, 16), step.tensor(6, 16)
    step.op("aten.exp", (Ref(gain),), early)
    step.op("aten.mm", (Ref(x), Ref(w)), wide)
    step.op("aten.mul", (Ref(wide), Ref(gain)), scaled)
    layout = lay_out(step.affine())
    assert layout.units_of(gain) == layout.units_of(early) == 16
    assert layout.splits[0] == (Split.ELEMENTS, 16)


def test_a_vocabulary_is_sharded_with_padding_and_does_not_bound_the_degree(step):
    table, ids = step.weight("table", 1031, 8), step.tensor(6, dtype="int64", is_index=True)
    rows = step.tensor(6, 8)
    step.op("aten.embedding", (Ref(table), Ref(ids)), rows)
    layout = lay_out(step.affine())
    assert layout.units_of(table) == 1031
    assert layout.reduced == {rows}
    # Every chip looks up every token in its own rows.
    assert layout.splits == {}
    assert layout.legal_degrees() == (1,)


def test_a_small_table_is_replicated(step):
    table, ids = step.weight("table", 1023, 8), step.tensor(6, dtype="int64", is_index=True)
    step.op("aten.embedding", (Ref(table), Ref(ids)), step.tensor(6, 8))
    assert lay_out(step.affine()).units == {}


def test_attention_is_sharded_by_head_and_one_key_value_head_is_replicated(step):
    x, wq, flat = step.tensor(6, 8), step.weight("wq", 8, 16), step.tensor(6, 16)
    step.op("aten.mm", (Ref(x), Ref(wq)), flat)
    heads, query = step.tensor(1, 6, 4, 4), step.tensor(1, 4, 6, 4)
    step.op("aten.view", (Ref(flat), (1, 6, 4, 4)), heads)
    step.op("aten.transpose", (Ref(heads), 1, 2), query)
    key, out = step.tensor(1, 1, 6, 4), step.tensor(1, 4, 6, 4)
    step.op("rephaze.attention", (Ref(query), Ref(key), Ref(key), None, 0.0, True), out)
    layout = lay_out(step.affine())
    assert layout.splits[3] == (Split.HEADS, 4)
    assert (layout.units_of(out), layout.units_of(key)) == (4, 0)
    assert layout.legal_degrees() == (1, 2, 4)


def heads_of(step, flat):
    """Four heads of four numbers out of a flat tensor."""
    split, heads = step.tensor(1, 6, 4, 4), step.tensor(1, 4, 6, 4)
    step.op("aten.view", (Ref(flat), (1, 6, 4, 4)), split)
    step.op("aten.transpose", (Ref(split), 1, 2), heads)
    return heads


def test_of_a_low_rank_pair_before_attention_the_second_product_is_sharded_by_head(step):
    x, down, narrow = step.tensor(6, 8), step.weight("down", 8, 12), step.tensor(6, 12)
    step.op("aten.mm", (Ref(x), Ref(down)), narrow)
    up, flat = step.weight("up", 12, 16), step.tensor(6, 16)
    first = step.op("aten.mm", (Ref(narrow), Ref(up)), flat)
    query = heads_of(step, flat)
    wk, flat_keys = step.weight("wk", 8, 16), step.tensor(6, 16)
    second = step.op("aten.mm", (Ref(x), Ref(wk)), flat_keys)
    key, out = heads_of(step, flat_keys), step.tensor(1, 4, 6, 4)
    step.op("rephaze.attention", (Ref(query), Ref(key), Ref(key), None, 0.0, True, 0), out)
    layout = lay_out(step.affine())
    assert layout.units_of(narrow) == 0
    assert layout.splits[first] == layout.splits[second] == (Split.N, 16)
    assert layout.units_of(out) == 4
    assert not layout.reduced


def test_a_tensor_written_in_parts_is_sharded_as_they_are_and_takes_one_heads_values_for_all(step):
    x, weight, flat = step.tensor(6, 8), step.weight("w", 8, 16), step.tensor(6, 16)
    step.op("aten.mm", (Ref(x), Ref(weight)), flat)
    heads = heads_of(step, flat)
    shape = (1, 4, 6, 6)
    memory, part, filled, all_ = (
        step.tensor(*shape),
        step.tensor(1, 4, 6, 4),
        step.tensor(1, 4, 6, 4),
        step.tensor(*shape),
    )
    step.op("aten.new_empty", (Ref(heads), shape), memory)
    step.op("aten.slice", (Ref(memory), 3, 0, 4), part)
    step.op("aten.copy_", (Ref(part), Ref(heads)), filled)
    step.op("aten.as_strided", (Ref(filled), shape, (144, 36, 6, 1), 0), all_)
    one, repeated = step.tensor(1, 1, 6, 2), step.tensor(1, 4, 6, 2)
    step.op("aten.expand", (Ref(one), (1, 4, 6, 2)), repeated)
    rest, copied, result = step.tensor(1, 4, 6, 2), step.tensor(1, 4, 6, 2), step.tensor(*shape)
    step.op("aten.slice", (Ref(all_), 3, 4, 6), rest)
    step.op("aten.copy_", (Ref(rest), Ref(repeated)), copied)
    step.op("aten.as_strided", (Ref(copied), shape, (144, 36, 6, 1), 0), result)
    layout = lay_out(step.affine())
    assert [layout.units_of(t) for t in (memory, filled, all_, copied, result)] == [4] * 5
    assert layout.units_of(one) == 0


def test_biases_looked_up_by_expert_are_sharded_with_the_columns_they_are_added_to(step):
    rows, weight, out = step.tensor(6, 8), step.weight("w", 8, 16), step.tensor(6, 16)
    step.op("aten.mm", (Ref(rows), Ref(weight)), out)
    table, ids = step.weight("biases", 4, 16), step.tensor(6, dtype="int64")
    picked, total = step.tensor(6, 16), step.tensor(6, 16)
    step.op("aten.index", (Ref(table), (Ref(ids),)), picked)
    step.op("aten.add", (Ref(out), Ref(picked)), total)
    layout = lay_out(step.affine())
    assert [layout.units_of(t) for t in (out, table, picked, total)] == [16] * 4
    assert not layout.reduced


def test_a_convolution_is_never_sharded(step):
    image, kernel, out = step.tensor(2, 3, 8, 8), step.weight("k", 16, 3, 2, 2), step.tensor(2, 16, 4, 4)
    step.op("aten.convolution", (Ref(image), Ref(kernel), None, (2, 2), (0, 0), (1, 1), False, (0, 0), 1), out)
    assert lay_out(step.affine()).splits == {}
