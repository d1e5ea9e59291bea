"""What the tests of SequentialDebugger share."""

import pytest

from debuggers.wrappers.sequential_debugger import SequentialDebugger


@pytest.fixture
def watching():
    """Returns a function that enables debuggers on a model; they are closed at the end of the test."""
    opened = []

    def watch(model, *entries, **options):
        sequential = SequentialDebugger(entries, model, **options)
        opened.append(sequential)
        sequential.enabled = True
        return sequential

    yield watch
    for sequential in opened:
        sequential.reset_buffer()
        sequential.close()
