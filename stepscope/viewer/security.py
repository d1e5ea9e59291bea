"""Who may ask the viewer, and what a browser may do with its answers."""

from __future__ import annotations

import hmac
import ipaddress
import re
import socket
from collections.abc import Collection, Iterable
from http.cookies import CookieError, SimpleCookie
from typing import TYPE_CHECKING
from urllib.parse import parse_qs

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

COOKIE = "stepscope_token"
_LOCAL_NAMES = frozenset({"localhost", "127.0.0.1", "::1"})
_SAME_MACHINE = "http://127.0.0.1:* http://localhost:*"  # a notebook's server is on another port
_PAGE_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; connect-src 'self'; "
    f"base-uri 'none'; form-action 'none'; frame-ancestors 'self' {_SAME_MACHINE}"
)
_ANSWER_POLICY = "default-src 'none'; sandbox; frame-ancestors 'none'"
"""What comes out of a run is never a page or a script of the viewer's, also where somebody opens its address."""

HEADERS = {
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cross-origin-resource-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
}
"""What every answer says to a browser, beside its policy."""
SHOWN_TYPES = frozenset({"application/json", "image/png", "image/jpeg", "image/gif", "image/webp", "text/plain"})
"""Media types of answers that a browser may show; what has another one is bytes to it."""


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach a server at this host."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def is_host_name(text: str) -> bool:
    """Whether a request can come for this host: a name or an address, without scheme, port and path."""
    if ":" not in text:
        return bool(re.fullmatch(r"[\w.-]+", text))
    try:
        return ipaddress.ip_address(text).version == 6
    except ValueError:
        return False


class Guard:
    """Lets those requests through that come from the viewer's own page or its user's address bar.

    A page of another site can make a browser send requests here, also under a name of its own that it has resolve to
    this machine (DNS rebinding): so the host must be one of this machine's, and the origin the viewer's. Without the
    token, where there is one, nothing is answered.
    """

    def __init__(
        self, app: ASGIApp, *, host: str, port: int, token: str | None = None, allowed: Collection[str] = ()
    ) -> None:
        """Guards an application.

        Args:
            app: The application.
            host: The address that the server listens at.
            port: Its port.
            token: What who asks must know, in the parameter ``token`` once and in a cookie then; None for nothing.
            allowed: Further names that requests may name as their host, such as a proxy's.
        """
        self._app = app
        self._allowed = {name.lower() for name in allowed}
        self._names = _LOCAL_NAMES | {host.lower()} | self._allowed
        if not is_loopback(host):
            self._names |= {socket.gethostname().lower(), socket.getfqdn().lower()}
        self._takes_addresses = not is_loopback(host)
        self._token = token
        self.cookie = f"{COOKIE}_{port}"  # cookies of a host are those of all its ports

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answers a request, or refuses it with a line of text."""
        if scope["type"] != "http":
            if scope["type"] == "lifespan":
                await self._app(scope, receive, send)
            elif scope["type"] == "websocket":
                await send({"type": "websocket.close", "code": 1008})
            return
        headers = _Headers(scope["headers"])
        refused = self._why_refused(scope, headers)
        if refused:
            await _refuse(send, *refused)
            return
        gives_cookie = self._token is not None and self._in_address(scope)
        if self._token is not None and not gives_cookie and not self._in_cookie(headers):
            await _refuse(send, 403, "open the address with the token that `stepscope view` has printed")
            return

        async def send_safely(message: Message) -> None:
            if message["type"] == "http.response.start":
                extra = _headers(scope["path"])
                if gives_cookie:
                    extra["set-cookie"] = f"{self.cookie}={self._token}; Path=/; HttpOnly; SameSite=Strict"
                message["headers"] = [*message.get("headers", ()), *_encoded(extra.items())]
            await send(message)

        await self._app(scope, receive, send_safely)

    def _why_refused(self, scope: Scope, headers: _Headers) -> tuple[int, str] | None:
        if scope["method"] not in ("GET", "HEAD"):
            return 405, "the viewer only reads: expected GET or HEAD"
        host = headers.get("host")
        if not self._is_own(host):
            return 403, "the request names another host than the viewer's"
        origin = headers.get("origin")
        schemes = {scope.get("scheme", "http")} | ({"https"} if _name(host) in self._allowed else set())  # a proxy's
        if origin and origin.lower() not in {f"{scheme}://{host}".lower() for scheme in schemes}:
            return 403, "the request comes from another site"
        # Where nothing is loaded but by a script, a link from elsewhere is not followed; the page itself may be linked.
        if scope["path"].startswith("/api/") and headers.get("sec-fetch-site") not in ("", "same-origin", "none"):
            return 403, "the request comes from another site"
        return None

    def _is_own(self, host: str) -> bool:
        name = _name(host)
        if name in self._names:
            return True
        if not self._takes_addresses:
            return False
        try:  # a name can be made to resolve to this machine; an address cannot
            ipaddress.ip_address(name)
        except ValueError:
            return False
        return True

    def _in_address(self, scope: Scope) -> bool:
        given = parse_qs(scope["query_string"].decode("latin-1")).get("token", [""])[0]
        return self._is_token(given)

    def _in_cookie(self, headers: _Headers) -> bool:
        try:
            cookies = SimpleCookie(headers.get("cookie"))
        except CookieError:
            return False
        return self.cookie in cookies and self._is_token(cookies[self.cookie].value)

    def _is_token(self, given: str) -> bool:
        return self._token is not None and hmac.compare_digest(given.encode(), self._token.encode())


_HOST = re.compile(r"(?:\[([0-9a-f:.]+)\]|([^\s@/?#\\:\[\]]+))(?::[0-9]{1,5})?", re.IGNORECASE)


def _name(host: str) -> str:
    """The name in a header ``Host``, without the port; empty where it is anything but a name or address and a port."""
    found = _HOST.fullmatch(host)
    return (found[1] or found[2]).lower() if found else ""


class _Headers:
    """The headers of a request; one that is there twice is taken for none of both."""

    def __init__(self, raw: Iterable[tuple[bytes, bytes]]) -> None:
        self._raw = list(raw)

    def get(self, name: str) -> str:
        found = [value for key, value in self._raw if key == name.encode()]
        return found[0].decode("latin-1") if len(found) == 1 else "" if not found else "\0"


def _headers(path: str) -> dict[str, str]:
    return {**HEADERS, "content-security-policy": _ANSWER_POLICY if path.startswith("/api/") else _PAGE_POLICY}


def _encoded(headers: Iterable[tuple[str, str]]) -> list[tuple[bytes, bytes]]:
    return [(key.encode(), value.encode()) for key, value in headers]


async def _refuse(send: Send, status: int, text: str) -> None:
    headers = {**_headers("/api/"), "content-type": "text/plain; charset=utf-8", "cache-control": "no-store"}
    await send({"type": "http.response.start", "status": status, "headers": _encoded(headers.items())})
    await send({"type": "http.response.body", "body": text.encode()})
