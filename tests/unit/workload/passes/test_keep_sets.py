"""What layers of shipped models may keep, and a layer worked out by hand."""

import pytest

from rephaze.types.graph import Affine, CollectiveKind, Op, OpKind, Tensor, TensorRole, VectorWork
from rephaze.workload import ZOO_NAMES, fuse_graph, load_model, shard_graph
from rephaze.workload.derived_sizes import layer_type, op_graph
from rephaze.workload.passes.keep_choices import MAX_MEMBERS
from rephaze.workload.passes.keep_sets import MAX_DECISIONS, keep_sets


def layers(name, tp=1, sequence_parallel=False, attention="fused"):
    """Pairs of a layer fused and before."""
    whole = shard_graph(load_model(name, attention), tp, sequence_parallel)
    return list(zip(fuse_graph(whole).layer_types, whole.layer_types, strict=True))


def choices(sets):
    """By decision, for each choice: replayed operators, dropped storages, added ones, change at one sample."""
    ends = zip(sets.first_choice_d[:-1], sets.first_choice_d[1:], strict=True)
    return [
        [
            (
                {sets.ops[n].name for n in sets.replayed_hn[h].nonzero()[0]},
                set(sets.dropped_h[h]),
                set(sets.added_h[h]),
                int(sets.bytes_h(1)[h]),
            )
            for h in range(first, end)
        ]
        for first, end in ends
    ]


def found(sets, *ops):
    return next(choice for decision in choices(sets) for choice in decision if choice[0] == set(ops))


@pytest.mark.parametrize("name", ZOO_NAMES)
def test_the_ends_are_what_the_two_recompute_modes_keep(name):
    model = load_model(name)
    for tp in (1, 2, 4, 8):
        if tp not in model.legal_tp:
            continue
        for sequence_parallel in (False, True) if tp > 1 and not model.seq_len % tp else (False,):
            for layer, unfused in layers(name, tp, sequence_parallel):
                sets = keep_sets(layer, unfused)
                nothing = [0] * (len(sets.first_choice_d) - 1)
                assert sets.full_bytes == layer.saved_bytes + layer.saved_input_bytes
                assert sets.replayed_ops(nothing) == ()
                assert sets.kept_storages(nothing) == tuple(t.name for t in layer.saved)
                everything = [-1] * len(nothing)
                assert sets.least_bytes == layer.input_bytes
                assert sets.kept_storages(everything) == ()
                # Nothing is made again for its own sake: the layer's last result, or the loss.
                assert bool(sets.replayed_ops(everything)) == bool(layer.saved)
                assert not any(sets.ops[n].kind is OpKind.VIEW for n in sets.replayed_ops(everything))


@pytest.mark.parametrize("name", ["llama2-7b", "gpt2-xl", "mixtral-8x7b", "t5-large", "bert-large"])
@pytest.mark.parametrize("attention", ["fused", "eager"])
def test_changes_add_up_and_no_choice_is_superfluous(name, attention):
    for tp, sequence_parallel in ((1, False), (2, True)):
        if tp not in load_model(name).legal_tp:
            continue
        for layer, unfused in layers(name, tp, sequence_parallel, attention):
            sets = keep_sets(layer, unfused, trifle_share=0.0)
            size = {t.name: t.num_bytes for t in layer.saved}
            seen = set()
            for decision in choices(sets):
                assert decision[0] == (set(), set(), set(), 0)
                assert len({frozenset(ops) for ops, *_ in decision}) == len(decision)
                for _, dropped, added, change in decision[1:]:
                    freed = sum(size[storage].at(1) for storage in dropped)
                    assert change == -freed if not added else change > -freed
                own = set().union(*(dropped for _, dropped, *_ in decision))
                assert not own & seen, "decisions share nothing"
                seen |= own
            for first, end in zip(sets.first_choice_d[:-1], sets.first_choice_d[1:], strict=True):
                for one in range(first, end):
                    for other in range(first, end):
                        is_part = not (sets.replayed_hn[other] & ~sets.replayed_hn[one]).any()
                        keeps_more = [sets.bytes_h(b)[other] > sets.bytes_h(b)[one] for b in (1, 10**6)]
                        assert one == other or not is_part or any(keeps_more)


def test_a_norm_is_made_again_from_the_sum_before_it_and_an_activation_from_its_product():
    (layer, unfused) = layers("llama2-7b")[1]
    sets = keep_sets(layer, unfused)
    hidden, ffn = 4096 * 4096 * 2, 4096 * 11008 * 2
    _, dropped, added, change = found(sets, "to_copy_2")
    assert added == {"add_3"}
    assert {"to_copy_2", "rsqrt_1", "to_copy_3", "mul_7"} == dropped
    # A float32 copy and two tensors of the model's type, and a number a token; the sum is kept instead.
    assert change == -(2 * hidden + 2 * hidden + 4096 * 4) + hidden
    # The input of the first norm is no longer needed by backward, so it counts when the norm is made again.
    assert found(sets, "to_copy_0")[2] == {"input_0"}
    assert found(sets, "mm_4.tail")[1:] == ({"silu_0", "mul_8"}, set(), -2 * ffn)
    assert found(sets, "mm_4")[1:] == ({"mm_4", "silu_0", "mul_8"}, set(), -3 * ffn)
    tail = sets.tails.ops[-1]
    assert tail == sets.ops[-1]
    assert (tail.input_bytes.at(1), tail.output_bytes.at(1)) == (2 * ffn, 2 * ffn)
    whole = keep_sets(layer)
    assert not whole.tails.ops
    assert len(whole.ops) == len(layer.forward.ops)


