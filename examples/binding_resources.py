"""Which resource binds a training step's operators, by chip: the table of docs/how-it-works.md.

Run: python examples/binding_resources.py
"""

from dataclasses import replace

import rephaze
from rephaze.units import MIB, S_PER_MS

RESOURCES = ("array", "buffer", "lanes", "hbm")


def variants():
    """TPUv4, and TPUv4 with one thing changed; array variants keep the number of multipliers."""
    tpu = rephaze.load_chip("tpuv4")
    small = 8 * MIB
    yield "tpuv4", tpu
    yield (
        "8 MiB buffer",
        replace(tpu, global_buffer_bytes=small, global_buffer_bytes_per_cycle=32.0 * small / MIB),
    )
    yield "1/8 of the lanes", replace(tpu, vector_lanes=tpu.vector_lanes // 8)
    yield "HBM at 300 GB/s", replace(tpu, hbm_bytes_per_s=3e11)
    yield (
        "2 arrays of 256 x 256",
        replace(
            tpu,
            num_tensor_cores=2,
            tensor_width=256,
            tensor_depth=256,
            tensor_scratchpad_bytes=16 * 256 * 256,
            scratchpad_bytes_per_cycle=12.0 * 256,
        ),
    )
    yield (
        "512 arrays of 16 x 16",
        replace(
            tpu,
            num_tensor_cores=512,
            tensor_width=16,
            tensor_depth=16,
            tensor_scratchpad_bytes=16 * 16 * 16,
            scratchpad_bytes_per_cycle=12.0 * 16,
        ),
    )


def main():
    """Print the table: share of the step's time bound by each resource, and the time itself."""
    for name, attention in (("gpt2-xl", "fused"), ("gpt2-xl", "eager"), ("llama2-7b", "fused")):
        model = rephaze.load_model(name, attention=attention)
        print(f"\n| {name}, {attention} attention | " + " | ".join(RESOURCES) + " | ms a microbatch of 4 |")
        print("|---|" + "---|" * (len(RESOURCES) + 1))
        for label, chip in variants():
            found = rephaze.estimate_model(model, chip, microbatch=4)
            cells = " | ".join(f"{found.bound_shares.get(resource, 0.0):.0%}" for resource in RESOURCES)
            print(f"| {label} | {cells} | {found.total_s / S_PER_MS:,.0f} |")


if __name__ == "__main__":
    main()
