"""What sections of run files have in common: strict reading, and whole numbers as a list or a range."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict, Discriminator, Field, Tag, model_validator

from rephaze.errors import SpecError


class Strict(BaseModel):
    """A number is not read from text; only enums, which a file writes as text, are (``strict=False``)."""

    model_config = ConfigDict(extra="forbid", strict=True)


MOST_VALUES = 1 << 16
"""Of a range: more are a slip, not a choice."""


class Range(Strict):
    """``{ from = 1, to = 8, times = 2 }`` is 1, 2, 4, 8; ``step = 2`` adds instead."""

    start: int = Field(alias="from")
    to: int
    times: int | None = None
    step: int | None = None

    @model_validator(mode="after")
    def _grows(self) -> Range:
        for is_wrong, rule, fix in (
            (self.times is None and self.step is None, "needs step or times: how it grows", "add step = 1"),
            (self.times is not None and self.step is not None, "has both step and times", "keep one of them"),
            (self.start < 1, "must start at 1 or more", "set from = 1"),
            (self.to < self.start, "must not end below its start", f"set to = {self.start} or more"),
            (self.step is not None and self.step < 1, "needs a step of at least 1", "set step = 1"),
            (self.times is not None and self.times < 2, "needs times of at least 2", "set times = 2, or step"),
            (self._num_steps() >= MOST_VALUES, f"has over {MOST_VALUES:,} values", "take larger steps"),
        ):
            if is_wrong:
                raise SpecError("", self.model_dump(by_alias=True, exclude_none=True), rule, fix)
        return self

    def _num_steps(self) -> int:
        """How often it grows, at most."""
        return (self.to - self.start) // self.step if self.step else 0

    def values(self) -> tuple[int, ...]:
        """Every value of the range, ascending."""
        found = [self.start]
        while (after := found[-1] * self.times if self.times else found[-1] + (self.step or 1)) <= self.to:
            found.append(after)
        return tuple(found)


def list_or_range(given: Any) -> Any:
    """What is given, if it is either; which of them a section then reads by ``range_or_list``."""
    if not isinstance(given, list | dict):
        rule = "must be a list of numbers or a range"
        raise SpecError("", given, rule, "for example [1, 2, 4] or { from = 1, to = 8, step = 1 }")
    return given


def range_or_list(given: Any) -> str:
    """Told apart by what is there: what is wrong with a range is then said once, and not that it is no list."""
    return "range" if isinstance(given, dict) else "list"


Values = Annotated[
    Annotated[Range, Tag("range")] | Annotated[list[int], Tag("list")],
    Discriminator(range_or_list),
    BeforeValidator(list_or_range),
]
