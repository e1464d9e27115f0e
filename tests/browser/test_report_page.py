"""The report as a browser shows it: every figure, switches, keys, a phone, the dark, a console without a word."""

import re
import subprocess
import sys
import time

import pytest

import rephaze

FIGURES = """return Array.from(document.querySelectorAll("figure"), (figure) => {
  const above = (one) => one.parentElement.closest("[role=tabpanel]");
  for (let panel = above(figure); panel; panel = above(panel)) panel.hidden = false;
  const marks = Array.from(figure.querySelectorAll(".plot svg rect, .plot svg circle, .plot svg path"));
  const size = (box) => box.width + box.height;
  const seen = marks.filter((mark) => size(mark.getBoundingClientRect()) > 0);
  const [head, ...rows] = rephaze.csv(figure).trim().split("\\n");
  return { name: figure.dataset.name, marks: seen.length, rows: rows.length, head,
           buttons: figure.querySelectorAll("[data-act]").length };
})"""
EXPECTED = (
    *("chip", "time-ms", "time-share", "timeline", "memory", "roofline", "gantt", "throughput-area"),
    *("throughput-energy", "throughput-cost", "fields", "sensitivity", "progress"),
)
COLOURS = """const shown = getComputedStyle(arguments[0]);
  const numbers = (text) => text.match(/[\\d.]+/g).slice(0, 3).map(Number);
  let behind = arguments[0];
  while (getComputedStyle(behind).backgroundColor === "rgba(0, 0, 0, 0)") behind = behind.parentElement;
  return [numbers(shown.color), numbers(getComputedStyle(behind).backgroundColor)];"""


def test_it_opens_without_a_word_on_the_console_or_a_request(page):
    assert page.run("return document.title").startswith("The best chip for ")
    assert page.run("return performance.getEntriesByType('resource').length") == 0
    assert page.run("return Boolean(window.rephaze)")
    assert page.console() == []
    # The model that is called a script is a name.
    assert "<script>alert(1)</script>" in page.run("return document.body.innerText")
    assert page.run("return document.querySelectorAll('script:not([type])').length") == 1


def test_a_script_that_came_in_by_a_name_would_not_run(page):
    page.run(
        "const made = document.createElement('script'); made.textContent = 'window.broken = 1';"
        "document.body.append(made)"
    )
    assert page.run("return window.broken === undefined")
    assert any("Content Security Policy" in line["message"] for line in page.console())


def test_every_figure_has_marks_and_data(page):
    found = page.run(FIGURES)
    names = [one["name"] for one in found]
    for kind in EXPECTED:
        assert any(name.startswith(kind) for name in names), kind
    assert len(names) == len(set(names))
    for one in found:
        assert one["marks"] > 0, one
        assert one["rows"] > 0, one
        assert one["buttons"] in (3, 6), one
    assert page.console() == []


def test_every_figure_becomes_a_drawing_and_a_picture(page):
    page.run(FIGURES)
    names = page.run("return Array.from(document.querySelectorAll('figure'), (one) => one.id)")
    for name in names:
        assert page.run(
            "const text = rephaze.alone(document.getElementById(arguments[0]));"
            "const read = new DOMParser().parseFromString(text, 'image/svg+xml');"
            "return read.querySelector('parsererror') === null && text.includes('--c1')",
            name,
        ), name
        size = page.wait_for(
            "const done = arguments[arguments.length - 1];"
            "rephaze.picture(document.getElementById(arguments[0]), (blob) => done(blob ? blob.size : 0))",
            name,
        )
        assert size > 2000, name
    assert page.console() == []


def test_a_legend_switches_marks_off_and_on(page):
    seen = (
        "const figure = document.querySelector('figure[data-name=chip]');"
        "return Array.from(figure.querySelectorAll('[data-s=buffer_um2]'))"
        ".filter((mark) => mark.getBoundingClientRect().width > 0).length"
    )
    button = "document.querySelector('figure[data-name=chip] [data-toggle=buffer_um2]')"
    before = page.run(seen)
    assert before > 0
    page.run(f"{button}.focus()")
    page.press("Enter")
    assert page.run(seen) == 0
    assert page.run(f"return {button}.getAttribute('aria-pressed')") == "false"
    page.press("Space")
    assert page.run(seen) == before


def test_tabs_go_by_keys_and_by_the_pointer(page):
    chosen = (
        "const list = document.querySelector('[role=tablist][aria-label=\"Throughput against\"]');"
        "const tabs = Array.from(list.querySelectorAll('[role=tab]'));"
        "return tabs.map((tab) => [tab.getAttribute('aria-selected'),"
        "  !document.getElementById(tab.getAttribute('aria-controls')).hidden])"
    )
    assert page.run(chosen) == [["true", True], *[["false", False]] * 3]
    page.run("document.querySelector('[aria-label=\"Throughput against\"] [role=tab]').focus()")
    page.press("Right")
    assert [one[1] for one in page.run(chosen)] == [False, True, False, False]
    page.press("End")
    assert [one[1] for one in page.run(chosen)] == [False, False, False, True]
    page.press("Right")
    assert [one[1] for one in page.run(chosen)] == [True, False, False, False]
    page.run("document.querySelectorAll('[aria-label=\"Throughput against\"] [role=tab]')[2].click()")
    assert page.run(chosen)[2] == ["true", True]


