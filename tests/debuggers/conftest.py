"""What the tests of the debuggers share."""

import pytest
import torch


@pytest.fixture
def process_group():
    """A group of this process alone, without a network."""
    torch.distributed.init_process_group("gloo", store=torch.distributed.HashStore(), rank=0, world_size=1)
    yield
    torch.distributed.destroy_process_group()
