"""``rephaze serve`` against a real server on the loopback, and those who mean it harm."""

import http.client
import json
import os
import re
import signal
import subprocess
import sys
import time
from contextlib import contextmanager, suppress
from pathlib import Path
from urllib.parse import quote, urlencode, urlsplit

import pytest

pytest.importorskip("starlette")
pytest.importorskip("uvicorn")

from rephaze.hardware.scenarios import load_scenario
from rephaze.serve.guard import MOST_BODY_BYTES
from rephaze.serve.pages import started_page
from rephaze.serve.searches import Searches
from rephaze.store.run_store import RunStore
from rephaze.store.versions import current_versions
from rephaze.types.run_record import Incumbent
from rephaze.types.search import Aggregate, Objective, SearchSettings

EVIL = "<script>alert(1)</script>"


def make_run(folder, model):
    settings = SearchSettings(
        models=(model,), weights=(1.0,), scenario=load_scenario("paper"), objective=Objective.THROUGHPUT,
        aggregate=Aggregate.GEOMEAN, seed=0, exhaustive=False,
    )  # fmt: skip
    with RunStore.create(folder, settings, current_versions("1")) as store:
        store.record_incumbent(Incumbent(elapsed_s=1.0, objective=2.0, bound=3.0, design=0))
    return folder