def test_a_timeline_zooms_and_moves_by_keys(page):
    state = (
        "const figure = document.querySelector('figure.zoomable');"
        "return [figure.querySelector('svg.zoom').getAttribute('viewBox').split(' ').map(Number),"
        "  Array.from(figure.querySelectorAll('.xticks text'), (tick) => tick.textContent)]"
    )
    (x, _, wide, _), ticks = page.run(state)
    assert (x, wide) == (0, 1000)
    page.run("document.querySelector('figure.zoomable .plot').focus()")
    page.press("+", "+")
    (x, _, wide, _), closer = page.run(state)
    assert (x, wide) == (375, 250)
    assert closer != ticks
    assert len(closer) >= 2
    page.press("Right")
    assert page.run(state)[0][0] == 425
    page.press("0")
    assert page.run(state)[0][:3:2] == [0, 1000]
    page.run("document.querySelector('figure.zoomable [data-act=in]').click()")
    assert page.run(state)[0][2] == 500
    assert page.console() == []


SCROLLED = "const done = arguments[0]; requestAnimationFrame(() => requestAnimationFrame(() => done(1)))"
"""A page that still scrolls hides its hint."""


def test_the_pointer_brings_a_hint(page):
    mark = page.run(
        "const mark = document.querySelector('figure[data-name=chip] [data-t^=global]');"
        "mark.scrollIntoView({block: 'center'}); return mark"
    )
    page.wait_for(SCROLLED)
    page.point_at(mark)
    assert "mm²" in page.run(
        "const tip = document.querySelector('.tip'); return tip.hidden ? '' : tip.textContent"
    )
    drawn, wide, high = page.run(
        "const drawn = document.querySelector('svg.events').ownerSVGElement;"
        "drawn.scrollIntoView({block: 'center'});"
        "const box = drawn.getBoundingClientRect(); return [drawn, box.width, box.height]"
    )
    page.wait_for(SCROLLED)
    # The first device begins with the first microbatch; the rows begin at 70 of 760.
    page.point_at(drawn, right=round(wide * (80 / 760 - 0.5)), down=-round(high / 2) + 18)
    said = page.run("const tip = document.querySelector('.tip'); return tip.hidden ? '' : tip.textContent")
    assert said.startswith("device 1: forward, microbatch 1\n0.00000 to ")


def test_everything_can_be_reached_with_the_tab_key(page):
    page.press("Tab")
    assert page.run("return document.activeElement.className") == "skip"
    unreachable = page.run(
        "return Array.from(document.querySelectorAll('button, a, summary, .plot, .scroll'))"
        ".filter((one) => one.tabIndex < 0 && one.getAttribute('role') !== 'tab').length"
    )
    assert unreachable == 0
    reached = set()
    for _ in range(60):
        page.press("Tab")
        reached.add(
            page.run("const at = document.activeElement; return at.dataset.act || at.className || at.tagName")
        )
    assert {"png", "svg", "csv", "plot"} <= reached


@pytest.mark.parametrize("width", [320, 360, 414, 800])
def test_a_narrow_window_never_scrolls_sideways(page, recorded, width):
    page.resize(width, 740, mobile=True)
    page.open(recorded[1])
    page.run(FIGURES)
    page.run("for (const one of document.querySelectorAll('details')) one.open = true")
    across = page.run("return [document.documentElement.scrollWidth, innerWidth]")
    assert across[0] <= across[1] <= width
    # Nothing sticks out but inside boxes that scroll by themselves.
    out = page.run(
        "return Array.from(document.querySelectorAll('main *')).filter((one) =>"
        " one.getBoundingClientRect().right > innerWidth + 1 && !one.closest('.scroll, .plot, pre, nav'))"
        ".map((one) => one.outerHTML.slice(0, 80))"
    )
    assert out == []
    if width < 500:
        assert page.run(
            "const boxes = Array.from(document.querySelectorAll('.scroll'));"
            "return boxes.some((one) => one.scrollWidth > one.clientWidth)"
        )


def brightness(colour):
    parts = [value / 255 for value in colour]
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_text_stands_out_in_both_schemes(page, recorded, scheme):
    page.prefer(scheme)
    page.open(recorded[1])
    behind = []
    for what in ("p.answer", "p.note", "th", "td", "figcaption", ".legend button", "nav a", "summary", ".status"):
        element = page.run("return document.querySelector(arguments[0])", what)
        text, ground = (brightness(colour) for colour in page.run(COLOURS, element))
        contrast = (max(text, ground) + 0.05) / (min(text, ground) + 0.05)
        assert contrast >= 4.5, (what, contrast)
        behind.append(ground)
    assert behind[0] > 0.8 if scheme == "light" else behind[0] < 0.1
    fill = page.run("return getComputedStyle(document.querySelector('figure[data-name=chip] .f1')).fill")
    assert fill == ("rgb(47, 103, 208)" if scheme == "light" else "rgb(108, 157, 252)")


def test_a_page_written_again_is_read_from_the_run_alone(recorded, tmp_path):
    """No browser: the page is small, and nothing that computes is even loaded."""
    run, page = recorded
    assert page.stat().st_size < 8e6
    script = (
        "import sys, rephaze\n"
        f"rephaze.open_run({str(run)!r}).report({str(tmp_path / 'again.html')!r})\n"
        "heavy = {'numba', 'ortools', 'rephaze.measure', 'rephaze.search'} & set(sys.modules)\n"
        "sys.exit(str(heavy) if heavy else 0)\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=100)
    assert done.returncode == 0, done.stderr
    again, before = (
        re.sub(r"last written [^,]*,", "", one.read_text("utf-8")) for one in (tmp_path / "again.html", page)
    )
    assert again == before
    began = time.process_time()
    rephaze.open_run(run).report(tmp_path / "third.html")
    assert time.process_time() - began < 5.0
