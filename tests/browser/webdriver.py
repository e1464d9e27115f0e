"""A browser driven over the WebDriver protocol with the standard library alone: what tests of pages need."""

import base64
import json
import shutil
import socket
import subprocess
import time
import urllib.error
import urllib.request
from contextlib import contextmanager

BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
ELEMENT = "element-6066-11e4-a52e-4f735466cecf"
"""What the protocol calls an element."""
KEYS = {"Tab": "\ue004", "Left": "\ue012", "Right": "\ue014", "Enter": "\ue007", "Space": " ", "End": "\ue010"}
NOT_HERE = (
    "NO BROWSER: pages were NOT tried. They need Chromium and its driver; on Debian: "
    "apt-get install chromium chromium-driver"
)


def find_browser():
    """Paths of a browser and its driver; None if either is not there."""
    browser = next((path for name in BROWSERS if (path := shutil.which(name))), None)
    driver = shutil.which("chromedriver")
    return (browser, driver) if browser and driver else None


class Browser:
    """One session: a window that loads files and answers questions about them."""

    def __init__(self, address, session):
        self._base = f"{address}/session/{session}"

    def _ask(self, method, path, **body):
        return ask(f"{self._base}{path}", method, body)

    def open(self, path):
        self._ask("POST", "/url", url=path.as_uri())

    def run(self, script, *given):
        """What a script returns."""
        return self._ask("POST", "/execute/sync", script=script, args=list(given))

    def wait_for(self, script, *given):
        """What a script hands to its last argument."""
        return self._ask("POST", "/execute/async", script=script, args=list(given))

    def press(self, *keys):
        """Press keys one after the other, wherever the focus is."""
        pressed = [{"type": kind, "value": KEYS.get(key, key)} for key in keys for kind in ("keyDown", "keyUp")]
        self._ask("POST", "/actions", actions=[{"type": "key", "id": "keys", "actions": pressed}])

    def point_at(self, element, right=0, down=0):
        """Move the pointer to the middle of an element, or so far from there."""
        origin = {ELEMENT: element[ELEMENT]}
        moved = {"type": "pointerMove", "duration": 0, "x": right, "y": down, "origin": origin}
        self._ask("POST", "/actions", actions=[{"type": "pointer", "id": "mouse", "actions": [moved]}])

    def tell(self, command, **given):
        """A command of the browser's own protocol."""
        return self._ask("POST", "/goog/cdp/execute", cmd=command, params=given)

    def resize(self, width, height, *, mobile=False):
        self.tell(
            "Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=mobile
        )

    def prefer(self, scheme):
        features = [{"name": "prefers-color-scheme", "value": scheme}]
        self.tell("Emulation.setEmulatedMedia", features=features)

    def console(self):
        """What was said on the console since the last question, errors of scripts and of the policy included."""
        return self._ask("POST", "/se/log", type="browser")

    def screenshot(self, path):
        path.write_bytes(base64.b64decode(self._ask("GET", "/screenshot")))


def ask(url, method, body=None):
    data = json.dumps(body or {}).encode() if method == "POST" else None
    request = urllib.request.Request(  # noqa: S310 -- the loopback
        url, data=data, method=method, headers={"Content-Type": "application/json"}
    )
    try:
        with urllib.request.urlopen(request, timeout=120) as answer:  # noqa: S310
            return json.load(answer)["value"]
    except urllib.error.HTTPError as error:
        raise RuntimeError(f"{method} {url}: {json.load(error)['value']['message']}") from None


@contextmanager
def browsing(folder):
    """A browser with a profile of its own in ``folder``, ended with the block."""
    browser, driver = find_browser()
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    address = f"http://127.0.0.1:{port}"
    process = subprocess.Popen([driver, f"--port={port}"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        until = time.monotonic() + 60
        while True:
            try:
                if ask(f"{address}/status", "GET")["ready"]:
                    break
            except (OSError, RuntimeError):
                if time.monotonic() > until or process.poll() is not None:
                    raise
            time.sleep(0.1)
        arguments = (
            *("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-background-networking"),
            *("--disable-dev-shm-usage", "--hide-scrollbars", f"--user-data-dir={folder}"),
        )
        options = {"binary": browser, "args": arguments}
        wanted = {"goog:chromeOptions": options, "goog:loggingPrefs": {"browser": "ALL"}}
        made = ask(f"{address}/session", "POST", {"capabilities": {"alwaysMatch": wanted}})
        try:
            yield Browser(address, made["sessionId"])
        finally:
            ask(f"{address}/session/{made['sessionId']}", "DELETE")
    finally:
        process.terminate()
        process.wait(timeout=30)
