import re

import pytest

from rephaze.errors import FileError
from rephaze.report.gantt import gantt_figure, write_gantt_html
from rephaze.schedule.solve import solve_problem
from rephaze.types.latency import Engine
from rephaze.types.schedule import (
    Mode,
    Schedule,
    ScheduledOp,
    ScheduleOp,
    ScheduleProblem,
    ScheduleStatus,
    Way,
)


@pytest.fixture
def solved():
    problem = ScheduleProblem(
        num_tensor_cores=1,
        num_vector_cores=1,
        ops=(
            ScheduleOp(name="view", engine=Engine.NONE, one_core_cycles=0, all_cores_cycles=0),
            ScheduleOp(name="<b>mm</b>", engine=Engine.TENSOR, one_core_cycles=9, all_cores_cycles=4),
            ScheduleOp(name="add", engine=Engine.VECTOR, one_core_cycles=5, all_cores_cycles=5),
        ),
        edges=((0, 1), (1, 2)),
    )
    return problem, solve_problem(problem)


def test_every_timed_op_has_one_bar_at_its_start(solved):
    figure = gantt_figure("block", *solved)
    bars = {row[0]: (row[3], row[4]) for row in figure.rows}
    assert bars == {"<b>mm</b>": (0, 4), "add": (4, 5)}
    assert "9 cycles (optimal" in figure.title
    # Of thousandths of the schedule.
    assert re.findall(r'<rect class="f[^>]* x="([^"]*)" y="[^"]*" width="([^"]*)"', figure.svg) == [
        ("0", "444.44"),
        ("444.44", "555.56"),
    ]
    assert "<b>" not in figure.svg


def test_an_op_that_runs_a_further_way_is_as_long_as_that_way():
    slow = Way(mode=Mode.ALL_CORES, cycles=7)
    op = ScheduleOp(name="mm", engine=Engine.TENSOR, one_core_cycles=9, all_cores_cycles=4, further=(slow,))
    problem = ScheduleProblem(num_tensor_cores=1, num_vector_cores=1, ops=(op,), edges=())
    start = ScheduledOp(op="mm", start_cycles=0, mode=Mode.ALL_CORES, further=0)
    schedule = Schedule(
        status=ScheduleStatus.FEASIBLE, makespan_cycles=7, bound_cycles=4, starts=(start,), solve_s=0.0
    )
    assert gantt_figure("block", problem, schedule).rows[0][4] == 7


def test_the_page_holds_everything_once(solved, tmp_path):
    path = tmp_path / "two.html"
    write_gantt_html(path, [("one", *solved), ("two", *solved)])
    page = path.read_text()
    assert page.count("<figure") == 2
    assert "<script src=" not in page
    assert page.count("use strict") == 1


def test_a_path_that_cannot_be_written_is_a_user_error(solved, tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(FileError, match="cannot be written"):
        write_gantt_html(tmp_path / "file" / "x.html", [("one", *solved)])
