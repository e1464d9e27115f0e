import copy
import json

import pytest

from rephaze.errors import FileError, SpecError
from rephaze.workload import load_model, read_graph, write_graph
from rephaze.workload.graph_file import graph_from_plain, graph_to_json


@pytest.fixture(scope="module")
def plain():
    return json.loads(graph_to_json(load_model("vit-large")))


def block(document):
    return document["layer_types"][1]["forward"]


def refused(document):
    with pytest.raises(SpecError) as caught:
        graph_from_plain(document, "g.json")
    text = str(caught.value)
    assert "\n" not in text
    return text


@pytest.mark.parametrize("suffix", [".json", ".json.gz"])
def test_a_graph_survives_a_file(tmp_path, suffix):
    graph = load_model("gpt2-xl", "eager")
    path = tmp_path / f"graph{suffix}"
    write_graph(graph, path)
    first = path.read_bytes()
    assert read_graph(path) == graph
    write_graph(read_graph(path), path)
    assert path.read_bytes() == first


def test_operators_may_stand_in_any_order(plain):
    document = copy.deepcopy(plain)
    block(document)["ops"].reverse()
    graph = graph_from_plain(document, "g.json")
    for src, dst in graph.layer_types[1].forward.edges:
        assert src < dst
    names = {op.name for op in graph.layer_types[1].forward.ops}
    assert names == {op.name for op in load_model("vit-large").layer_types[1].forward.ops}


def test_a_cycle_is_one_clear_line(plain):
    document = copy.deepcopy(plain)
    ops = block(document)["ops"]
    first = next(op for op in ops if op["kind"] == "gemm")
    reader = next(op for op in ops if first["outputs"][0] in op["inputs"])
    first["inputs"].append(reader["outputs"][0])
    text = refused(document)
    assert "is a cycle" in text
    assert first["name"] in text


def test_an_operator_that_reads_its_own_result_is_a_cycle(plain):
    document = copy.deepcopy(plain)
    op = block(document)["ops"][0]
    op["inputs"].append(op["outputs"][0])
    assert "is a cycle" in refused(document)


def test_a_missing_tensor_is_named(plain):
    document = copy.deepcopy(plain)
    op = block(document)["ops"][3]
    op["inputs"][0] = "nowhere"
    text = refused(document)
    assert f"{op['name']}.inputs is 'nowhere'" in text
    assert "not among the tensors" in text


def test_another_schema_version_is_refused(plain):
    text = refused({**plain, "format": "rephaze.graph/2"})
    assert "must be 'rephaze.graph/1'" in text


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (lambda d: d.update(extra=1), "extra"),
        (lambda d: d.pop("seq_len"), "seq_len"),
        (lambda d: d["edges"].append([5, 2, 8]), "from an earlier to a later"),
        (lambda d: d["edges"].append([0, 999, 8]), "from an earlier to a later"),
        (lambda d: d["layers"].append(["x", "no such type"]), "not a layer type"),
        (lambda d: d["tied"].append({"name": "w", "layers": [99], "param_bytes": 1}), "not there"),
        (lambda d: block(d)["tensors"][0].update(element_bytes=0), "element_bytes"),
        (lambda d: block(d)["ops"][0].update(kind="magic"), "kind"),
        (lambda d: block(d)["ops"][0].update(kind="gemm"), "dimensions of its kind"),
        (lambda d: block(d)["tensors"].append(block(d)["tensors"][0]), "one name"),
        (lambda d: block(d)["ops"].append({**block(d)["ops"][0], "name": "twin"}), "too"),
    ],
)
def test_unsound_files_are_refused_in_one_line(plain, change, expected):
    document = copy.deepcopy(plain)
    change(document)
    assert expected in refused(document)


def test_a_file_that_is_not_there_or_not_json(tmp_path):
    with pytest.raises(FileError, match="no such file"):
        read_graph(tmp_path / "none.json")
    broken = tmp_path / "broken.json.gz"
    broken.write_bytes(b"not gzip")
    with pytest.raises(FileError):
        read_graph(broken)
