import math
from dataclasses import replace

import numpy as np
import pytest

from rephaze.report.search_plots import designs_figure, dropped_designs, progress_figure, stages_figure
from rephaze.types.run_record import NOT_REMOVED, BoundTable, Incumbent


def traces(figure):
    return {trace.name: (list(trace.x), list(trace.y)) for trace in figure.data}


def test_designs_stand_at_their_area_and_objective_or_bound(make_records):
    records = make_records()
    found = traces(designs_figure(records.explored, records.result, "samples/s", records.marked))
    assert found["solved exactly"] == ([225.0], [200.0])
    assert found["winner"] == ([250.0], [300.0])
    assert found["dropped, at its bound"] == ([275.0], [250.0])
    assert found["known chips"] == ([300.0], [150.0])  # the one too large for the picture is left out


def test_recorded_bounds_are_drawn_too_but_for_evaluated_designs(make_records):
    bounds = BoundTable(
        model=None,
        names=("device time",),
        design_c=np.array([0, 2, 3]),
        bound_c=np.array([260.0, 999.0, 999.0]),
        removed_by_c=np.array([0, NOT_REMOVED, 0], dtype=np.int16),
    )
    assert dropped_designs(replace(make_records().explored, bounds=bounds)) == [(0, 260.0), (3, 250.0)]


def test_names_in_figures_are_text(make_records):
    records = make_records("<b>&x</b>")
    plot = designs_figure(records.explored, records.result, "samples/s", records.marked)
    known = next(trace for trace in plot.data if trace.name == "known chips")
    assert list(known.text) == ["&lt;b&gt;&amp;x&lt;/b&gt;"]
    stages = stages_figure(records.result.plans[0])
    assert "<" not in "".join(text for bar in stages.data for text in bar.customdata)


def test_stages_show_milliseconds_and_gibibytes_below_the_memory_line(make_records):
    plan = make_records().result.plans[0]
    figure = stages_figure(plan)
    assert [list(bar.y) for bar in figure.data] == [[pytest.approx(12.5)] * 2, [3.0, 3.0]]
    assert figure.layout.shapes[0].y0 == 32
    assert figure.layout.yaxis2.range[1] > 32


def test_time_runs_on_over_sessions(make_records):
    result = make_records().result
    steps = [
        Incumbent(elapsed_s=2.0, objective=1.0, bound=math.inf, design=0),
        Incumbent(elapsed_s=8.0, objective=2.0, bound=9.0, design=1),
        Incumbent(elapsed_s=3.0, objective=3.0, bound=8.0, design=2),
    ]
    found = traces(progress_figure(steps, replace(result, search_s=5.0), "samples/s"))
    assert found["best found"] == ([2.0, 8.0, 11.0, 13.0], [1.0, 2.0, 3.0, 300.0])
    assert found["bound"] == ([8.0, 11.0, 13.0], [9.0, 8.0, 300.0])
