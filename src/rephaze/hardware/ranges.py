"""What sections of run files have in common: strict reading, and whole numbers as a list or a range."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field, model_validator

from rephaze.errors import SpecError


class Strict(BaseModel):
    """A number is not read from text; only enums, which a file writes as text, are (``strict=False``)."""

    model_config = ConfigDict(extra="forbid", strict=True)


class Range(Strict):
    """``{ from = 1, to = 8, times = 2 }`` is 1, 2, 4, 8; ``step = 2`` adds instead."""

    start: int = Field(alias="from")
    to: int
    times: int | None = None
    step: int | None = None

    @model_validator(mode="after")
    def _one_way_to_grow(self) -> Range:
        if (self.times is None) == (self.step is None):
            raise SpecError("range", {"from": self.start, "to": self.to}, "needs either times or step")
        if self.start < 1 or self.to < self.start or (self.times or 2) < 2 or (self.step or 1) < 1:
            raise SpecError("range", {"from": self.start, "to": self.to}, "must grow from at least 1")
        return self

    def values(self) -> tuple[int, ...]:
        """Every value of the range, ascending."""
        found = [self.start]
        while (after := found[-1] * self.times if self.times else found[-1] + (self.step or 1)) <= self.to:
            found.append(after)
        return tuple(found)


Values = Range | list[int]
