"""Numbers as a person reads them: three digits and a unit."""

from __future__ import annotations

_DECIMAL = ("", "k", "M", "G", "T", "P", "E")
_BINARY = ("B", "KiB", "MiB", "GiB", "TiB", "PiB")


def amount(value: float, unit: str = "") -> str:
    """``1.23 G`` and the like, in steps of a thousand; zero is a dash."""
    return _scaled(value, 1000.0, tuple(prefix + unit for prefix in _DECIMAL))


def byte_amount(value: float) -> str:
    """``1.23 GiB`` and the like, in steps of 1,024; zero is a dash."""
    return _scaled(value, 1024.0, _BINARY)


def _scaled(value: float, step: float, units: tuple[str, ...]) -> str:
    if value == 0:
        return "-"
    exponent = 0
    while abs(value) >= step and exponent < len(units) - 1:
        value /= step
        exponent += 1
    unit = units[exponent]
    digits = (
        0 if abs(value) >= 100 or (float(value).is_integer() and not unit.strip("B")) else 2 - (abs(value) >= 10)
    )
    return f"{value:.{digits}f} {unit}".rstrip()
