"""One pass on one compute unit and one link, worked out by hand."""

from rephaze.place.full.pass_replay import replay_pass


def test_weights_come_one_layer_ahead():
    # Weights of the second layer are on the link from 1 to 3, while the first computes from 1 to 4.
    end = replay_pass([3.0, 3.0], [1.0, 2.0])
    assert (end.compute_s, end.link_s) == (7.0, 3.0)


def test_a_layer_waits_for_weights_that_take_longer_than_the_one_before():
    end = replay_pass([3.0, 3.0], [1.0, 5.0])
    assert (end.compute_s, end.link_s) == (9.0, 6.0)


def test_gradients_wait_for_the_weights_asked_for_before_them():
    # The first layer's gradients, ready at 4, are on the link from 6 to 8; the second's from 9 to 11.
    end = replay_pass([3.0, 3.0], [1.0, 5.0], [2.0, 2.0])
    assert (end.compute_s, end.link_s) == (9.0, 11.0)


def test_gradients_hold_up_the_weights_of_the_layer_after_next():
    # Layer 1 computes 0..1, layer 2 1..2; gradients of layer 1 on the link 1..11, so weights of layer 3 11..12.
    end = replay_pass([1.0, 1.0, 1.0], [0.0, 0.0, 1.0], [10.0, 0.0, 0.0])
    assert (end.compute_s, end.link_s) == (13.0, 13.0)
