"""Frozen records to plain JSON documents and back, guided by the types of their fields.

Handled: nested dataclasses, ``bool``, ``int``, ``float``, ``str``, enums, ``tuple[X, ...]``, ``tuple[X, Y]``,
``dict[str, X]`` and ``X | None``. Infinities and not-a-number, which JSON lacks, are the strings ``inf``,
``-inf`` and ``nan`` where a float is due. A float field always becomes a float, so that 1 and 1.0, which are
equal settings, are equal documents.
"""

from __future__ import annotations

import dataclasses
import json
import math
import operator
from collections.abc import Callable
from enum import Enum
from functools import cache
from types import NoneType, UnionType
from typing import Any, TypeVar, Union, get_args, get_origin, get_type_hints

from rephaze.errors import FileError

RecordT = TypeVar("RecordT")
Json = Any
"""``None``, ``bool``, ``int``, ``float``, ``str``, or a list or dict of these."""

_NON_FINITE = {"inf": math.inf, "-inf": -math.inf, "nan": math.nan}


def to_json(record: Any) -> dict[str, Json]:
    """The record as a JSON document; ``TypeError`` if a field's type is not handled or its value is wrong."""
    kind: Any = type(record)
    document: dict[str, Json] = _codec(kind).encode(record)
    return document


def from_json(kind: type[RecordT], document: Json) -> RecordT:
    """The record of type ``kind`` that ``to_json`` made ``document`` from.

    Raises:
        FileError: The document does not fit: says where, and what should be there.
    """
    codec_key: Any = kind
    try:
        record: RecordT = _codec(codec_key).decode(document)
    except _MismatchError as error:
        raise FileError(f"{kind.__name__}{error.path} {error.finding}") from None
    return record


def json_text(document: Json) -> str:
    """The document as ASCII text in its own key order, without NaN or infinities."""
    return json.dumps(document, allow_nan=False, separators=(",", ":"))


def canonical_text(document: Json) -> str:
    """The one text of all equal documents: keys sorted. For digests and comparisons."""
    return json.dumps(document, allow_nan=False, separators=(",", ":"), sort_keys=True)


@dataclasses.dataclass(frozen=True, slots=True)
class _Codec:
    encode: Callable[[Any], Json]
    decode: Callable[[Json], Any]


class _MismatchError(Exception):
    """A document that does not fit its type; the path to the misfit grows while the stack unwinds."""

    def __init__(self, finding: str) -> None:
        self.path, self.finding = "", finding

    def under(self, step: str) -> _MismatchError:
        self.path = step + self.path
        return self


def _misfit(expected: str, found: Json) -> _MismatchError:
    shown = repr(found)
    return _MismatchError(f"should be {expected}, is {shown if len(shown) <= 60 else shown[:57] + '...'}")


@cache
def _codec(kind: Any) -> _Codec:
    origin = get_origin(kind)
    if dataclasses.is_dataclass(kind) and isinstance(kind, type):
        return _record_codec(kind)
    if isinstance(kind, type) and issubclass(kind, Enum):
        return _enum_codec(kind)
    if kind in _SCALARS:
        return _SCALARS[kind]
    if origin is tuple:
        codec = _tuple_codec(get_args(kind))
        return _numbers_codec(get_args(kind)[0], codec) if get_args(kind) in _NUMBERS else codec
    if origin is dict and get_args(kind)[0] is str:
        return _dict_codec(_codec(get_args(kind)[1]))
    if origin in (Union, UnionType) and NoneType in get_args(kind) and len(get_args(kind)) == 2:
        return _optional_codec(_codec(next(arg for arg in get_args(kind) if arg is not NoneType)))
    raise TypeError(f"no JSON form is known for a field of type {kind}")


def _record_codec(kind: type) -> _Codec:
    hints = get_type_hints(kind)
    fields = [field for field in dataclasses.fields(kind) if field.init]
    codecs = {field.name: _codec(hints[field.name]) for field in fields}
    required = {
        field.name
        for field in fields
        if field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING
    }

    later = {field.name: _default_of(field) for field in fields if field.metadata.get("added_later")}

    def encode(record: Any) -> Json:
        if type(record) is not kind:
            raise TypeError(f"a {kind.__name__} is due, not a {type(record).__name__}")
        return {
            name: codec.encode(getattr(record, name))
            for name, codec in codecs.items()
            if name not in later or getattr(record, name) != later[name]
        }

    def decode(document: Json) -> Any:
        if not isinstance(document, dict):
            raise _misfit(f"a {kind.__name__}", document)
        if missing := required - document.keys():
            raise _MismatchError(f"lacks {', '.join(sorted(missing))}")
        if unknown := document.keys() - codecs.keys():
            raise _MismatchError(f"has unknown {', '.join(sorted(unknown))}")
        values = {}
        for name, item in document.items():
            try:
                values[name] = codecs[name].decode(item)
            except _MismatchError as error:
                raise error.under(f".{name}") from None
        return kind(**values)

    return _Codec(encode, decode)


