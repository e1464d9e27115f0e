"""The public functions as a script calls them."""

import rephaze


def test_explore_finds_and_proves_on_a_small_space():
    changes = {
        "space": {
            "num_tensor_cores": [4, 8],
            "tensor_width": [128],
            "tensor_depth": [128],
            "num_vector_cores": [2],
            "vector_lanes": [2048],
            "global_buffer_mib": [64],
            "num_hbm_stacks": [2],
            "area_floor_fraction": 0.0,
        },
        "training": {"microbatches": [1], "tp_degrees": [1]},
    }
    result = rephaze.explore("vit-large", changes=changes)
    assert result.status == "optimal"
    assert result.chip is not None
    assert result.certificate.num_designs == 2
    assert result.plans[0].samples_per_s > 0
    assert "gpt2-xl" in rephaze.list_models()
