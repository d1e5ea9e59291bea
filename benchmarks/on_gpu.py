"""What measuring all gradients costs on a GPU: ``python benchmarks/on_gpu.py``; without one it says so in a line.

A transformer of a billion parameters is trained in bfloat16 on random numbers. Times are those of the device, between
CUDA events, and medians; the plain and the measured step take turns. Reading once is what the gradients' bytes take at
the bandwidth that a copy of a gigabyte reaches on the same device.
"""

import argparse
import json
import statistics
import time
from collections.abc import Callable

import torch

from debuggers.measurement.batches import DeviceBatch
from debuggers.measurement.gpu import why_not
from debuggers.measurement.measure import measure
from debuggers.measurement.plain_values import pieces

DEVICE = torch.device("cuda", 0)
FEW_LAUNCHES = 20
_CYCLES = 20_000_000  # about ten milliseconds: longer than enqueueing a measurement takes


def transformer(blocks: int, width: int) -> torch.nn.Module:
    return torch.nn.Sequential(
        *(
            torch.nn.TransformerEncoderLayer(
                width,
                width // 128,
                4 * width,
                0.0,
                batch_first=True,
                norm_first=True,
                device=DEVICE,
                dtype=torch.bfloat16,
            )
            for _ in range(blocks)
        )
    )


def milliseconds(action: Callable[[], object]) -> float:
    """The device's time for what an action enqueues, all of it while the device still waits for the beginning."""
    begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    torch.cuda._sleep(_CYCLES)
    begin.record()
    action()
    end.record()
    end.synchronize()
    return begin.elapsed_time(end)


def in_turns(actions: dict[str, Callable[[], object]], turns: int) -> dict[str, float]:
    """The median of each action; one turn before does not count."""
    found: dict[str, list[float]] = {name: [] for name in actions}
    for turn in range(turns + 1):
        for name, action in actions.items():
            took = milliseconds(action)
            if turn:
                found[name].append(took)
    return {name: statistics.median(times) for name, times in found.items()}


def with_torch_operations(gradients: list[torch.Tensor]) -> None:
    batch = DeviceBatch(DEVICE)
    for index, gradient in enumerate(gradients):
        for piece in pieces(index, gradient.view(-1)):
            batch.add(index, piece)
    batch.take()


def gigabytes_a_second() -> float:
    source = torch.zeros(1 << 30, dtype=torch.uint8, device=DEVICE)
    target = torch.empty_like(source)
    took = in_turns({"copy": lambda: target.copy_(source)}, 20)["copy"]
    return 2 * source.nbytes / took / 1e6


def launches(gradients: list[torch.Tensor]) -> int:
    """How many kernels, copies and fills the device runs for one measurement."""
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as profile:
        measure(gradients).resolve()
    return sum(event.device_type == torch.autograd.DeviceType.CUDA for event in profile.events())


def waits(gradients: list[torch.Tensor]) -> str:
    """Whether measuring waits for the device, as torch's own check has it."""
    torch.cuda.set_sync_debug_mode("error")
    try:
        measure(gradients)
    except RuntimeError as error:
        return f"yes: {error}"
    finally:
        torch.cuda.set_sync_debug_mode("default")
    return "no"


def host_microseconds(gradients: list[torch.Tensor], turns: int) -> float:
    """The time of the call on the training's thread, which enqueues and does not wait."""
    found = []
    for _ in range(turns):
        torch.cuda.synchronize()
        start = time.perf_counter()
        measure(gradients)
        found.append(time.perf_counter() - start)
    return 1e6 * statistics.median(found)


def run(blocks: int, width: int, tokens: int, turns: int) -> dict[str, object]:
    model = transformer(blocks, width)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-4)
    batch = torch.randn(4, tokens // 4, width, device=DEVICE, dtype=torch.bfloat16)

    def step(*, measured: bool) -> None:
        optimizer.zero_grad()
        model(batch).float().square().mean().backward()
        if measured:
            measure([parameter.grad for parameter in model.parameters()])
        optimizer.step()

    step(measured=True)
    gradients = [parameter.grad for parameter in model.parameters()]
    steps = in_turns({"plain": lambda: step(measured=False), "measured": lambda: step(measured=True)}, turns)
    gradients = [parameter.grad for parameter in model.parameters()]
    alone = in_turns({"kernel": lambda: measure(gradients), "torch": lambda: with_torch_operations(gradients)}, turns)
    size = sum(gradient.nbytes for gradient in gradients)
    speed = gigabytes_a_second()
    return {
        "device": torch.cuda.get_device_name(DEVICE),
        "measured by": why_not(DEVICE, torch.bfloat16) or "the kernel",
        "parameters": sum(gradient.numel() for gradient in gradients),
        "tensors": len(gradients),
        "bandwidth of a copy, GB/s": round(speed),
        "reading the gradients once, ms": round(size / speed / 1e6, 3),
        "measuring them, ms": round(alone["kernel"], 3),
        "the same with torch operations, ms": round(alone["torch"], 3),
        "times as long as reading once": round(alone["kernel"] / (size / speed / 1e6), 2),
        "plain step, ms": round(steps["plain"], 2),
        "measured step adds, ms": round(steps["measured"] - steps["plain"], 3),
        "share of a step, %": round(100 * (steps["measured"] / steps["plain"] - 1), 2),
        "call on the training's thread, us": round(host_microseconds(gradients, turns)),
        f"launches a step (at most {FEW_LAUNCHES})": launches(gradients),
        "waits for the device": waits(gradients),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--blocks", type=int, default=20)
    parser.add_argument("--width", type=int, default=2048)
    parser.add_argument("--tokens", type=int, default=8192)
    parser.add_argument("--turns", type=int, default=20)
    parser.add_argument("--json", action="store_true", help="print JSON")
    given = parser.parse_args()
    if not torch.cuda.is_available():
        print("no CUDA device: nothing to measure on a GPU here")
        return
    found = run(given.blocks, given.width, given.tokens, given.turns)
    if given.json:
        print(json.dumps(found, indent=1))
        return
    width = max(map(len, found))
    for name, value in found.items():
        print(f"{name:{width}}  {value:,}" if isinstance(value, int) else f"{name:{width}}  {value}")


if __name__ == "__main__":
    main()
