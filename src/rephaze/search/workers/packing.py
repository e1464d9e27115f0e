"""What goes to Dask workers and back, as text, numbers and bytes: the same on every machine.

Boxes know a time of every unit that may win in them, thousands of numbers: those go as bytes, all else as text.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import fields, replace
from itertools import accumulate, pairwise
from typing import Any

import numpy as np

from rephaze.measure.model_bounds import ModelBounds
from rephaze.store.record_json import from_json, json_text, to_json
from rephaze.types.boxes import Expansion, Goal, OpenBox, UnitTimes

PackedBounds = dict[str, tuple[Sequence[int], bytes]]
"""Shape and little-endian bytes of each array of a ``ModelBounds``."""
PackedBoxes = dict[str, Any]
PackedExpansions = dict[str, Any]

_INTS, _FLOATS = "<i8", "<f8"


def pack_bounds(bounds: ModelBounds) -> PackedBounds:
    """Bounds as shapes and bytes."""
    arrays = {field.name: getattr(bounds, field.name) for field in fields(bounds)}
    return {name: (array.shape, array.astype(_FLOATS).tobytes()) for name, array in arrays.items()}


def unpack_bounds(packed: PackedBounds) -> ModelBounds:
    """The bounds that ``pack_bounds`` packed."""
    return ModelBounds(
        **{
            name: np.frombuffer(data, dtype=_FLOATS).astype(np.float64).reshape(shape)
            for name, (shape, data) in packed.items()
        }
    )


def pack_goal(goal: Goal) -> str:
    """A goal as text."""
    return json_text(to_json(goal))


def unpack_goal(text: str) -> Goal:
    """The goal that ``pack_goal`` packed."""
    return from_json(Goal, json.loads(text))


def pack_boxes(boxes: Sequence[OpenBox]) -> PackedBoxes:
    """Boxes as text, their times as bytes."""
    times = [own for box in boxes for own in box.times]
    return {
        "boxes": json_text([to_json(replace(box, times=())) for box in boxes]),
        "models_of": [len(box.times) for box in boxes],
        "units_of": [len(own.unit_u) for own in times],
        "unit_u": np.array([u for own in times for u in own.unit_u], dtype=_INTS).tobytes(),
        "batch_s_u": np.array([batch_s for own in times for batch_s in own.batch_s_u], dtype=_FLOATS).tobytes(),
        "others_s": np.array([own.others_s for own in times], dtype=_FLOATS).tobytes(),
    }


def unpack_boxes(packed: PackedBoxes) -> list[OpenBox]:
    """The boxes that ``pack_boxes`` packed."""
    unit_u = np.frombuffer(packed["unit_u"], dtype=_INTS).tolist()
    batch_s_u = np.frombuffer(packed["batch_s_u"], dtype=_FLOATS).tolist()
    others_s = np.frombuffer(packed["others_s"], dtype=_FLOATS).tolist()
    times = [
        UnitTimes(unit_u=tuple(unit_u[first:end]), batch_s_u=tuple(batch_s_u[first:end]), others_s=left_s)
        for (first, end), left_s in zip(_ranges(packed["units_of"]), others_s, strict=True)
    ]
    boxes = [from_json(OpenBox, one) for one in json.loads(packed["boxes"])]
    return [
        replace(box, times=tuple(times[first:end]))
        for box, (first, end) in zip(boxes, _ranges(packed["models_of"]), strict=True)
    ]


def pack_expansions(found: Sequence[Expansion]) -> PackedExpansions:
    """What became of boxes, as ``pack_boxes`` packs those that are open."""
    return {
        "closed": json_text([to_json(replace(one, open=())) for one in found]),
        "open": pack_boxes([box for one in found for box in one.open]),
        "open_of": [len(one.open) for one in found],
    }


def unpack_expansions(packed: PackedExpansions) -> list[Expansion]:
    """What ``pack_expansions`` packed."""
    boxes = unpack_boxes(packed["open"])
    found = [from_json(Expansion, one) for one in json.loads(packed["closed"])]
    return [
        replace(one, open=tuple(boxes[first:end]))
        for one, (first, end) in zip(found, _ranges(packed["open_of"]), strict=True)
    ]


def _ranges(sizes: Sequence[int]) -> list[tuple[int, int]]:
    """First and end of parts of these sizes, one after another."""
    return list(pairwise(accumulate(sizes, initial=0)))
