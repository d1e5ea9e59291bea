"""Small trainings for the tests of debug sessions: a network with all kinds of layers, and a wrong backward."""

import torch
from torch import nn

from stability import (
    GradientClippingConfig,
    NaNHandlingConfig,
    NumericalStabilityManager,
    PyTorchDebuggingConfig,
)

EVERYTHING = {
    "enable_autograd_anomaly": True,
    "enable_grad_check": True,
    "grad_check_every": 1,
    "grad_check_budget_s": 3600.0,
    "enable_memory_debugging": True,
    "memory_tracking": True,
    "memory_profiling": True,
    "enable_cuda_debugging": True,
    "cuda_synchronize": True,
    "cuda_memory_fraction": 0.9,
    "enable_performance_debugging": True,
    "profile_autograd": True,
    "profile_memory": True,
    "profile_wait": 1,
    "profile_active": 2,
}
TOOLS = [
    "enable_autograd_anomaly",
    "enable_grad_check",
    "enable_memory_debugging",
    "enable_cuda_debugging",
    "enable_performance_debugging",
]


class WrongCube(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x**3

    @staticmethod
    def backward(ctx, gradient):
        (x,) = ctx.saved_tensors
        return gradient * 2 * x**2


class WrongLayer(nn.Module):
    def forward(self, x):
        return WrongCube.apply(x)


class Network(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Linear(4, 6)
        self.norm = nn.BatchNorm1d(6)
        self.drop = nn.Dropout(0.25)
        self.last = nn.Linear(6, 1)

    def forward(self, x, root=False):
        hidden = self.drop(self.norm(self.first(x)).relu())
        return self.last(hidden.sqrt() if root else hidden)


def stability(emitter=None, **fields):
    config = PyTorchDebuggingConfig(**{"save_debug_info": False, **fields})
    return NumericalStabilityManager(GradientClippingConfig(), NaNHandlingConfig(), config, emitter=emitter)


def train(model, manager, steps=4, root_at=None):
    """Returns the results; ``root_at`` is a step with a root of zeros, whose derivative is infinite."""
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    results = []
    for number in range(steps):
        optimizer.zero_grad()
        loss = (
            model(torch.randn(8, 4), root=True).square().mean()
            if number == root_at
            else model(torch.randn(8, 4)).square().mean()
        )
        loss.backward()
        if manager is not None:
            results.append(manager.step(model, loss, optimizer))
        optimizer.step()
    return results


def hooks_of(model):
    return sum(
        len(value) for module in model.modules() for key, value in vars(module).items() if "_hooks" in key and value
    )
