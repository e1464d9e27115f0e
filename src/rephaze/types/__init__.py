"""Records that cross rooms: frozen dataclasses and enums, no behaviour beyond checks."""
