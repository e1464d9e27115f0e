"""The served pages as a browser shows them: a search is started, watched, stopped, and its answer shown."""

import time

import pytest

pytest.importorskip("starlette")
pytest.importorskip("uvicorn")

from tests.integration.test_serve import EVIL, make_run, serving

FACTS = "return Array.from(document.querySelectorAll('tr'), (row) => row.innerText).join('\\n')"
STATE = "const shown = document.getElementById('state'); return shown ? shown.textContent : ''"
FILL = """const form = document.querySelector("form.start");
  for (const [name, value] of Object.entries(arguments[0])) form.querySelector(`[name=${name}]`).value = value;
  form.querySelector("button").click()"""
PRESS = """const buttons = Array.from(document.querySelectorAll("button"));
  const found = buttons.find((one) => one.textContent === arguments[0]);
  if (found) found.click(); return Boolean(found)"""


class Address:
    """What the browser is told to open."""

    def __init__(self, url):
        self.url = url

    def as_uri(self):
        return self.url


def wait_until(look, what, seconds=400):
    until = time.monotonic() + seconds
    while not (found := look()):
        assert time.monotonic() < until, what() if callable(what) else what
        time.sleep(0.2)
    return found


@pytest.fixture
def served(opened, tmp_path):
    folder = tmp_path / "runs"
    folder.mkdir()
    make_run(folder / "hostile", EVIL)
    with serving(folder) as client:
        opened.resize(390, 800, mobile=True)
        opened.prefer("dark")
        opened.console()
        opened.open(Address(client.url))
        yield opened, client


def test_a_search_is_watched_and_stopped_and_its_answer_comes_by_itself(served):
    page, _ = served
    assert EVIL in page.run("return document.body.innerText")
    page.run(FILL, {"name": "live", "models": "vit-large", "scenario": "coarse"})
    wait_until(lambda: page.run(STATE) == "running", "nothing was recorded")
    numbers = "return document.getElementById('numbers').textContent"
    wait_until(lambda: "best " in page.run(numbers) or page.run(STATE) != "running", "no best was shown")
    was_running = page.run(PRESS, "Stop the search")
    told = lambda: page.run("return document.body.innerText")  # noqa: E731, what the page says in the end
    # No one reloads the page: it turns by itself from what moves to what came of it.
    last = wait_until(lambda: (found := page.run(STATE)) not in ("", "running", "stopping") and found, told)
    facts = wait_until(lambda: "chip" in page.run(FACTS) and page.run(FACTS), "the answer is not shown", 60)
    assert "no answer yet" not in facts
    if was_running:
        assert last == "stopped"
        assert "The search was stopped" in page.run("return document.body.innerText")
    assert not page.run(PRESS, "Stop the search"), "there is nothing left to stop"
    drawn = "return document.querySelector('polyline.best').getAttribute('points').length > 0"
    wait_until(lambda: page.run(drawn), "best over time is not drawn", 60)
    across = page.run("return [document.documentElement.scrollWidth, innerWidth]")
    assert across[0] <= across[1]
    assert page.console() == []


def test_a_run_that_another_process_made_is_not_reloaded_for_ever(served):
    page, client = served
    page.open(Address(f"{client.url}runs/hostile"))
    wait_until(lambda: page.run(STATE), "the page is empty", 60)
    page.run("window.marked = 1")
    time.sleep(2.5)
    assert page.run("return window.marked === 1")
    assert page.console() == []
