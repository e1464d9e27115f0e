"""Memory that searches of lines work in."""

from rephaze.place.full.line_search import Sizes, _desk_for


def test_labels_take_the_same_memory_whatever_the_model():
    """They are nearly all of a desk, and one search is at work at a time."""
    small = Sizes(num_layers=4, num_points=2, most_chunks=2, max_labels=64, num_items=8)
    first, other = _desk_for(small).tools.room, _desk_for(small._replace(num_layers=5)).tools.room
    assert first.label_lq is other.label_lq
    assert first.label_of_lq is other.label_of_lq
    assert len(_desk_for(small._replace(max_labels=128)).tools.room.label_lq) == 128
