"""Modes do not see a quiet computation, and do not affect it."""

import torch
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

from debuggers.instrumentation.quiet_computation import quiet_computation


class Functions(TorchFunctionMode):
    def __init__(self):
        super().__init__()
        self.seen = []

    def __torch_function__(self, func, types, args=(), kwargs=None):
        self.seen.append(func)
        return func(*args, **(kwargs or {}))


class Operations(TorchDispatchMode):
    def __init__(self):
        super().__init__()
        self.seen = []

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        self.seen.append(func)
        return func(*args, **(kwargs or {}))


def test_modes_do_not_see_it_and_are_active_again_after_it():
    ones = torch.ones(2, 2)
    with Functions() as functions, Operations() as operations:
        with quiet_computation("cpu"):
            ones @ ones
        assert (functions.seen, operations.seen) == ([], [])
        ones @ ones
        assert len(functions.seen) == len(operations.seen) == 1


def test_autocast_and_gradients_are_off_and_come_back():
    ones = torch.ones(2, 2, requires_grad=True)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        with quiet_computation("cpu"):
            product = ones @ ones
        assert (product.dtype, product.requires_grad) == (torch.float32, False)
        product = ones @ ones
        assert (product.dtype, product.requires_grad) == (torch.bfloat16, True)


def test_any_device_type_will_do():
    with quiet_computation("meta"):
        assert not torch.is_grad_enabled()
