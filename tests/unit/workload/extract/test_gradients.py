from rephaze.types.graph import Gradient
from rephaze.workload.extract.blocks import Stack
from rephaze.workload.extract.gradients import gradients_of
from rephaze.workload.extract.partition import partition
from rephaze.workload.extract.trace import Ref

STACKS = (Stack(path="blocks", signatures=(0, 0), traced=(0, 1)),)


def two_linear_blocks(step):
    """x @ a @ b, and its backward: of each product the gradient of its input and that of its weight."""
    x, a, b = step.tensor(2, 4), step.weight("blocks.0.w", 4, 4), step.weight("blocks.1.w", 4, 4)
    h, y = step.tensor(2, 4), step.tensor(2, 4)
    step.op("aten.mm", (Ref(x), Ref(a)), h, module="blocks.0")
    step.op("aten.mm", (Ref(h), Ref(b)), y, module="blocks.1")
    grad_y = step.tensor(2, 4)
    numbers = {}
    for name, left, right, sequence in (
        ("weight of 1", h, grad_y, 1),
        ("input of 1", grad_y, b, 1),
        ("weight of 0", x, None, 0),
        ("input of 0", None, a, 0),
    ):
        out = step.tensor(2, 4)
        grad_h = numbers.get("grad_h")
        args = tuple(Ref(grad_h if t is None else t) for t in (left, right))
        numbers[name] = step.op("aten.mm", args, out, is_backward=True, sequence=sequence)
        if name == "input of 1":
            numbers["grad_h"] = out
    return numbers


def test_only_what_an_earlier_layer_waits_for_is_towards_the_input(step):
    numbers = two_linear_blocks(step)
    found = gradients_of(step.affine(), partition(step.trace, STACKS))
    assert found[numbers["input of 1"]] is Gradient.INPUT
    assert found[numbers["weight of 1"]] is Gradient.WEIGHT
    assert found[numbers["weight of 0"]] is Gradient.WEIGHT
    # Nothing comes before the first layer: no one waits for the gradient of its input.
    assert found[numbers["input of 0"]] is Gradient.WEIGHT


def test_forward_operators_work_for_no_gradient(step):
    two_linear_blocks(step)
    found = gradients_of(step.affine(), partition(step.trace, STACKS))
    assert set(found) == {2, 3, 4, 5}


def test_a_weights_gradient_that_another_layer_adds_to_stays_a_weights_gradient(step):
    # Tied weights: the gradient made in block 1 is summed with that of block 0, in block 0.
    numbers = two_linear_blocks(step)
    trace = step.trace
    first, second = (trace.ops[numbers[f"weight of {block}"]].outputs[0] for block in (1, 0))
    turned = step.tensor(4, 4)
    view = step.op("aten.t", (Ref(first),), turned, is_backward=True, sequence=1)
    total = step.op("aten.add", (Ref(turned), Ref(second)), step.tensor(4, 4), is_backward=True, sequence=0)
    found = gradients_of(step.affine(), partition(trace, STACKS))
    assert found[numbers["weight of 1"]] is found[view] is found[total] is Gradient.WEIGHT


def test_what_feeds_an_operator_towards_the_input_is_towards_the_input(step):
    x, w = step.tensor(2, 4), step.weight("blocks.1.w", 4, 4)
    h, y = step.tensor(2, 4), step.tensor(2, 4)
    step.op("aten.relu", (Ref(x),), h, module="blocks.0")
    step.op("aten.mm", (Ref(h), Ref(w)), y, module="blocks.1")
    scaled, grad_h, grad_x = step.tensor(2, 4), step.tensor(2, 4), step.tensor(2, 4)
    scale = step.op("aten.mul", (Ref(y),), scaled, is_backward=True, sequence=1)
    product = step.op("aten.mm", (Ref(scaled), Ref(w)), grad_h, is_backward=True, sequence=1)
    step.op("aten.threshold_backward", (Ref(grad_h), Ref(h)), grad_x, is_backward=True, sequence=0)
    found = gradients_of(step.affine(), partition(step.trace, STACKS))
    assert found[scale] is found[product] is Gradient.INPUT
