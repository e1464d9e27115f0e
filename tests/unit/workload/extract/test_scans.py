"""Recurrences as one operator: shapes, gradients, and the products of the loop they stand for."""

import pytest

from rephaze.workload.extract.scans import scan, selective_scan

torch = pytest.importorskip("torch")


def test_a_scan_has_a_gradient_for_gate_and_update():
    gate, update = (torch.empty(2, 8, 3, device="meta", requires_grad=True) for _ in range(2))
    states = scan(gate, update, 1)
    assert states.shape == (2, 8, 3)
    states.sum().backward()
    assert gate.grad.shape == update.grad.shape == (2, 8, 3)


def test_a_selective_scan_does_the_products_of_the_loop():
    from torch.utils.flop_counter import FlopCounterMode

    batch, width, length, states = 2, 6, 10, 4
    hidden, step = (torch.empty(batch, width, length, device="meta", requires_grad=True) for _ in range(2))
    decay = torch.empty(width, states, device="meta", requires_grad=True)
    into, out_of = (torch.empty(batch, states, length, device="meta", requires_grad=True) for _ in range(2))
    counter = FlopCounterMode(display=False)
    with counter:
        made = selective_scan(hidden, step, decay, into, out_of, delta_softplus=True)
    assert made.shape == (batch, width, length)
    # One product of (width, states) by states for each token.
    assert counter.get_total_flops() == 2 * batch * length * width * states
    made.sum().backward()
    assert decay.grad.shape == decay.shape
