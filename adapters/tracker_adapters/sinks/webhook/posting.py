"""One POST, without redirections, and with errors that do not show the address."""

import http.client
import urllib.error
import urllib.request
from typing import Any
from urllib.parse import urlsplit

from tracker_adapters.sink import SinkConfigError, SinkUnavailable

TIMEOUT_S = 10.0
"""How long a connection may be silent; the delivery ends calls that take longer than its ``deadline_s`` in all."""
_REFUSALS = frozenset({400, 405, 406, 411, 413, 414, 415, 422, 431})
"""Answers that are about the content: the same again would be refused again."""


class _NoRedirections(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *args: Any, **kwargs: Any) -> None:
        """Follows none: a POST would become a GET, and go where the user did not say."""


_opener = urllib.request.build_opener(_NoRedirections)


def check_address(variable: str, address: str) -> None:
    """Checks what an environment variable holds, without showing it.

    Raises:
        SinkConfigError: When it is not set, or holds no address of http or https.
    """
    if not address:
        raise SinkConfigError(f"sink 'webhook': the environment variable {variable} is not set; expected a URL in it")
    try:
        parts = urlsplit(address)
        is_usable = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        is_usable = False
    if not is_usable or any(character <= " " or character == "\x7f" for character in address):
        raise SinkConfigError(
            f"sink 'webhook': the environment variable {variable} holds no address (it is not shown here); expected "
            "one that begins with https:// or http://"
        )


def post(address: str, body: bytes, *, key: str, variable: str) -> int:
    """Posts JSON; returns 0 when it was taken, or the status with which its content was refused.

    Raises:
        SinkUnavailable: For everything else.
    """
    headers = {"Content-Type": "application/json", "User-Agent": "stepscope", "Idempotency-Key": key}
    request = urllib.request.Request(address, data=body, headers=headers, method="POST")
    try:
        with _opener.open(request, timeout=TIMEOUT_S) as answer:
            status = int(answer.status)
    except urllib.error.HTTPError as error:
        status = error.code
        error.close()
    except (OSError, http.client.HTTPException, ValueError) as error:
        reason = error.reason if isinstance(error, urllib.error.URLError) else error
        # Only a system's words: others may hold parts of the address.
        words = (reason.strerror if isinstance(reason, OSError) else "") or type(reason).__name__
        raise SinkUnavailable(f"the address in {variable} cannot be reached: {words}") from None
    if 200 <= status < 300:
        return 0
    if status in _REFUSALS:
        return status
    raise SinkUnavailable(f"the address in {variable} answered with status {status}")
