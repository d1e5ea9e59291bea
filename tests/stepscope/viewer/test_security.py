"""Who is answered, and what a browser is told, without a server: requests go straight to the guard."""

import re

import anyio
import pytest
from tracker_adapters.errors import RunError

from stepscope.viewer.security import Guard, is_loopback
from stepscope.viewer.serving import check_allowed

TOKEN = "s3cret-s3cret"


async def _hello(scope, receive, send):
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": b"hello"})


def asked(path="/", headers=None, *, bound="127.0.0.1", token=None, method="GET", allowed=()):
    """The status, the headers and the body of an answer; ``headers`` are a mapping, or pairs."""
    path, _, query = path.partition("?")
    headers = headers or {}
    pairs = list(headers.items()) if isinstance(headers, dict) else headers
    if not any(name == "host" for name, _ in pairs):
        pairs = [("host", "127.0.0.1:8765"), *pairs]
    scope = {
        "type": "http",
        "method": method,
        "path": path,
        "scheme": "http",
        "query_string": query.encode(),
        "headers": [(name.encode(), value.encode("latin-1")) for name, value in pairs],
    }
    sent = []

    async def send(message):
        sent.append(message)

    anyio.run(Guard(_hello, host=bound, port=8765, token=token, allowed=allowed), scope, None, send)
    start, body = sent
    return start["status"], {key.decode(): value.decode() for key, value in start["headers"]}, body["body"]


@pytest.mark.parametrize("host", ["127.0.0.1:8765", "localhost:8765", "LOCALHOST", "[::1]:8765"])
def test_this_machine_is_answered_under_its_own_names(host):
    assert asked(headers={"host": host})[0] == 200


@pytest.mark.parametrize(
    "host",
    [
        "evil.example",
        "evil.example:8765",
        "127.0.0.1.evil.example",
        "192.168.0.9:8765",
        "",
        "[",
        "localhost@evil.example",
        "evil@127.0.0.1:8765",
        "evil:x@127.0.0.1",
        "127.0.0.1/evil",
        "127.0.0.1#evil.example",
        "127.0.0.1?evil",
        "127.0.0.1:evil",
        "127.0.0.1:8765:8765",
        "[::1",
        "[::1]x",
    ],
)
def test_a_name_that_another_site_had_resolve_to_this_machine_is_refused(host):
    status, _, body = asked(headers={"host": host})
    assert (status, body) == (403, b"the request names another host than the viewer's")


def test_a_name_that_was_allowed_is_answered_and_may_be_that_of_a_proxy_with_tls():
    allowed = {"allowed": ("Viewer.example",), "token": TOKEN}
    for host in ("viewer.example", "VIEWER.example:8443"):
        for origin in (f"https://{host}", f"http://{host}"):
            assert asked(f"/api/runs?token={TOKEN}", {"host": host, "origin": origin}, **allowed)[0] == 200
        assert asked("/api/runs", {"host": host}, **allowed)[0] == 403
        assert asked(f"/?token={TOKEN}", {"host": host, "origin": "https://evil.example"}, **allowed)[0] == 403
    for host in ("evil.example", "viewer.example.evil.example", "x.viewer.example"):
        assert asked(f"/?token={TOKEN}", {"host": host}, **allowed)[0] == 403


@pytest.mark.parametrize(
    "name", ["viewer.example.org", "localhost", "192.0.2.1", "2001:db8::1", "my_host", "b\u00fccher.example"]
)
def test_a_host_is_allowed_by_its_name(name):
    check_allowed([name])


@pytest.mark.parametrize(
    "name", ["", "https://viewer.example.org", "viewer.example.org:8080", "viewer.example.org/", "a b", "*"]
)
def test_what_is_no_name_of_a_host_is_refused_before_anybody_waits_for_an_answer(name):
    with pytest.raises(RunError, match=f"the allowed host is {re.escape(repr(name))}; expected a name without scheme"):
        check_allowed(["viewer.example.org", name])


def test_two_hosts_are_none():
    assert asked(headers=[("host", "127.0.0.1:8765"), ("host", "evil.example")])[0] == 403


def test_at_an_address_for_others_addresses_are_answered_and_names_of_others_are_not():
    with_token = {"bound": "0.0.0.0", "token": TOKEN}
    assert asked(f"/?token={TOKEN}", {"host": "192.168.0.9:8765"}, **with_token)[0] == 200
    assert asked(f"/?token={TOKEN}", {"host": "evil.example:8765"}, **with_token)[0] == 403


@pytest.mark.parametrize("origin", ["http://evil.example", "http://127.0.0.1:9999", "https://127.0.0.1:8765", "null"])
def test_a_foreign_origin_is_refused(origin):
    assert asked("/api/runs", {"origin": origin})[0] == 403
    assert asked("/api/runs", {"origin": "http://127.0.0.1:8765"})[0] == 200


def test_pages_of_other_sites_may_link_to_the_page_but_load_nothing():
    for site in ("cross-site", "same-site"):
        assert asked("/", {"sec-fetch-site": site})[0] == 200
        assert asked("/api/image", {"sec-fetch-site": site})[0] == 403
    for site in ("same-origin", "none"):
        assert asked("/api/image", {"sec-fetch-site": site})[0] == 200


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "OPTIONS", "PATCH"])
def test_nothing_can_be_written(method):
    assert asked(method=method)[0] == 405


def test_a_browser_runs_and_shows_nothing_but_the_page():
    _, headers, _ = asked()
    policy = headers["content-security-policy"]
    assert "default-src 'none'; script-src 'self'; style-src 'self'" in policy
    assert "unsafe" not in policy
    assert "frame-ancestors 'self' http://127.0.0.1:* http://localhost:*" in policy
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["referrer-policy"] == "no-referrer"
    assert not any(name.startswith("access-control") for name in headers)
    assert "sandbox" in asked("/api/file")[1]["content-security-policy"]
    assert "sandbox" in asked(method="POST")[1]["content-security-policy"]


def test_without_the_token_nothing_is_answered():
    for path in ("/", "/api/runs", "/page.js", "/?token=", "/?token=wrong", f"/?token={TOKEN}x", "/?token=%ff%fe"):
        status, headers, body = asked(path, token=TOKEN)
        assert (status, "set-cookie" in headers) == (403, False)
        assert TOKEN.encode() not in body


def test_the_token_becomes_a_cookie_that_scripts_and_other_sites_do_not_get():
    status, headers, _ = asked(f"/?token={TOKEN}", token=TOKEN)
    assert status == 200
    assert headers["set-cookie"] == f"stepscope_token_8765={TOKEN}; Path=/; HttpOnly; SameSite=Strict"
    cookie = headers["set-cookie"].partition(";")[0]
    assert asked("/api/runs", {"cookie": f"a=b; {cookie}"}, token=TOKEN)[0] == 200
    for wrong in (f"{cookie}x", f"stepscope_token_1={TOKEN}", "stepscope_token_8765=", "\xff\xfe;;=", "ü=\xff"):
        assert asked("/api/runs", {"cookie": wrong}, token=TOKEN)[0] == 403


def test_what_another_machine_can_reach_is_told_from_what_it_cannot():
    assert all(map(is_loopback, ["127.0.0.1", "127.9.9.9", "::1", "localhost"]))
    assert not any(map(is_loopback, ["0.0.0.0", "::", "192.168.1.2", "example.org", ""]))