def test_collectives_are_replayed_or_their_result_is_kept():
    layer, unfused = layers("llama2-7b", 4)[1]
    sets = keep_sets(layer, unfused)
    hidden = 4096 * 4096 * 2
    *_, change = found(sets, "add_3")
    assert found(sets, "add_3")[2] == {"mm_3", "input_0"}
    ops, _, added, replayed = found(sets, "mm_3", "mm_3.all_reduce", "add_3")
    assert added == {"input_0"}
    assert change - replayed == hidden
    kinds = {op.collective.kind for op in sets.ops if op.collective and op.name in ops}
    assert kinds == {CollectiveKind.ALL_REDUCE}


def test_trifles_are_kept_until_everything_goes():
    layer, unfused = layers("mixtral-8x7b")[1]
    few, all_of_them = keep_sets(layer, unfused), keep_sets(layer, unfused, trifle_share=0.0)
    gone = {s for names in all_of_them.dropped_h for s in names} - {s for names in few.dropped_h for s in names}
    assert {"softmax_0", "cumsum_0", "index_1"} <= gone
    size = {t.name: t.num_bytes for t in layer.saved}
    for microbatch in (1, 64):
        freed = sum(size[storage].at(microbatch) for storage in gone)
        assert 0 < freed <= 1e-3 * few.full_bytes.at(microbatch)


def chain(num_ops, saved=lambda number: True, size=lambda number: 2):
    """A layer that is a line of operators."""
    tensors = [Tensor(name="input_0", num_elements=Affine(0, 1), element_bytes=1, role=TensorRole.INPUT)]
    ops = []
    for number in range(num_ops):
        tensors.append(Tensor(name=f"t{number}", num_elements=Affine(0, size(number)), element_bytes=1))
        ops.append(
            Op(
                name=f"t{number}",
                target="aten.add",
                kind=OpKind.VECTOR,
                module="",
                vector=(VectorWork(function="add", num_elements=Affine(0, 1)),),
                inputs=(number,),
                outputs=(number + 1,),
            )
        )
    return layer_type(
        "line",
        op_graph(ops, tuple(tensors)),
        op_graph([], ()),
        parameters=(),
        saved=tuple(t for number, t in enumerate(tensors[1:]) if saved(number)),
        saved_inputs=(),
        inputs=(tensors[0],),
    )


def test_a_line_by_hand():
    """t1 is not kept; t2 is made again from t0 by two operators, or from t1, which is smaller, if that is kept."""
    sets = keep_sets(chain(3, saved=lambda n: n != 1, size=lambda n: [5, 1, 7][n]), trifle_share=0.0)
    assert choices(sets) == [
        [(set(), set(), set(), 0), ({"t0"}, {"t0"}, {"input_0"}, -4)],
        [(set(), set(), set(), 0), ({"t2"}, {"t2"}, {"t1"}, -6), ({"t1", "t2"}, {"t2"}, set(), -7)],
    ]
    assert sets.replayed_ops([1, 2]) == (0, 1, 2)
    assert sets.kept_storages([1, 1]) == ("input_0", "t1")
    assert sets.replayed_ops([-1, -1]) == (0, 1, 2)


def test_many_operators_that_hang_together_are_put_together():
    num_ops = 2 * MAX_MEMBERS
    sets = keep_sets(chain(num_ops, saved=lambda n: n == num_ops - 1, size=lambda n: n + 2), trifle_share=0.0)
    (decision,) = choices(sets)
    assert 2 < len(decision) <= MAX_MEMBERS + 1
    # Whatever was put together, each set starts from one result that is kept, and goes on to the end.
    for ops, dropped, added, change in decision[1:]:
        first = min(int(name[1:]) for name in ops)
        assert ops == {f"t{n}" for n in range(first, num_ops)}
        assert added == ({f"t{first - 1}"} if first else {"input_0"})
        assert dropped == {f"t{num_ops - 1}"}
        assert change == first + 1 - (num_ops + 1)


def test_many_decisions_become_few():
    num_ops = MAX_DECISIONS + 6
    sets = keep_sets(chain(num_ops, size=lambda n: n + 1), trifle_share=0.0)
    assert len(sets.first_choice_d) == MAX_DECISIONS + 1
    assert {name for names in sets.dropped_h for name in names} >= {f"t{n}" for n in range(2, num_ops)}
    *_, together = choices(sets)
    assert len(together) == 2
    assert together[1][1] >= {f"t{n}" for n in range(1, 7)}