def _default_of(field: dataclasses.Field[Any]) -> Any:
    if field.default_factory is not dataclasses.MISSING:
        return field.default_factory()
    return field.default


def _enum_codec(kind: type[Enum]) -> _Codec:
    values = {member.value: member for member in kind}

    def decode(document: Json) -> Enum:
        if not isinstance(document, str | int) or document not in values:
            raise _misfit("one of " + ", ".join(map(repr, values)), document)
        return values[document]

    # Through the type, so that a plain string equal to a member's value is stored as that member.
    return _Codec(lambda value: kind(value).value, decode)


def _tuple_codec(kinds: tuple[Any, ...]) -> _Codec:
    is_open = len(kinds) == 2 and kinds[1] is Ellipsis
    codecs = [_codec(item) for item in kinds if item is not Ellipsis]

    def codecs_of(items: Any) -> list[_Codec]:
        return codecs * len(items) if is_open else codecs

    def encode(items: Any) -> Json:
        if not isinstance(items, tuple | list) or (not is_open and len(items) != len(codecs)):
            raise TypeError(f"a tuple{'' if is_open else f' of {len(codecs)}'} is due, not {items!r}")
        return [codec.encode(item) for codec, item in zip(codecs_of(items), items, strict=True)]

    def decode(items: Json) -> Any:
        if not isinstance(items, list) or (not is_open and len(items) != len(codecs)):
            raise _misfit("a list" if is_open else f"a list of {len(codecs)}", items)
        decoded = []
        for position, (codec, item) in enumerate(zip(codecs_of(items), items, strict=True)):
            try:
                decoded.append(codec.decode(item))
            except _MismatchError as error:
                raise error.under(f"[{position}]") from None
        return tuple(decoded)

    return _Codec(encode, decode)


def _numbers_codec(kind: type, one_by_one: _Codec) -> _Codec:
    """Tuples of plain numbers at once, a tenth of the time; what else they may hold, one by one."""

    def encode(items: Any) -> Json:
        is_plain = isinstance(items, tuple | list) and set(map(type, items)) == {kind}
        # A sum is finite only if all of its parts are.
        if is_plain and (kind is int or math.isfinite(sum(items))):
            return list(items)
        return one_by_one.encode(items)

    def decode(items: Json) -> Any:
        if isinstance(items, list) and set(map(type, items)) == {kind}:
            return tuple(items)
        return one_by_one.decode(items)

    return _Codec(encode, decode)


def _dict_codec(inner: _Codec) -> _Codec:
    def encode(items: Any) -> Json:
        if not isinstance(items, dict) or not all(isinstance(key, str) for key in items):
            raise TypeError(f"a dict with text keys is due, not {items!r}")
        return {str(key): inner.encode(item) for key, item in items.items()}

    def decode(items: Json) -> Any:
        if not isinstance(items, dict):
            raise _misfit("an object", items)
        decoded = {}
        for key, item in items.items():
            try:
                decoded[key] = inner.decode(item)
            except _MismatchError as error:
                raise error.under(f"[{key!r}]") from None
        return decoded

    return _Codec(encode, decode)


def _optional_codec(inner: _Codec) -> _Codec:
    return _Codec(
        lambda value: None if value is None else inner.encode(value),
        lambda document: None if document is None else inner.decode(document),
    )


def _encode_bool(value: Any) -> Json:
    if value not in (True, False):  # numpy's bool is not Python's, yet equal
        raise TypeError(f"a bool is due, not {value!r}")
    return bool(value)


def _decode_bool(document: Json) -> bool:
    if not isinstance(document, bool):
        raise _misfit("true or false", document)
    return document


def _decode_int(document: Json) -> int:
    if isinstance(document, bool) or not isinstance(document, int):
        raise _misfit("a whole number", document)
    return document


def _encode_float(value: Any) -> Json:
    number = float(value)
    return number if math.isfinite(number) else str(number)


def _decode_float(document: Json) -> float:
    if isinstance(document, str) and document in _NON_FINITE:
        return _NON_FINITE[document]
    if isinstance(document, bool) or not isinstance(document, int | float):
        raise _misfit("a number", document)
    return float(document)


def _encode_str(value: Any) -> Json:
    if not isinstance(value, str):
        raise TypeError(f"text is due, not {value!r}")
    return str(value)


def _decode_str(document: Json) -> str:
    if not isinstance(document, str):
        raise _misfit("text", document)
    return document


_NUMBERS = {(int, ...), (float, ...)}

_SCALARS = {
    bool: _Codec(_encode_bool, _decode_bool),
    int: _Codec(operator.index, _decode_int),
    float: _Codec(_encode_float, _decode_float),
    str: _Codec(_encode_str, _decode_str),
}
