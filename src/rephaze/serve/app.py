"""The server: which address shows what."""

from __future__ import annotations

import secrets
import socket
from collections.abc import Callable
from pathlib import Path
from urllib.parse import parse_qsl

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, RedirectResponse, Response
from starlette.routing import Route

from rephaze.errors import RephazeError
from rephaze.serve import pages
from rephaze.serve.folder import REPORT_NAME, RunFolder
from rephaze.serve.guard import PAGE_POLICY, REPORT_POLICY, Guard
from rephaze.serve.searches import Searches

_COMMON = {"x-content-type-options": "nosniff", "referrer-policy": "same-origin", "cache-control": "no-store"}


class Server:
    """Pages over a folder of runs."""

    def __init__(self, root: Path, token: str = "") -> None:
        self.folder, self.searches = RunFolder(root), Searches()
        routes = [
            Route("/", self._answer(self._list)),
            Route(
                "/live.js",
                lambda _request: Response(pages.LIVE_SCRIPT, media_type="text/javascript", headers=_COMMON),
            ),
            Route("/compare", self._answer(self._compare)),
            Route("/searches", self._answer(self._start), methods=["POST"]),
            Route("/runs/{name}", self._answer(self._run)),
            Route("/runs/{name}/progress", self._answer(self._progress)),
            Route("/runs/{name}/report", self._answer(self._report)),
            Route("/runs/{name}/report", self._answer(self._write_report), methods=["POST"]),
            Route("/runs/{name}/stop", self._answer(self._stop), methods=["POST"]),
        ]
        self.guard = Guard(Starlette(routes=routes), token)

    def _answer(self, handle: Callable[[Request], Response]) -> Callable[[Request], Response]:
        """What a page says, with its headers; what is wrong is said in a line."""

        def answer(request: Request) -> Response:
            if request.method == "POST" and not self._has_key(request):
                return HTMLResponse(pages.page("Refused", "<p>The form is not of this server.</p>"), 403)
            try:
                found = handle(request)
            except RephazeError as error:
                rows = self.folder.rows()
                said = pages.list_page(rows, "", self.guard.form_key, str(error))
                found = HTMLResponse(said, 400 if request.method == "POST" else 404)
            for name, value in _COMMON.items():
                found.headers[name] = value
            found.headers.setdefault("content-security-policy", PAGE_POLICY)
            return found

        return answer

    def _has_key(self, request: Request) -> bool:
        return secrets.compare_digest(_form(request).get("key", "").encode(), self.guard.form_key.encode())

    def _list(self, request: Request) -> Response:
        words = request.query_params.get("words", "")
        return HTMLResponse(pages.list_page(self.folder.rows(words), words, self.guard.form_key))

    def _run(self, request: Request) -> Response:
        name = request.path_params["name"]
        state, words = self.searches.state(name), self.searches.last_words(name)
        try:
            row = self.folder.row(name)
        except RephazeError:
            if not state:
                raise
            return HTMLResponse(pages.started_page(name, state, words, self.guard.form_key))
        has_report = (self.folder.path(name) / REPORT_NAME).is_file()
        return HTMLResponse(pages.run_page(row, state, words, has_report, self.guard.form_key))

    def _progress(self, request: Request) -> Response:
        name = request.path_params["name"]
        return JSONResponse(self.folder.progress(name) | {"state": self.searches.state(name)})

    def _compare(self, request: Request) -> Response:
        rows = [self.folder.row(request.query_params.get(which, "")) for which in ("a", "b")]
        return HTMLResponse(pages.compare_page(*rows))

    def _start(self, request: Request) -> Response:
        asked = _form(request)
        name = asked.get("name", "")
        self.searches.start(name, self.folder.new_path(name), asked)
        return RedirectResponse(pages.run_url(name), 303)

    def _stop(self, request: Request) -> Response:
        name = request.path_params["name"]
        self.searches.stop(name)
        return RedirectResponse(pages.run_url(name), 303)

    def _report(self, request: Request) -> Response:
        path = self.folder.path(request.path_params["name"]) / REPORT_NAME
        self.folder.run(request.path_params["name"])
        if path.is_symlink() or not path.is_file():
            return RedirectResponse(pages.run_url(request.path_params["name"]), 303)
        return HTMLResponse(path.read_bytes(), headers={"content-security-policy": REPORT_POLICY})

    def _write_report(self, request: Request) -> Response:
        name = request.path_params["name"]
        self.folder.run(name).report()
        return RedirectResponse(pages.run_url(name, "/report"), 303)


def _form(request: Request) -> dict[str, str]:
    body: bytes = request.scope["rephaze_body"]
    return dict(parse_qsl(body.decode("utf-8", "replace"), keep_blank_values=True))


def run_server(server: Server, opened: socket.socket) -> None:
    """Serve until interrupted; then searches started here are ended with what they have."""
    import uvicorn

    config = uvicorn.Config(
        server.guard, log_level="warning", server_header=False, h11_max_incomplete_event_size=16_384
    )
    try:
        uvicorn.Server(config).run(sockets=[opened])
    finally:
        server.searches.stop_all()
