from rephaze.place.degrees import pipeline_level_of
from rephaze.place.network import links_of, pipeline_level, replica_level
from rephaze.types.cluster import Cluster, NetworkLevel, flat_cluster

NODES = Cluster(
    num_devices=64,
    levels=(
        NetworkLevel(num_devices=8, bytes_per_s=300.0, latency_s=1.0),
        NetworkLevel(num_devices=32, bytes_per_s=50.0, latency_s=3.0),
        NetworkLevel(num_devices=64, bytes_per_s=90.0, latency_s=2.0),
    ),
)


def test_a_pipeline_stays_in_a_node_when_it_divides_it():
    assert pipeline_level(NODES, 4, 16) == 0
    assert pipeline_level(NODES, 8, 8) == 0


def test_pipelines_that_straddle_nodes_talk_at_the_next_level():
    # The third pipeline of three devices is 6, 7, 8: it crosses from the first node into the second.
    assert pipeline_level(NODES, 3, 10) == 1
    assert pipeline_level(NODES, 3, 12) == 2
    assert pipeline_level(NODES, 16, 4) == 1


def test_few_pipelines_of_any_size_stay_in_a_node():
    assert pipeline_level(NODES, 3, 2) == 0
    assert pipeline_level(NODES, 3, 3) == 1


def test_replicas_span_the_level_that_holds_all_of_them():
    assert replica_level(NODES, 4, 2) == 0
    assert replica_level(NODES, 4, 3) == 1
    assert replica_level(NODES, 4, 16) == 2


def test_what_crosses_a_level_passes_those_inside_it():
    links = links_of(NODES)
    assert links.bytes_per_s_l.tolist() == [300.0, 50.0, 50.0]
    assert links.latency_s_l.tolist() == [1.0, 3.0, 3.0]


def test_solver_and_price_take_the_same_level():
    groups = links_of(NODES).num_devices_l
    for devices in range(1, 65):
        for dp in range(1, 64 // devices + 1):
            want = pipeline_level(NODES, devices, dp)
            assert pipeline_level_of(devices, dp, groups) == want


def test_a_flat_network_has_one_level():
    assert pipeline_level(flat_cluster(100, 1.0), 7, 9) == 0
