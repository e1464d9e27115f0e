"""Ways to break an input: its structure, its values, its text, its bytes.

Those of structure and values that leave nothing to be understood are marked: no command may answer them.
"""

import copy
import math
import random
import re
from dataclasses import dataclass
from typing import Any

ESCAPES = (
    "\x1b]0;T\x07",
    "\x1b[31mred",
    "[/x]",
    "[bold]",
    "a\rb",
    "a\nb",
    "‮abc",
    "\x9b31m",
    "<script>",
    ":smile:",
    "\x00",
    "\udcff",
)
DIGITS = ("9" * 5000, "\u00b2", "\uff11\uff12", "\u0663", "1_0")
"""What ``str.isdigit`` takes for a number, or ``int`` does, though nobody writes one so."""
WORDS = ("", "x", "nope", "NaN", "true", "1", *ESCAPES, *DIGITS, "ä" * 300, "x" * 2000)
NUMBERS = (
    math.nan, math.inf, -math.inf, 0, -1, 1, 2, 3, 7, 2**16, 10**9, 2**31, 2**53, 2**62, 2**63, -(2**63), 10**30,
    10**400, 0.5, -0.5, 1e-320, 1e-9, 1e18, 1e24, 1e100, 1e308, -1e308, 0.1, 1.0000001,
)  # fmt: skip
FREE_TEXT = {"name", "target", "module", "title", "storage", "function", "base", "scenario", "models", "dtype"}
"""Fields whose text may be anything, or is looked up where the fuzzer cannot know."""
SEVERAL_KINDS = {"recompute", "precision", "num_microbatches", "clock_hz"}
"""Fields that take values of several kinds."""
FREE_KEYS = {"made_by"}
"""Objects that may have any key."""


@dataclass(frozen=True, slots=True)
class Mutant:
    """What became of an input, how, and whether only a refusal is right."""

    content: Any
    how: str
    is_nonsense: bool = False


def mutate(rng: random.Random, data: Any) -> Mutant:
    """One change to plain data."""
    changed = copy.deepcopy(data)
    places = list(_places(changed, ()))
    way = rng.choice(
        (
            "kind",
            "kind",
            "number",
            "number",
            "number",
            "word",
            "word",
            "drop",
            "extra",
            "typo",
            "repeat",
            "empty",
            "deep",
            "grow",
            "swap",
        )
    )
    return _WAYS[way](rng, changed, places)


def break_bytes(rng: random.Random, content: bytes) -> tuple[bytes, str]:
    """One change to bytes."""
    if not content:
        return b"\xff", "one byte"
    at = rng.randrange(len(content))
    way = rng.choice(("flip", "cut", "insert", "double", "zero", "head", "token", "token", "key"))
    if way in ("token", "key"):
        return _break_text(rng, content, way)
    if way == "flip":
        return content[:at] + bytes([content[at] ^ (1 << rng.randrange(8))]) + content[at + 1 :], f"bit at {at}"
    if way == "cut":
        return content[:at], f"cut at {at}"
    if way == "insert":
        extra = rng.choice(
            (b"\x00", b"\xff\xfe", b"\r", b"\n", b'"', b"[" * 1500, b"9" * 5000, b"x" * 140_000, b"\xc2", b",")
        )
        return content[:at] + extra + content[at:], f"{extra[:4]!r} at {at}"
    if way == "double":
        return content + content, "doubled"
    if way == "zero":
        return content[:at] + bytes(min(64, len(content) - at)) + content[at + 64 :], f"zeros at {at}"
    return b"\xef\xbb\xbf" + content, "byte order mark"


TOKENS = (
    b"NaN", b"Infinity", b"-Infinity", b"nan", b"inf", b"1e999", b"-1", b"-0", b"+1", b"01", b"0x1F", b"1_000",
    b"true", b"null", b'""', b"[]", b"{}", b"9" * 5000, b"2020-01-01", b"0.1e-400", b"99999999999999999999",
    b"\x1b[31m",
)  # fmt: skip
"""Of JSON, TOML, CSV, or nearly so."""


