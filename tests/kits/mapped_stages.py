"""The bounds of one unit from mapped products, as a search takes it through them."""

import numpy as np

from rephaze.measure.pass_times import LayerSeconds


def mapped_stages(solver, work, unit, memory, bounds):
    """Batch times no plan of a unit beats: in closed form, and by the placement program.

    Args:
        solver: Of the chip.
        work: The model.
        unit: Of the model.
        memory: What plans must fit.
        bounds: Of the model on this chip alone.
    """
    k, found = _mapped(solver, work, unit, memory, bounds)
    mapped_s = float(found.batch_s_uc[work.units.index(unit), 0])
    return mapped_s, solver.placed_bound_s(work, unit, memory, _seconds(found, k))


def mapped_seconds(solver, work, unit, memory, bounds):
    """What the passes of a unit take at least, from mapped products; arguments as ``mapped_stages``."""
    k, found = _mapped(solver, work, unit, memory, bounds)
    return _seconds(found, k)


def _mapped(solver, work, unit, memory, bounds):
    finer = solver.finer_bounds(work, memory, bounds)
    k = work.class_of[unit.cut, unit.microbatch]
    finer.map_class(k, np.array([0]))
    return k, finer.bounds


def _seconds(found, k):
    return LayerSeconds(found.forward_s_kct[k, 0], found.backward_s_kct[k, 0], found.input_s_kct[k, 0])


def mapped_layers(solver, work, memory, bounds):
    """The bounds of one chip with all classes of passes mapped.

    Args:
        solver: Of the chip.
        work: The model.
        memory: What plans must fit.
        bounds: Of the model on this chip alone.
    """
    finer = solver.finer_bounds(work, memory, bounds)
    for k in range(len(work.classes)):
        finer.map_class(k, np.array([0]))
    return finer.bounds
