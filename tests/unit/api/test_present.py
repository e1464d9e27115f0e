"""Results as text and as HTML, without a terminal library."""

from rephaze.api.present import MAX_ROWS, Shown, TextTable, html_of, text_of

EVIL = '<script>alert("x")</script>'
TABLE = TextTable(headings=("model", "ms"), rows=(("a", "1,000.5"), ("longer", "2")), left=frozenset({"model"}))


def test_words_stand_left_and_numbers_right():
    assert text_of(["all of it", TABLE]).splitlines() == [
        "all of it",
        "model        ms",
        "a       1,000.5",
        "longer        2",
    ]


def test_names_users_give_cannot_become_markup():
    table = TextTable(headings=(EVIL, "b"), rows=((EVIL, EVIL),), title=EVIL)
    page = html_of([EVIL, EVIL, table])
    assert "<script" not in page
    assert page.count("&lt;script&gt;alert(&quot;x&quot;)") == 6


def test_what_a_terminal_would_obey_is_replaced():
    shown = text_of(["a\x1b[2Jb", TextTable(headings=("x",), rows=(("c\nd",),))])
    assert "\x1b" not in shown
    assert shown.splitlines() == ["a\N{REPLACEMENT CHARACTER}[2Jb", "  x", "c\N{REPLACEMENT CHARACTER}d"]


def test_long_tables_lose_their_middle_and_say_so():
    rows = tuple((str(k), "x") for k in range(MAX_ROWS + 7))
    table = TextTable(headings=("k", "v"), rows=rows)
    lines = [line.split() for line in text_of([table]).splitlines()]
    half = MAX_ROWS // 2
    assert lines[half] == [str(half - 1), "x"]
    assert lines[half + 1] == ["(7", "more)"]
    assert lines[half + 2] == [str(half + 7), "x"]
    assert len(lines) == 1 + MAX_ROWS + 1
    assert html_of([table]).count("<tr>") == 1 + MAX_ROWS + 1


def test_a_result_draws_itself_everywhere():
    class Result(Shown):
        def blocks(self):
            return ["headline", TABLE]

    result = Result()
    assert str(result) == repr(result) == text_of(["headline", TABLE])
    assert result._repr_html_() == html_of(["headline", TABLE])
    assert result._repr_html_().startswith("<div><p><b>headline</b></p><table>")