def _break_text(rng: random.Random, content: bytes, way: str) -> tuple[bytes, str]:
    """Another word or number in the place of one, or a field given twice."""
    pattern = rb"[A-Za-z_0-9.+-]+" if way == "token" else rb'"\w+": ?("[^"]*"|[0-9.e+-]+), |\w+ = [^\n]+\n'
    found = list(re.finditer(pattern, content[:100_000]))
    if not found:
        return content + b",", "a comma more"
    at = rng.choice(found)
    if way == "key":
        return content[: at.start()] + at.group() + content[at.start() :], f"{at.group()[:20]!r} twice"
    token = rng.choice(TOKENS)
    return content[: at.start()] + token + content[at.end() :], f"{token[:20]!r} at {at.start()}"


def _places(data: Any, path: tuple[Any, ...]) -> Any:
    if isinstance(data, dict):
        for key, value in data.items():
            yield (*path, key)
            yield from _places(value, (*path, key))
    elif isinstance(data, list):
        for at, value in enumerate(data):
            yield (*path, at)
            yield from _places(value, (*path, at))


def _parent(data: Any, path: tuple[Any, ...]) -> Any:
    for step in path[:-1]:
        data = data[step]
    return data


def _field(path: tuple[Any, ...]) -> str:
    return next((step for step in reversed(path) if isinstance(step, str)), "")


def _shown(path: tuple[Any, ...]) -> str:
    return ".".join(map(str, path))


def _other_kind(rng: random.Random, value: Any) -> Any:
    """A value that no field that takes this one can take."""
    if isinstance(value, bool):
        return rng.choice(("true", 1, [True], {"a": 1}))
    if isinstance(value, int | float):
        return rng.choice(("7", "text", True, [[1]], {"a": 1}, "\x1b[31m"))
    if isinstance(value, str):
        return rng.choice((7, True, 0.5, ["a"], {"a": 1}))
    if isinstance(value, list):
        return rng.choice((7, "text", True))
    return rng.choice((7, "text", True, [1]))


def _kind(rng: random.Random, data: Any, places: list[Any]) -> Mutant:
    path = rng.choice(places)
    parent, field = _parent(data, path), _field(path)
    before = parent[path[-1]]
    if before is None:
        return _number(rng, data, places)
    parent[path[-1]] = _other_kind(rng, before)
    understood = field in SEVERAL_KINDS or any(step in FREE_KEYS for step in path)
    # A size in a graph is a number, or [const, per_sample].
    understood |= _is_size(before) and type(parent[path[-1]]) is int
    # Values to choose from are a range, or a list.
    understood |= isinstance(before, dict) and "from" in before and parent[path[-1]] == [1]
    return Mutant(data, f"{_shown(path)} = {parent[path[-1]]!r}", not understood)


def _is_size(value: Any) -> bool:
    return isinstance(value, list) and len(value) == 2 and all(type(one) is int for one in value)


def is_absurd(number: float) -> bool:
    """What no field of numbers takes: all are counts, sizes, times, rates or shares."""
    return not 0 <= number < 1e100


def _number(rng: random.Random, data: Any, places: list[Any]) -> Mutant:
    numeric = [p for p in places if type(_parent(data, p)[p[-1]]) in (int, float)]
    path = rng.choice(numeric or places)
    parent = _parent(data, path)
    parent[path[-1]] = rng.choice(NUMBERS)
    absurd = is_absurd(parent[path[-1]]) and bool(numeric)
    # A size of [-1, 4096] is one less than 4,096 a sample: sound, as long as no microbatch makes it negative.
    absurd &= not (_is_size(parent) and path[-1] == 0 and sum(parent) >= 0)
    return Mutant(data, f"{_shown(path)} = {str(parent[path[-1]])[:20]}", absurd)


def _word(rng: random.Random, data: Any, places: list[Any]) -> Mutant:
    texts = [p for p in places if isinstance(_parent(data, p)[p[-1]], str)]
    if not texts:
        return _kind(rng, data, places)
    path = rng.choice(texts)
    _parent(data, path)[path[-1]] = word = rng.choice(WORDS)
    return Mutant(data, f"{_shown(path)} = {word[:20]!r}")


