"""A W&B server for the tests of its sink."""

from collections.abc import Iterator

import pytest
from wandb_server import API_KEY, Server, wandb_server


@pytest.fixture
def server_of_wandb(monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    """Where the SDK uploads to; it must not be asked for anything that the server does not know."""
    with wandb_server() as server:
        monkeypatch.setenv("WANDB_BASE_URL", server.url)
        monkeypatch.setenv("WANDB_API_KEY", API_KEY)
        yield server
        assert server.unknown == []
