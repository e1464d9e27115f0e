"""Compile every kernel of all cost models, or read it from the cache: no benchmark should measure that."""

from __future__ import annotations

from rephaze.search.workers.warmup import NUM_PARTS, warm_part
from rephaze.types.placement import PlacementModel


def warm_all() -> None:
    for model in PlacementModel:
        for number in range(NUM_PARTS):
            warm_part(number, model)


if __name__ == "__main__":
    warm_all()
