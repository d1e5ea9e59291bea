"""A debugger is a callable on a datapoint and the model."""

import pytest
from torch import nn

from debuggers.base_debugger import BaseDebugger


class Counter(BaseDebugger):
    def __init__(self, start):
        self.count = start

    def __call__(self, datapoint, model):
        self.count += 1
        return {"count": self.count, "seen": datapoint["inputs"]}


def test_it_is_abstract():
    with pytest.raises(TypeError, match="__call__"):
        BaseDebugger()


def test_a_subclass_needs_nothing_but_call():
    debugger = Counter(start=4)
    assert debugger({"inputs": 7}, nn.Identity()) == {"count": 5, "seen": 7}
    assert list(debugger.pictures({"count": 5}, {})) == []
