"""What only the digests protect: it cannot be derived from anything else, and why that is so."""

from tests.tampering.ways import CHANGED, DROPPED, ROW, SWAPPED, Tampering

EXCUSES = {
    ("closed_boxes", "id"): "no number: boxes are a set",
    ("open_boxes", "id"): "no number: boxes are a set",
    ("incumbents", "id"): "no number: only the order is read, and that is checked",
    ("sessions", "id"): "no number: only the order is read, and that is checked",
    ("sessions", "pid"): "read by nobody",
    ("incumbents", "elapsed_s"): "a clock cannot be derived; checked to rise and to end before the answer",
    ("incumbents", "bound"): "what was known at a moment; checked to fall, and to be no less than the answer",
    ("sessions", "started_at"): "a clock cannot be derived; checked to rise, the first against the run",
    ("sessions", "elapsed_s"): "a clock cannot be derived; checked to rise, the answer's against the answer",
    ("sessions", "versions"): "of a later session the libraries in use, read by nobody",
    ("known_chips", ROW): "which chips were measured beside the search is nobody's claim",
    ("known_chips", "answer"): "a chip that is given; what is derived from it is checked",
    ("closed_boxes", "bound"): "any bound below the answer closes a box; a sample is bounded again",
    ("open_boxes", "bound"): "any bound up to that of the answer; a sample is solved",
    ("open_boxes", "ranges"): "which of two open boxes has which bound",
    ("open_boxes", "bounded_by"): "the name of a bound that closed nothing, read by nobody",
    ("bounds", "bound"): "of a design left open, what was known; at most what its device time allows",
}
"""By table and column; all else must be caught though the chain of digests is recomputed."""

ONLY = {
    ("known_chips", ROW): (DROPPED,),
    ("incumbents", "elapsed_s"): (CHANGED, SWAPPED),
    ("incumbents", "bound"): (CHANGED, SWAPPED),
    ("sessions", "started_at"): (CHANGED,),
    ("sessions", "elapsed_s"): (CHANGED,),
    ("sessions", "versions"): (CHANGED,),
    ("closed_boxes", "bound"): (CHANGED, SWAPPED),
    ("open_boxes", "bound"): (CHANGED, SWAPPED),
    ("open_boxes", "ranges"): (SWAPPED,),
    ("open_boxes", "bounded_by"): (SWAPPED,),
    ("bounds", "bound"): (CHANGED, SWAPPED),
}
"""Ways that are excused where not all are."""


def excuse(way: Tampering) -> str:
    """Why a change is told by the digests alone; empty if it must be told without them."""
    place = (way.table, way.column)
    if way.way not in ONLY.get(place, (way.way,)):
        return ""
    if place == ("known_chips", "answer") and not way.leaf.startswith("chip."):
        return ""
    if place == ("sessions", "versions") and way.leaf.startswith(("estimator", "input_digests")):
        return ""
    return EXCUSES.get(place, "")