def _objects(data: Any, places: list[Any]) -> list[tuple[Any, ...]]:
    inner = [p for p in places if isinstance(_parent(data, p)[p[-1]], dict)]
    return [p for p in inner if p[-1] not in FREE_KEYS]


def _object(rng: random.Random, data: Any, places: list[Any]) -> tuple[str, Any]:
    path = rng.choice([(), *_objects(data, places)])
    found = data
    for step in path:
        found = found[step]
    return _shown(path), found


def _drop(rng: random.Random, data: Any, places: list[Any]) -> Mutant:
    path = rng.choice(places)
    del _parent(data, path)[path[-1]]
    return Mutant(data, f"without {_shown(path)}")


def _extra(rng: random.Random, data: Any, places: list[Any]) -> Mutant:
    where, found = _object(rng, data, places)
    key = rng.choice(
        ("levelss", "x", "num_devicez", "\x1b]0;T\x07", "[/x]", "bytes_per_z", "__class__", "k" * 600)
    )
    found[key] = rng.choice((1, "x", [], {}, None))
    return Mutant(data, f"{where}.{key[:20]!r} added", True)


def _typo(rng: random.Random, data: Any, places: list[Any]) -> Mutant:
    keyed = [p for p in places if isinstance(p[-1], str) and not any(step in FREE_KEYS for step in p)]
    path = rng.choice(keyed)
    parent = _parent(data, path)
    parent[f"{path[-1]}{rng.choice('sx_')}"] = parent.pop(path[-1])
    return Mutant(data, f"{_shown(path)} misspelt", True)


def _repeat(rng: random.Random, data: Any, places: list[Any]) -> Mutant:
    lists = [p for p in places if isinstance(_parent(data, p)[p[-1]], list) and _parent(data, p)[p[-1]]]
    if not lists:
        return _kind(rng, data, places)
    path = rng.choice(lists)
    found = _parent(data, path)[path[-1]]
    found += [copy.deepcopy(rng.choice(found)) for _ in range(rng.choice((1, 1, 2, 200)))]
    return Mutant(data, f"{_shown(path)} repeats")


def _empty(rng: random.Random, data: Any, places: list[Any]) -> Mutant:
    path = rng.choice(places)
    parent = _parent(data, path)
    parent[path[-1]] = rng.choice(([], {}, "", None, 0))
    return Mutant(data, f"{_shown(path)} empty")


def _deep(rng: random.Random, data: Any, places: list[Any]) -> Mutant:
    path = rng.choice(places)
    inner: Any = 1
    for _ in range(rng.choice((5, 70, 150))):
        inner = [inner] if rng.random() < 0.5 else {"a": inner}
    _parent(data, path)[path[-1]] = inner
    return Mutant(data, f"{_shown(path)} deep", not any(step in FREE_KEYS for step in path))


def _grow(rng: random.Random, data: Any, places: list[Any]) -> Mutant:
    lists = [p for p in places if isinstance(_parent(data, p)[p[-1]], list)]
    if not lists:
        return _kind(rng, data, places)
    path = rng.choice(lists)
    found = _parent(data, path)[path[-1]]
    if found and all(type(item) is int for item in found):
        found[:] = range(1, rng.choice((65, 3002, 100_000)))
    else:
        found += [copy.deepcopy(item) for item in found] * rng.choice((2, 50))
    return Mutant(data, f"{_shown(path)} grown to {len(found)}")


def _swap(rng: random.Random, data: Any, places: list[Any]) -> Mutant:
    one, other = rng.choice(places), rng.choice(places)
    value = copy.deepcopy(_parent(data, other)[other[-1]])
    _parent(data, one)[one[-1]] = value
    return Mutant(data, f"{_shown(one)} from {_shown(other)}")


_WAYS = {
    "kind": _kind,
    "number": _number,
    "word": _word,
    "drop": _drop,
    "extra": _extra,
    "typo": _typo,
    "repeat": _repeat,
    "empty": _empty,
    "deep": _deep,
    "grow": _grow,
    "swap": _swap,
}
