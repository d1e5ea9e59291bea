"""A W&B server for the tests of its sink."""

import pytest
from wandb_server import API_KEY, wandb_server


@pytest.fixture
def server_of_wandb(monkeypatch):
    """Where the SDK uploads to; it must not be asked for anything that the server does not know."""
    with wandb_server() as server:
        monkeypatch.setenv("WANDB_BASE_URL", server.url)
        monkeypatch.setenv("WANDB_API_KEY", API_KEY)
        yield server
        assert server.unknown == []
