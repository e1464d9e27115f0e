"""Text that enters: JSON and TOML files to plain data, the first thing wrong with it to one line."""

from __future__ import annotations

import json
import tomllib
import zlib
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from rephaze.errors import FileError, SpecError
from rephaze.types.checks import under
from rephaze.types.plain_data import check_plain
from rephaze.units import MIB

if TYPE_CHECKING:
    from pydantic import BaseModel

    ModelT = TypeVar("ModelT", bound=BaseModel)


MAX_SHOWN_CHARS = 200
"""Of a name or a reason in a message."""
MAX_FILE_BYTES = 64 * MIB
"""Of a file of any kind, as it is and unpacked."""
MAX_TOML_BYTES = MIB
"""TOML is written by hand."""
_GZIP = 16 + zlib.MAX_WBITS


def read_text(path: Path, max_bytes: int = MAX_FILE_BYTES) -> str:
    """The text of a file, unpacked if it ends in ``.gz``; ``FileError`` if it cannot be read or is too large."""
    name = str(path) if len(str(path)) <= MAX_SHOWN_CHARS else f"...{str(path)[-MAX_SHOWN_CHARS:]}"
    try:
        with path.open("rb") as file:
            raw = file.read(max_bytes + 1)
        if len(raw) <= max_bytes and path.suffix == ".gz":
            raw = _unpacked(raw, max_bytes)
        if len(raw) > max_bytes:
            raise FileError(f"{name}: has over {max_bytes / MIB:g} MiB, the most that is read")
        return raw.decode("utf-8")
    except FileNotFoundError:
        raise FileError(f"{name}: no such file") from None
    except (OSError, EOFError, zlib.error) as error:
        said = error.strerror if isinstance(error, OSError) and error.strerror else _one_line(error)
        raise FileError(f"{name}: cannot be read as text ({said})") from None
    except UnicodeDecodeError as error:
        raise FileError(f"{name}: cannot be read as text ({_one_line(error)})") from None
    except ValueError as error:
        if isinstance(error, FileError):
            raise
        raise FileError(f"{name}: cannot be read as text ({_one_line(error)})") from None


def is_file(path: Path) -> bool:
    """Whether there is such a file; what cannot be a file's name is none."""
    try:
        return path.is_file()
    except (OSError, ValueError):
        return False


def parse_json(text: str, source: str, *, is_finite: bool = True) -> dict[str, Any]:
    """The JSON object in ``text``; refuses NaN, infinities, repeated keys and anything but a sound object.

    Args:
        text: Of a file.
        source: Shown first in messages.
        is_finite: Whether numbers must be finite; other programs' files may say ``Infinity`` for no limit.
    """
    try:
        data = json.loads(text, parse_constant=_constant, object_pairs_hook=_unique_keys)
    except RecursionError:
        raise FileError(f"{source}: lists and objects within each other too deep") from None
    except ValueError as error:
        raise FileError(f"{source}: not valid JSON ({_one_line(error)})") from None
    if not isinstance(data, dict):
        raise FileError(f"{source}: must hold a JSON object, holds {_NAMES.get(type(data), 'a number')}")
    check_plain(data, source, is_finite=is_finite)
    return data


def read_mapping(path: Path, *, is_finite: bool = True) -> dict[str, Any]:
    """The object in a ``.json``, ``.json.gz`` or ``.toml`` file."""
    if path.suffix != ".toml":
        return parse_json(read_text(path), str(path), is_finite=is_finite)
    try:
        data = tomllib.loads(read_text(path, MAX_TOML_BYTES))
    except RecursionError:
        raise FileError(f"{path}: lists and tables within each other too deep") from None
    except FileError:
        raise
    except ValueError as error:  # a number with too many digits is not a TOMLDecodeError
        raise FileError(f"{path}: not valid TOML ({_one_line(error)})") from None
    check_plain(data, str(path))
    return data


def _unpacked(raw: bytes, max_bytes: int) -> bytes:
    """What was packed, but not much more than ``max_bytes`` of it; a file may be of several parts."""
    found = b""
    while raw and len(found) <= max_bytes:
        part = zlib.decompressobj(wbits=_GZIP)
        found += part.decompress(raw, max_bytes + 1 - len(found))
        if not part.eof and len(found) <= max_bytes:
            raise EOFError("it ends before its end marker")
        raw = part.unused_data.lstrip(b"\0")
    return found


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


def _constant(text: str) -> float:
    """NaN and infinities, which JSON has not but its writers write: refused later, where their field is known."""
    return float(text)


def _unique_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key, value in pairs:
        if key in found:
            raise ValueError(f"key {key[:MAX_SHOWN_CHARS]!r} is given twice")
        found[key] = value
    return found


def _one_line(error: BaseException) -> str:
    said = " ".join(str(error).split())
    if "integer string conversion" in said:  # Python's own limit, told in its own terms
        return "a whole number has thousands of digits; 63 bits, about 9.2e18, are the most"
    return said if len(said) <= MAX_SHOWN_CHARS else said[:MAX_SHOWN_CHARS] + "..."


_NAMES = {list: "a list", str: "a text", bool: "true or false", type(None): "null"}
