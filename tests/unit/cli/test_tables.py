from rich.console import Console

from rephaze.api.present import TextTable
from rephaze.cli.output import ExitCode, exit_code_of, one_by_one
from rephaze.cli.tables import bare_table, filled


def drawn(table):
    console = Console(width=80)
    with console.capture() as text:
        console.print(table)
    return [line.rstrip() for line in text.get().splitlines()]


def test_a_filled_table_shows_cells_as_they_are():
    content = TextTable(headings=("name", "ms"), rows=(("[bold]x[/]", "1.5"),), left=frozenset({"name"}))
    assert drawn(filled(bare_table(), content)) == ["name         ms", "[bold]x[/]  1.5"]


def test_headings_may_be_shown_otherwise():
    content = TextTable(headings=("batch ms",), rows=(("1",),))
    assert drawn(filled(bare_table(), content, shown={"batch ms": "batch\nms"})) == ["batch", "   ms", "    1"]


def test_the_worst_of_several_answers_decides_the_exit_code():
    assert exit_code_of([]) == ExitCode.FOUND
    assert exit_code_of(["optimal", "feasible"]) == ExitCode.FOUND
    assert exit_code_of(["optimal", "cutoff"]) == ExitCode.UNKNOWN
    assert exit_code_of(["cutoff", "infeasible"]) == ExitCode.INFEASIBLE
    assert exit_code_of(["infeasible", "error", "optimal"]) == ExitCode.ERROR


def test_answers_are_worked_out_one_at_a_time():
    order = []

    def answers():
        for number in range(2):
            order.append(f"solved {number}")
            yield number

    for number in one_by_one(answers(), "solving", quiet=True):
        order += [f"shown {number}"]
    assert order == ["solved 0", "shown 0", "solved 1", "shown 1"]
