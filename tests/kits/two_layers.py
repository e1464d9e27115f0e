"""The smallest problem under cost model ``full`` that has something to cut: two layers on two devices."""

LAYER = {"param_bytes": 1e9, "forward_s": 0.01, "backward_s": 0.02, "keep": [{"bytes": 1e8, "replay_s": 0}]}
PROBLEM = {
    "format": "rephaze.placement-problem/2",
    "cost_model": "full",
    "cluster": {
        "num_devices": 2,
        "device_memory_bytes": 8e10,
        "levels": [{"num_devices": 2, "bytes_per_s": 1e11}],
    },
    "training": {"global_batch": 8, "optimizer": "adam", "precision": "mixed"},
    "graphs": [
        {
            "tp": 1,
            "microbatch": 1,
            "layers": [{"name": "a"} | LAYER, {"name": "b"} | LAYER],
            "edges": [{"src": "a", "dst": "b", "bytes": 1e6}],
        }
    ],
}
