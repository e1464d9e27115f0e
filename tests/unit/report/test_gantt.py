import pytest

from rephaze.errors import FileError
from rephaze.report.gantt import gantt_figure, write_gantt_html
from rephaze.schedule.solve import solve_problem
from rephaze.types.latency import Engine
from rephaze.types.schedule import ScheduleOp, ScheduleProblem


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
    bars = {
        name: (base, length)
        for bar in figure.data
        for name, base, length in zip(bar.y, bar.base, bar.x, strict=True)
    }
    assert bars == {"&lt;b&gt;mm&lt;/b&gt;": (0, 4), "add": (4, 5)}
    assert "9 cycles (optimal" in figure.layout.title.text


def test_the_page_holds_everything_once(solved, tmp_path):
    path = tmp_path / "two.html"
    write_gantt_html(path, [("one", *solved), ("two", *solved)])
    page = path.read_text()
    assert page.count("Plotly.newPlot(") >= 2
    assert "<script src=" not in page
    assert page.count("plotly.js v") == 1


def test_a_path_that_cannot_be_written_is_a_user_error(solved, tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(FileError, match="cannot be written"):
        write_gantt_html(tmp_path / "file" / "x.html", [("one", *solved)])
