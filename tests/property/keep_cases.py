"""Small random layers, and what they may keep worked out the slow way: every subset of storages, one by one."""

import random
from itertools import combinations

from rephaze.types.graph import Affine, Op, OpKind, Tensor, TensorRole, VectorWork
from rephaze.workload.derived_sizes import layer_type, op_graph


def random_layer(seed):
    """A layer of up to six operators with views between them, and random sizes; some results leave it."""
    rng = random.Random(seed)
    tensors, ops, readable = [], [], []

    def tensor(name, role=TensorRole.LOCAL, storage="", size=None):
        size = size or Affine(rng.choice([0, 0, 3]), rng.randint(1, 9))
        tensors.append(Tensor(name=name, num_elements=size, element_bytes=1, role=role, storage=storage))
        return len(tensors) - 1

    readable.extend(tensor(f"input_{number}", TensorRole.INPUT) for number in range(rng.randint(1, 3)))
    readable.append(tensor("weight", TensorRole.PARAMETER))
    for number in range(rng.randint(2, 6)):
        inputs = tuple(rng.sample(readable, min(len(readable), rng.randint(1, 3))))
        leaves = rng.random() < 0.15
        outputs = tuple(
            tensor(f"made_{number}.{part}", TensorRole.OUTPUT if leaves else TensorRole.LOCAL)
            for part in range(rng.choice([1, 1, 2]))
        )
        ops.append(op(f"op_{number}", OpKind.VECTOR, inputs, outputs))
        readable.extend(outputs)
        if rng.random() < 0.4:
            of = outputs[-1]
            # A view under the name of what it shows, or under one of its own.
            storage = tensors[of].name if rng.random() < 0.7 else ""
            shown = tensor(f"view_{number}", storage=storage, size=tensors[of].num_elements)
            ops.append(op(f"show_{number}", OpKind.VIEW, (of,), (shown,)))
            readable.append(shown)
    made = [t for t in tensors if t.name.startswith("made")]
    inputs = [t for t in tensors if t.role is TensorRole.INPUT]
    graph = op_graph(ops, tuple(tensors))
    return layer_type(
        "layer",
        graph,
        op_graph([], ()),
        parameters=(),
        saved=tuple(t for t in made if rng.random() < 0.6),
        saved_inputs=tuple(t for t in inputs if rng.random() < 0.5),
        inputs=tuple(t for t in inputs if rng.random() < 0.8),
    )


def op(name, kind, inputs, outputs):
    work = (VectorWork(function="add", num_elements=Affine(0, 1)),) if kind is OpKind.VECTOR else ()
    return Op(name=name, target=name, kind=kind, module="", vector=work, inputs=inputs, outputs=outputs)


def kept_and_replayed(layer, kept, microbatch):
    """Bytes kept and operators replayed when just these storages, and inputs the replay reads, are kept."""
    graph = layer.forward
    maker = {t: number for number, op in enumerate(graph.ops) for t in op.outputs}
    by_name = {t.name: number for number, t in enumerate(graph.tensors)}
    layer_inputs = {t.name for t in layer.inputs}
    saved_inputs = {t.name for t in layer.saved_inputs}
    replayed, read_inputs, waiting = set(), set(), [t.name for t in layer.saved]
    while waiting:
        name = waiting.pop()
        tensor = graph.tensors[by_name[name]]
        if tensor.storage:
            waiting.append(tensor.storage)
        elif name in kept or tensor.role is TensorRole.PARAMETER:
            continue
        elif tensor.role is TensorRole.INPUT:
            read_inputs.add(name)
        else:
            number = maker[by_name[name]]
            if number not in replayed:
                replayed.add(number)
                waiting.extend(graph.tensors[t].name for t in graph.ops[number].inputs)
    held = [*kept, *saved_inputs, *(read_inputs & layer_inputs - saved_inputs)]
    total = sum(graph.tensors[by_name[name]].num_bytes.at(microbatch) for name in held)
    return total, {number for number in replayed if graph.ops[number].kind is not OpKind.VIEW}


def slow_front(layer, op_time_s, full_s, microbatch):
    """The front over every subset of what the operators make, by comparing all pairs."""
    saved = {t.name for t in layer.saved}
    leaving = {t.storage or t.name for t in layer.forward.tensors if t.role is TensorRole.OUTPUT}
    least = layer.input_bytes.at(microbatch)
    made = [t.name for t in layer.forward.tensors if t.name.startswith("made")]
    points = [((layer.saved_bytes + layer.saved_input_bytes).at(microbatch), 0.0)]
    _, everything = kept_and_replayed(layer, frozenset(), microbatch)
    if everything:
        points.append((least, min(sum(op_time_s[n] for n in everything), full_s)))
    for count in range(len(made) + 1):
        for kept in combinations(made, count):
            if leaving & saved - set(kept):
                continue
            total, replayed = kept_and_replayed(layer, frozenset(kept), microbatch)
            if replayed:
                points.append((max(total, least), min(sum(op_time_s[n] for n in sorted(replayed)), full_s)))
    front = [p for p in set(points) if not any(q != p and q[0] <= p[0] and q[1] <= p[1] for q in points)]
    return sorted(front, key=lambda point: point[1])
