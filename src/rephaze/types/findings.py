"""Pydantic's findings in the house's words: one ``SpecError`` with field, value, rule and fix.

Its places (``loc``) are followed through the model's annotations, so that a finding can list what the field takes:
the choices of an enum, the fields of a section.
"""

from __future__ import annotations

from enum import Enum
from types import NoneType, UnionType
from typing import TYPE_CHECKING, Annotated, Any, NotRequired, Union, get_args, get_origin, get_type_hints

from typing_extensions import is_typeddict

from rephaze.errors import SpecError
from rephaze.types.checks import did_you_mean

if TYPE_CHECKING:
    from pydantic import BaseModel, ValidationError

_NUM_SHOWN_FIELDS = 3
"""Of a section: enough to recognise it by."""


_RULES = {
    "greater_than_equal": "must be at least {ge}",
    "less_than_equal": "must be at most {le}",
    "greater_than": "must be above {gt}",
    "less_than": "must be below {lt}",
    "finite_number": "must be finite",
    "int_type": "must be a whole number",
    "float_type": "must be a number",
    "string_type": "must be text",
    "bool_type": "must be true or false",
    "list_type": "must be a list",
}
"""By pydantic's names."""


def first_finding(error: ValidationError, model: type[BaseModel]) -> SpecError:
    """The first thing wrong, and how many more there are."""
    findings = error.errors(include_url=False, include_context=True)
    first = findings[0]
    steps, kind = _followed(model, first["loc"])
    field = ".".join(steps) or "value"
    # Of a value that fits none of several kinds there is a finding for each kind.
    num_more = len({tuple(_followed(model, one["loc"])[0]) for one in findings}) - 1
    more = f" (and {num_more} more)" if num_more else ""
    raised = first.get("ctx", {}).get("error")
    if isinstance(raised, SpecError):
        place = [*steps, raised.field] if raised.field else steps
        return SpecError(".".join(place), raised.value, raised.rule + more, raised.fix)
    if first["type"] == "extra_forbidden":
        known = _fields(_followed(model, first["loc"][:-1])[1])
        return SpecError(field, first["input"], f"is not a known field{more}", did_you_mean(steps[-1], known))
    if first["type"] == "missing":
        choices = _choices(kind)
        return SpecError(
            field, None, f"is required and missing{more}", f"give one of {', '.join(choices)}" if choices else ""
        )
    fix = ""
    if first["type"] == "enum":
        rule, fix = f"must be one of {', '.join(_choices(kind))}", did_you_mean(first["input"], _choices(kind))
    elif first["type"] == "list_type" and (listed := _choices(_item(kind))):
        rule = f"must be a list of any of {', '.join(listed)}"
    elif first["type"] == "model_type" and _fields(kind):
        shown = _fields(kind)[:_NUM_SHOWN_FIELDS]
        rule = f"must be a section with fields ({', '.join(shown)}{', ...' * (len(shown) < len(_fields(kind)))})"
    elif first["type"] in _RULES:
        rule = _RULES[first["type"]].format(**{name: f"{value:g}" for name, value in first.get("ctx", {}).items()})
    else:
        rule = first["msg"][:1].lower() + first["msg"][1:]
    return SpecError(field, first["input"], rule + more, fix)


def _followed(model: type[BaseModel], loc: tuple[int | str, ...]) -> tuple[list[str], Any]:
    """The steps of a place that a file has too, and the type that is due there; None where it is not known."""
    steps: list[str] = []
    kind: Any = model
    for part in loc:
        kind = _bare(kind)
        if get_origin(kind) in (Union, UnionType):
            # Pydantic names the alternative it tried; the file does not.
            kind = next((arm for arm in get_args(kind) if part in (getattr(arm, "__name__", ""), str(arm))), None)
            continue
        steps.append(str(part))
        if get_origin(kind) is list:
            kind = get_args(kind)[0]
        elif get_origin(kind) is tuple:
            inner = get_args(kind)
            kind = inner[part] if isinstance(part, int) and part < len(inner) else None
        elif is_typeddict(kind):
            kind = get_type_hints(kind, include_extras=True).get(str(part))
        else:
            found = getattr(kind, "model_fields", {}).get(part)
            kind = None if found is None else found.annotation
    return steps, _bare(kind)


def _bare(kind: Any) -> Any:
    """The type without ``| None`` and without what ``Annotated`` and ``NotRequired`` add."""
    if get_origin(kind) in (Annotated, NotRequired):
        return _bare(get_args(kind)[0])
    arms = get_args(kind)
    if get_origin(kind) in (Union, UnionType) and NoneType in arms:
        return _bare(Union[tuple(arm for arm in arms if arm is not NoneType)])  # noqa: UP007
    return kind


def _choices(kind: Any) -> list[str]:
    return [str(choice.value) for choice in kind] if isinstance(kind, type) and issubclass(kind, Enum) else []


def _item(kind: Any) -> Any:
    return _bare(get_args(kind)[0]) if get_origin(kind) is list else None


def _fields(kind: Any) -> list[str]:
    return list(get_type_hints(kind) if is_typeddict(kind) else getattr(kind, "model_fields", {}))
