"""Small parts of torch programs that several tests use."""

import torch
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode


class Applies(nn.Module):
    """Applies a function to its arguments."""

    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, *arguments):
        return self.function(*arguments)


class Graphs(list):
    """A backend of ``torch.compile`` that runs graphs as they are; a list of those that were compiled."""

    def __call__(self, graph, example_inputs):
        self.append(graph)
        return graph.forward

    @property
    def operators(self):
        return [node.target.__name__ for graph in self for node in graph.graph.nodes if node.op == "call_function"]


class Refuses(TorchDispatchMode):
    """As a context manager: fails at these operators, such as those that would wait for a device."""

    def __init__(self, *operators):
        super().__init__()
        self._operators = operators

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        assert function.overloadpacket not in self._operators
        return function(*args, **(kwargs or {}))


def freed_tensor(size=2):
    """A tensor without memory, as FSDP leaves parameters behind."""
    tensor = torch.ones(size)
    tensor.untyped_storage().resize_(0)
    return tensor
