from rephaze.types.graph import Affine, VectorWork
from rephaze.workload.extract.trace import Ref
from rephaze.workload.extract.vector_work import bias_work, gather_work, vector_work


def test_a_reduction_counts_its_input_and_runs_along_what_it_drops(step):
    x, out = step.tensor(6, 5, 4), step.tensor(6, 4)
    step.op("aten.sum", (Ref(x), (1,), False), out)
    work = vector_work(step.trace.ops[0], step.affine())
    assert work == VectorWork(function="sum", num_elements=Affine(6 * 5 * 4), row_length=5)


def test_an_elementwise_operator_counts_its_result(step):
    x, row, out = step.tensor(6, 5), step.tensor(5), step.tensor(6, 5)
    step.op("aten.add", (Ref(row), Ref(x)), out)
    assert vector_work(step.trace.ops[0], step.affine()) == VectorWork(function="add", num_elements=Affine(30))


def test_a_softmax_runs_along_the_last_axis_unless_that_is_the_batch(step):
    x, out = step.tensor(6, 5), step.tensor(6, 5)
    step.op("aten._softmax", (Ref(x), -1, False), out)
    trace = step.affine()
    assert vector_work(step.trace.ops[0], trace).row_length == 5
    trace.shapes[x] = (Affine(6), Affine(1, 2))
    assert vector_work(step.trace.ops[0], trace).row_length == 1


def test_a_copy_into_another_type_is_a_cast(step):
    target, x, out = step.tensor(4), step.tensor(4, dtype="float32"), step.tensor(4)
    step.op("aten.copy_", (Ref(target), Ref(x)), out)
    assert vector_work(step.trace.ops[0], step.affine()).function == "cast"


def test_a_gather_moves_its_smaller_side_and_not_the_index(step):
    table, index, out = step.tensor(100, 4), step.tensor(3, dtype="int64"), step.tensor(3, 4)
    step.op("aten.embedding", (Ref(table), Ref(index)), out)
    assert gather_work(step.trace.ops[0], step.affine()).num_elements == Affine(12)


def test_only_a_product_with_a_bias_has_one(step):
    bias, x, w, out = step.tensor(4), step.tensor(6, 5), step.weight("w", 5, 4), step.tensor(6, 4)
    step.op("aten.addmm", (Ref(bias), Ref(x), Ref(w)), out)
    step.op("aten.mm", (Ref(x), Ref(w)), out)
    with_bias, without = step.trace.ops
    assert bias_work(with_bias, step.affine()) == (VectorWork(function="bias", num_elements=Affine(24)),)
    assert bias_work(without, step.affine()) == ()