@contextmanager
def serving(folder, *options):
    process = subprocess.Popen(
        [sys.executable, "-m", "rephaze", "serve", str(folder), "--port", "0", "--json", *options],
        stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    try:
        url = json.loads(process.stdout.readline())["url"]
        yield Client(url)
    finally:
        process.send_signal(signal.SIGINT)
        process.wait(60)
        process.stdout.close()


class Client:
    def __init__(self, url):
        self.url, parts = url, urlsplit(url)
        self.host, self.port = "127.0.0.1", parts.port
        self.own = {"Host": f"127.0.0.1:{parts.port}"}

    def ask(self, path, method="GET", body=None, **headers):
        # Not asked again if refused: once its address is told, a server answers.
        connection = http.client.HTTPConnection(self.host, self.port, timeout=60)
        try:
            sent = self.own | {name.replace("_", "-"): value for name, value in headers.items()}
            connection.request(method, path, body, sent)
            answer = connection.getresponse()
            return answer.status, dict(answer.getheaders()), answer.read().decode()
        finally:
            connection.close()

    def key(self):
        return re.search(r'name="key" value="([^"]+)"', self.ask("/")[2]).group(1)

    def post(self, path, form, **headers):
        given = {"Content_Type": "application/x-www-form-urlencoded"} | headers
        return self.ask(path, "POST", urlencode(form), **given)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    outside = tmp_path_factory.mktemp("outside")
    (outside / "secret.txt").write_text("secret")
    make_run(outside / "other", "gpt2-xl")
    root = tmp_path_factory.mktemp("served") / "runs"
    root.mkdir()
    make_run(root / "plain", "gpt2-xl")
    make_run(root / "a<b>&c", EVIL)
    (root / "plain" / "report.html").write_text("<p>the report</p>")
    (root / "linked").symlink_to(outside / "other")
    (root / "a<b>&c" / "report.html").symlink_to(outside / "secret.txt")
    (root / "no-run").mkdir()
    return root


@pytest.fixture(scope="module")
def client(folder):
    with serving(folder) as found:
        yield found


def test_runs_are_listed_filtered_opened_and_compared(client):
    status, headers, text = client.ask("/")
    assert status == 200
    assert ">plain</a>" in text
    assert "no-run" not in text
    assert "script-src 'self'" in headers["content-security-policy"]
    assert ">plain</a>" not in client.ask("/?words=nothing-like-it")[2]
    status, _, text = client.ask("/runs/plain")
    assert status == 200
    assert "gpt2-xl" in text
    assert json.loads(client.ask("/runs/plain/progress")[2])["points"] == [[1.0, 2.0, 3.0]]
    status, headers, text = client.ask("/runs/plain/report")
    assert (status, text) == (200, "<p>the report</p>")
    assert "sandbox" in headers["content-security-policy"]
    status, _, text = client.ask("/compare?a=plain&b=" + quote("a<b>&c"))
    assert status == 200
    assert "a&lt;b&gt;&amp;c" in text


def test_names_are_escaped_everywhere(client):
    name = quote("a<b>&c", safe="")
    for path in (
        "/",
        f"/runs/{name}",
        f"/compare?a={name}&b=plain",
        f"/?words={quote(EVIL)}",
        f"/runs/{quote(EVIL, safe='')}",
    ):
        text = client.ask(path)[2]
        assert EVIL not in text, path
        assert "a<b>" not in text, path
    assert "&lt;script&gt;alert(1)" in client.ask("/")[2]


@pytest.mark.parametrize(
    "name",
    [
        "..",
        ".",
        "../outside",
        "..%2f..%2fetc%2fpasswd",
        "%2e%2e",
        "%2fetc",
        "plain%2f..%2f..",
        "linked",
        "%00",
        "plain%00",
    ],
)
def test_no_path_leaves_the_folder(client, name):
    for rest in ("", "/progress", "/report"):
        status, _, text = client.ask(f"/runs/{name}{rest}")
        assert status in (404, 307), (name, rest)
        assert "secret" not in text
    assert client.ask(f"/compare?a={name}&b=plain")[0] == 404


def test_a_report_that_links_elsewhere_is_not_shown(client):
    status, _, text = client.ask(f"/runs/{quote('a<b>&c', safe='')}/report")
    assert status == 303
    assert "secret" not in text


def test_posts_from_elsewhere_are_refused(client, folder):
    form = {"key": client.key(), "name": "evil", "models": "vit-large", "scenario": "coarse"}
    assert client.post("/searches", form, Origin="http://evil.example")[0] == 403
    assert client.post("/searches", form, Origin="null")[0] == 403
    assert client.post("/searches", form, Sec_Fetch_Site="cross-site")[0] == 403
    assert client.post("/searches", form | {"key": "wrong"})[0] == 403
    assert client.post("/searches", {"name": "evil", "models": "vit-large"})[0] == 403
    assert client.post("/runs/plain/stop", {})[0] == 403
    assert client.ask("/", Host="evil.example")[0] == 403
    assert client.ask("/", "DELETE")[0] == 405
    assert not (folder / "evil").exists()


def test_long_bodies_are_refused(client):
    # The length alone is refused: a body still under way when the server closes would reset the answer.
    assert client.ask("/searches", "POST", Content_Length=str(MOST_BODY_BYTES + 1))[0] == 413
    for length in ("9" * 5000, "\u00b2", "-1", "x"):
        assert client.ask("/searches", "POST", Content_Length=length)[0] in (400, 413)

    def pieces():
        for _ in range(40):
            yield b"x" * 1024

    with suppress(BrokenPipeError, ConnectionResetError):  # refused before all was sent
        assert client.ask("/searches", "POST", pieces())[0] == 413
    assert client.ask("/")[0] == 200


@pytest.mark.parametrize(
    "change",
    [
        {"name": "../evil"}, {"name": "plain"}, {"name": ""}, {"models": "/etc/passwd"}, {"models": "--out"},
        {"scenario": "../x.toml"}, {"objective": "x"}, {"time_limit": "soon"}, {"time_limit": "-1"},
        {"area_limit_mm2": "nan"},
    ],
)  # fmt: skip
def test_searches_that_make_no_sense_are_refused_in_words(client, change):
    form = {"key": client.key(), "name": "new", "models": "vit-large", "scenario": "coarse"} | change
    status, _, text = client.post("/searches", form)
    assert status == 400
    assert 'role="alert"' in text


def running(client, name):
    return json.loads(client.ask(f"/runs/{name}/progress")[2]).get("state")


def test_a_search_is_started_watched_killed_and_the_server_goes_on(client, folder):
    form = {
        "key": client.key(),
        "name": "started",
        "models": "vit-large",
        "scenario": "default",
        "time_limit": "300",
    }
    status, headers, _ = client.post("/searches", form)
    assert (status, headers["location"]) == (303, "/runs/started")
    assert "running" in client.ask("/runs/started")[2]
    assert client.post("/searches", form | {"name": "second"})[0] == 400, "one at a time"
    victims = [int(one.name) for one in Path("/proc").iterdir() if _is_search(one, folder / "started")]
    assert victims
    for pid in victims:
        os.kill(pid, signal.SIGKILL)
    deadline = time.monotonic() + 30
    while "running" in client.ask("/runs/started")[2] and time.monotonic() < deadline:
        time.sleep(0.2)
    assert "killed" in client.ask("/runs/started")[2]
    assert client.ask("/")[0] == 200


def test_a_search_is_stopped(client):
    form = {"key": client.key(), "name": "stopped", "models": "vit-large", "scenario": "default"}
    assert client.post("/searches", form)[0] == 303
    time.sleep(3)
    assert client.post("/runs/stopped/stop", {"key": client.key()})[0] == 303
    deadline = time.monotonic() + 120
    page = client.ask("/runs/stopped")[2]
    while ("running" in page or "stopping" in page) and time.monotonic() < deadline:
        assert "Stop the search" not in page, "it was asked to already"
        time.sleep(0.5)
        page = client.ask("/runs/stopped")[2]
    assert "running" not in page
    assert "stopping" not in page
    assert "stopped" in page.partition("</h1>")[2]


def _is_search(process, folder):
    """Whether a folder of /proc is of a search that records there."""
    try:
        return str(folder).encode() in (process / "cmdline").read_bytes()
    except OSError:
        return False


def test_elsewhere_a_token_is_needed(folder):
    with serving(folder, "--host", "0.0.0.0") as client:  # noqa: S104, that is what is tested
        token = urlsplit(client.url).query.removeprefix("token=")
        assert len(token) > 20
        assert client.ask("/")[0] == 401
        assert client.ask("/?token=wrong")[0] == 401
        assert client.ask("/", Authorization=f"Bearer {token}")[0] == 200
        status, headers, _ = client.ask(f"/?token={token}")
        assert status == 303
        assert "HttpOnly" in headers["set-cookie"]
        assert "SameSite=strict" in headers["set-cookie"]
        assert client.ask("/", Cookie=headers["set-cookie"].partition(";")[0])[0] == 200
        assert client.post("/searches", {"name": "x"}, Authorization=f"Bearer {token}")[0] == 403


def test_a_search_that_fails_says_why(tmp_path):
    searches = Searches()
    (tmp_path / "run").write_text("no folder")
    searches.start("broken", tmp_path / "run", {"models": "gpt2-xl", "scenario": "coarse"})
    while searches.state("broken") == "running":
        time.sleep(0.1)
    assert searches.state("broken") == "failed"
    assert searches.last_words("broken").startswith("error: ")
    assert searches.last_words("none") == ""
    searches.stop_all()
    text = started_page("broken", "failed", f"error: {EVIL}", "key")
    assert "error: &lt;script&gt;" in text
    assert "The search failed; nothing was recorded." in text
