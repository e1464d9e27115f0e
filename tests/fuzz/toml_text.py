"""Plain data as TOML, sound or not: enough of the format to write what the fuzzer made of a file."""

import json
from typing import Any


def toml_text(data: dict[str, Any]) -> str:
    """One line a key; tables are written inline. What TOML lacks (null) is left for the reader to refuse."""
    return "\n".join(f"{_key(key)} = {_value(value)}" for key, value in data.items()) + "\n"


def _key(key: str) -> str:
    return json.dumps(key)


def _value(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, dict):
        return "{" + ", ".join(f"{_key(key)} = {_value(inner)}" for key, inner in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(_value, value)) + "]"
    if isinstance(value, str):
        return json.dumps(value).replace("\\/", "/").replace("\\u007f", "\\u007F")
    if value is None:
        return "null"
    return repr(value)
