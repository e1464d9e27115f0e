"""Cost model ``full``: FSDP, overlap, experts, context parallelism, interleaving (docs/plans.md)."""
