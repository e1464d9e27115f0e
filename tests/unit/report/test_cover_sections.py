"""What a page tells of a search by boxes: the cover in numbers, a step along each field, runners-up."""

from dataclasses import replace

import numpy as np

from rephaze.report.cover_sections import cover_body, reach_body, reach_figure
from rephaze.report.runners_up import runners_up_body
from rephaze.report.search_report import search_sections
from rephaze.types.boxes import FieldReach
from rephaze.types.search import Evaluation
from rephaze.units import MIB

CORES = FieldReach(
    field="num_tensor_cores",
    values=(2, 4, 8),
    bound=(150.0, 290.0, 300.0),
    solved=(0.0, 0.0, 300.0),
    changed=(100.0, 270.0, 300.0),
    fits=(True, True, True),
    position=2,
)
BUFFER = FieldReach(
    field="global_buffer_bytes",
    values=(16 * MIB, 32 * MIB, 48 * MIB),
    bound=(0.0, 300.0, 299.0),
    solved=(0.0, 300.0, 0.0),
    changed=(None, 300.0, 330.0),
    fits=(True, True, False),
    position=1,
)


def by_boxes(records):
    proof = replace(
        records.result.certificate,
        num_designs=1000,
        num_solved_exactly=2,
        num_infeasible=10,
        num_dropped_by_bound={"layer bounds": 900, "area limit": 80},
        num_open=8,
        num_boxes={"schedules and plans": 2, "no plan fits": 1, "layer bounds": 30, "area limit": 4, "open": 3},
    )
    return replace(records, result=replace(records.result, certificate=proof), reaches=(CORES, BUFFER))


def test_the_cover_counts_every_grid_point_once(make_records):
    body = cover_body(by_boxes(make_records()).result.certificate)
    assert "1,000 points" in body
    assert "40 boxes, each a range of values" in body
    assert "<td>closed by: layer bounds</td><td>30</td><td>900</td><td>90.00%</td>" in body
    assert "<td>left when the search stopped</td><td>3</td><td>8</td><td>0.80%</td>" in body
    assert "<td>solved exactly</td><td>2</td><td>2</td>" in body


def test_a_step_along_each_field_says_what_it_costs(make_records):
    result = by_boxes(make_records()).result
    body = reach_body((BUFFER, CORES), result)
    assert "<td>tensor cores</td><td>4: -10.00%</td><td>8</td><td>none in the space</td>" in body
    assert "<td>16: not measured</td><td>32</td><td>48: +10.00%, over a limit</td>" in body
    # What costs most comes first.
    assert body.index("<td>tensor cores") < body.index("<td>global buffer (MiB)")


def test_the_figure_has_what_is_known_of_every_value(make_records):
    result = by_boxes(make_records()).result
    figure = reach_figure((CORES, BUFFER), result)
    rows = {(row[0], row[1]): row[2:] for row in figure.rows}
    assert [round(rows["num_tensor_cores", value][0], 6) for value in (2, 4, 8)] == [50.0, 96.666667, 100.0]
    assert [round(rows["num_tensor_cores", value][1], 6) for value in (2, 4, 8)] == [33.333333, 90.0, 100.0]
    # No dot where nothing was measured; a hollow one for a chip over the limit.
    assert rows["global_buffer_bytes", 16 * MIB][1] is None
    assert figure.svg.count("<circle") == 5
    assert figure.svg.count("hollow") == 1
    # No bar where limits leave nothing.
    assert figure.svg.count("closed at") == 5


def test_a_page_of_a_search_by_boxes_tells_of_boxes(make_records):
    plain, boxed = (search_sections(one) for one in (make_records(), by_boxes(make_records())))
    titles = [section.title for section in boxed]
    assert [title for title in titles if title != "Which fields matter"] == [one.title for one in plain]
    tradeoffs = [one.body for one in (*plain, *boxed) if one.title == "Trade-offs"]
    assert ["settled in boxes" in body for body in tradeoffs] == [False, True]


def test_runners_up_are_the_designs_within_a_percent(make_records):
    records = make_records()
    explored, result = records.explored, records.result
    body = runners_up_body(explored, result, "samples/s")
    assert "No other design that was solved lies within 1 %" in body
    assert "33.3% worse" in body
    near = Evaluation(design=0, is_exact=True, objective=298.5, bound=298.5, plans=result.plans)
    body = runners_up_body(replace(explored, evaluations=(*explored.evaluations, near)), result, "samples/s")
    assert "<td>298.5</td><td>0.500%</td>" in body
    assert explored.chips.chip(0).in_words in body
    many = tuple(
        Evaluation(design=at, is_exact=True, objective=299.0, bound=299.0, plans=result.plans)
        for at in np.zeros(25, dtype=int).tolist()
    )
    body = runners_up_body(replace(explored, evaluations=many), result, "samples/s")
    assert body.count("<tr>") == 21
    assert "5 more are not shown" in body
    assert runners_up_body(explored, make_records(chip=False).result, "samples/s") == ""
