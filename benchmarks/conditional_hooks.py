"""Tells what a conditional hook that does not fire adds to a layer's call, in microseconds.

Run: ``python benchmarks/conditional_hooks.py``. Copies of a model of 50 layers step in turn, in blocks, on the same
digits: watched alone, and watched with a hook for every layer. Times are processor time of the training thread, in one
thread of torch. What the hook adds to a step is divided by the number of layers. The last lines are hooks of torch: one
that does nothing, and what a user writes by hand, which waits for a device where there is one.
"""

import argparse
import copy
import tempfile
import time
from contextlib import ExitStack
from typing import Any

import numpy as np
import torch
from torch import nn
from watched.data import digit_batches
from watched.machine import machine
from watched.models import ManyTensors

import stepscope
from debuggers import HookAction, HookBuilder, HookTrigger
from stepscope.sessions.config import DebugConfig
from stepscope.sessions.schedule import Schedule

LAYERS = 50
FIRST, BLOCK = 5, 25
"""Steps of the first block, and of each later one: the session is paused while another copy steps."""
SETTLED = 105
NEVER = 10**9
HOOKS: dict[str, tuple[HookTrigger, dict[str, Any]]] = {
    "step > 1e9, forward": (HookTrigger.EVERY_FORWARD, {"condition": f"step > {NEVER}"}),
    "step > 1e9, backward": (HookTrigger.EVERY_BACKWARD, {"condition": f"step > {NEVER}"}),
    "every 1e9 steps": (HookTrigger.EVERY_N_STEPS, {"n": NEVER}),
    "at step 1e9": (HookTrigger.AT_STEPS, {"steps": [NEVER]}),
    "l2_norm > 1e9": (HookTrigger.EVERY_FORWARD, {"condition": f"l2_norm > {NEVER}"}),
}


def nothing(module: nn.Module, inputs: object, output: torch.Tensor) -> None:
    """Does nothing."""


def compare_norm(module: nn.Module, inputs: object, output: torch.Tensor) -> None:
    """What a user writes by hand."""
    if output.norm() > NEVER:
        raise AssertionError("the norm is above a billion")


OWN = {"torch's, empty": nothing, "torch's, norm() > 1e9": compare_norm}


def measure(hook: str, steps: int) -> float:
    """Returns the microseconds that the hook adds for each layer, in the median of all steps."""
    torch.manual_seed(0)
    model, batches = ManyTensors(LAYERS, 64), digit_batches(32, 32, 64)
    times = np.empty((2, steps))
    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        sides = []
        for side in (0, 1):
            trained = copy.deepcopy(model)
            optimizer = torch.optim.SGD(trained.parameters(), lr=0.01)
            config = DebugConfig(schedule=Schedule(every=1000), max_overhead=None, diagnosis=False)
            run = stack.enter_context(stepscope.open_run(f"{folder}/{side}", sinks=[]))
            session = stack.enter_context(stepscope.watch(trained, optimizer, run=run, config=config))
            sides.append((trained, optimizer, session))
        if hook in OWN:
            for layer in sides[1][0].layers:
                layer.register_forward_hook(OWN[hook])
        else:
            trigger, settings = HOOKS[hook]
            builder = HookBuilder("silent").trigger(trigger, **settings).action(HookAction.INSPECT_TENSOR)
            sides[1][2].hooks.register_hook(builder.layer_patterns(["layers.*"]).build())
        starts = [0, *range(FIRST, steps, BLOCK)]
        for number, (start, end) in enumerate(zip(starts, [*starts[1:], steps], strict=True)):
            for side in (0, 1) if number % 2 else (1, 0):
                trained, optimizer, _ = sides[side]
                with sides[1 - side][2].paused():
                    for step in range(start, end):
                        inputs, targets = batches[step % len(batches)]
                        began = time.thread_time_ns()
                        optimizer.zero_grad()
                        torch.autograd.backward(nn.functional.cross_entropy(trained(inputs), targets))
                        optimizer.step()
                        times[side, step] = (time.thread_time_ns() - began) / 1e3
    counts = np.arange(steps) >= SETTLED
    counts[starts] = False  # a session has begun anew
    alone, hooked = np.median(times[:, counts], axis=1)
    return float(hooked - alone) / LAYERS


def main() -> None:
    parser = argparse.ArgumentParser(description="What a conditional hook that does not fire costs.")
    parser.add_argument("--steps", type=int, default=2000, help=f"steps of each side, more than {SETTLED + BLOCK}")
    arguments = parser.parse_args()
    if arguments.steps <= SETTLED + BLOCK:
        parser.error(f"--steps is {arguments.steps}; expected more than {SETTLED + BLOCK}")
    torch.set_num_threads(1)
    print(", ".join(f"{name} {value}" for name, value in machine().items() if value is not None), flush=True)
    print(f"{'hook':24}{'µs a layer':>12}")
    for hook in (*HOOKS, *OWN):
        print(f"{hook:24}{measure(hook, arguments.steps):12.2f}", flush=True)


if __name__ == "__main__":
    main()
