"""Who may ask: hosts, tokens, posts from the own pages alone, small bodies."""

from __future__ import annotations

import secrets
from dataclasses import dataclass, field
from http.cookies import SimpleCookie
from ipaddress import ip_address
from urllib.parse import parse_qsl, urlsplit

from starlette.datastructures import Headers
from starlette.responses import PlainTextResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from rephaze.types.checks import whole_number

MOST_BODY_BYTES = 16_384
COOKIE = "rephaze_token"
LOOPBACK_NAMES = ("localhost", "127.0.0.1", "::1")
PAGE_POLICY = (
    "default-src 'none'; style-src 'unsafe-inline'; script-src 'self'; connect-src 'self'; img-src 'self' data:; "
    "form-action 'self'; frame-ancestors 'none'; base-uri 'none'"
)
REPORT_POLICY = (
    "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline' 'unsafe-eval'; img-src "
    "data: blob:; "
    "sandbox allow-scripts allow-downloads allow-popups"
)
"""Of a report, whose own scripts run in an origin of its own: they reach nothing of the server."""


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach it."""
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


@dataclass(slots=True)
class Guard:
    """Looks at every request before any page does."""

    app: ASGIApp
    token: str
    """Needed with every request; empty on the loopback."""
    form_key: str = field(default_factory=lambda: secrets.token_urlsafe(24))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Refuse, or pass on with a body that is read and short."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        refusal = self._refusal(scope, headers)
        if refusal is not None:
            await refusal(scope, receive, send)
            return
        body = await _short_body(headers, receive)
        if body is None:
            said = f"bodies are at most {MOST_BODY_BYTES} bytes"
            await PlainTextResponse(said, 413, {"connection": "close"})(scope, receive, send)
            return
        scope["rephaze_body"] = body

        async def again() -> Message:
            return {"type": "http.request", "body": body, "more_body": False}

        await self.app(scope, again, send)

    def _refusal(self, scope: Scope, headers: Headers) -> Response | None:
        host = headers.get("host", "")
        if not self.token and urlsplit(f"//{host}").hostname not in LOOPBACK_NAMES:
            # A page elsewhere may have its name lead here: it would send its own name.
            return PlainTextResponse("this server answers on the loopback alone", 403)
        if self.token and not self._is_known(headers):
            given = dict(parse_qsl(scope["query_string"].decode("latin-1"))).get("token", "")
            if not secrets.compare_digest(given.encode(), self.token.encode()):
                return PlainTextResponse("a token is needed: open the address that rephaze serve printed", 401)
            answer = RedirectResponse(scope["path"], 303)
            answer.set_cookie(COOKIE, self.token, httponly=True, samesite="strict")
            return answer
        if scope["method"] not in ("GET", "HEAD", "POST"):
            return PlainTextResponse("not allowed", 405)
        if scope["method"] == "POST" and not _is_own(headers, host):
            return PlainTextResponse("posts come from this server's own pages", 403)
        return None

    def _is_known(self, headers: Headers) -> bool:
        cookie = SimpleCookie(headers.get("cookie", "")).get(COOKIE)
        given = headers.get("authorization", "").removeprefix("Bearer ") or (cookie.value if cookie else "")
        return secrets.compare_digest(given.encode(), self.token.encode())


def _is_own(headers: Headers, host: str) -> bool:
    """Whether a post was sent by a page of this server, as far as the browser tells."""
    if headers.get("sec-fetch-site", "same-origin") not in ("same-origin", "none"):
        return False
    origin = headers.get("origin")
    return origin is None or urlsplit(origin).netloc == host


async def _short_body(headers: Headers, receive: Receive) -> bytes | None:
    """The body, or None if it is too long; no more than that is ever held."""
    length = headers.get("content-length", "0")
    told = whole_number(length)
    if told is None or told > MOST_BODY_BYTES:
        return None
    body: bytes = b""
    while True:
        message = await receive()
        body += message.get("body", b"")
        if len(body) > MOST_BODY_BYTES:
            return None
        if message["type"] == "http.disconnect" or not message.get("more_body", False):
            return body
