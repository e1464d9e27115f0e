"""Text that enters: JSON and TOML files to plain data, the first thing wrong with it to one line."""

from __future__ import annotations

import gzip
import json
import tomllib
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from rephaze.errors import FileError, SpecError
from rephaze.types.checks import under

if TYPE_CHECKING:
    from pydantic import BaseModel

    ModelT = TypeVar("ModelT", bound=BaseModel)


def read_text(path: Path) -> str:
    """The text of a file, gunzipped if it ends in ``.gz``; ``FileError`` if it cannot be read."""
    try:
        raw = path.read_bytes()
        return (gzip.decompress(raw) if path.suffix == ".gz" else raw).decode("utf-8")
    except FileNotFoundError:
        raise FileError(f"{path}: no such file") from None
    except (OSError, EOFError, UnicodeDecodeError) as error:
        raise FileError(f"{path}: cannot be read as text ({_one_line(error)})") from None


def parse_json(text: str, source: str) -> dict[str, Any]:
    """The JSON object in ``text``; refuses NaN, infinities, repeated keys and anything but an object."""
    try:
        data = json.loads(text, parse_constant=_refuse_constant, object_pairs_hook=_unique_keys)
    except (ValueError, RecursionError) as error:
        raise FileError(f"{source}: not valid JSON ({_one_line(error)})") from None
    if not isinstance(data, dict):
        raise FileError(f"{source}: must hold a JSON object, holds {type(data).__name__}")
    return data


def read_mapping(path: Path) -> dict[str, Any]:
    """The object in a ``.json``, ``.json.gz`` or ``.toml`` file."""
    text = read_text(path)
    if path.suffix != ".toml":
        return parse_json(text, str(path))
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise FileError(f"{path}: not valid TOML ({_one_line(error)})") from None


def check_format(data: dict[str, Any], expected: str, source: str) -> None:
    """Raise unless ``data["format"]`` is ``expected``, for example ``rephaze.graph/1``."""
    found = data.get("format")
    if found != expected:
        raise SpecError(f"{source}: format", found, f"must be {expected!r}", "was it made by another version?")


def validate(model: type[ModelT], data: Any, source: str = "") -> ModelT:
    """``data`` as ``model``, or one ``SpecError`` naming the first offending field.

    Args:
        model: A pydantic model; forbid extra fields in its config to have unknown ones refused by name.
        data: What a file held.
        source: Shown before the field, usually the file's name.
    """
    from pydantic import ValidationError

    from rephaze.types.findings import first_finding

    try:
        return model.model_validate(data)
    except ValidationError as error:
        with under(f"{source}: " if source else ""):
            raise first_finding(error, model) from None


def _refuse_constant(text: str) -> Any:
    raise ValueError(f"{text} is not a JSON number")


def _unique_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        keys = [key for key, _ in pairs]
        raise ValueError(f"key {next(k for k in keys if keys.count(k) > 1)!r} is given twice")
    return found


def _one_line(error: BaseException) -> str:
    return " ".join(str(error).split())
