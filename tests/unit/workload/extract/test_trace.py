import pytest

from rephaze.workload.extract.trace import Origin, Ref, SavedTensor, integers_of, without_unread_constants


def test_an_operator_knows_its_name_and_its_tensors(step):
    x, w, out = step.tensor(2, 4), step.weight("w", 4, 4), step.tensor(2, 4)
    step.op("aten.addmm", (Ref(w), Ref(x), 1.0), out)
    op = step.trace.ops[0]
    assert (op.name, op.tensor_at(1)) == ("addmm", x)
    with pytest.raises(AssertionError, match=r"a tensor was expected, not 1\.0"):
        op.tensor_at(2)


def test_axes_are_a_tuple_whether_one_or_many():
    assert integers_of(-1) == (-1,)
    assert integers_of((0, 2)) == (0, 2)
    assert integers_of(()) == ()
    with pytest.raises(AssertionError, match="an integer was expected, not None"):
        integers_of(None)


def test_constants_that_nothing_reads_go_and_what_was_saved_after_them_moves_up(step):
    x = step.tensor(2, 4)
    unread, positions, out = (step.tensor(4, origin=o) for o in (Origin.CONSTANT, Origin.CONSTANT, Origin.DATA))
    step.op("aten.rand", (), unread)
    step.op("aten.arange", (4,), positions)
    step.op("aten.add", (Ref(x), Ref(positions)), out)
    step.trace.saved.append(SavedTensor(tensor=out, num_ops_before=3, module=""))
    left = without_unread_constants(step.trace)
    assert [op.target for op in left.ops] == ["aten.arange", "aten.add"]
    assert left.saved[0].num_ops_before == 2


def test_an_operator_in_place_stays(step):
    blank, filled = step.tensor(4, origin=Origin.CONSTANT), step.tensor(4, origin=Origin.CONSTANT)
    step.op("aten.zero_", (Ref(blank),), filled)
    assert len(without_unread_constants(step.trace).ops) == 1
