from __future__ import annotations
from rephaze.workload.affine import AffineTrace
from rephaze.workload.layout import Layout
def lay_out(trace: AffineTrace) -> Layout:
    return Layout()
