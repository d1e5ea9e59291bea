"""The same as one callable: put it between backward() and optimizer.step(). Adaptive clipping and handling."""

import sys

import torch
from sklearn.datasets import load_digits
from torch import nn

import stepscope
from stability import GradientClippingConfig, NaNHandlingConfig, PyTorchDebuggingConfig, create_training_wrapper


def main(folder: str) -> None:
    torch.manual_seed(0)
    digits = load_digits()
    images, labels = torch.from_numpy(digits.data).float() / 16, torch.from_numpy(digits.target)
    model = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    with (
        stepscope.open_run(folder, sinks=["tensorboard", "local"]) as run,
        create_training_wrapper(
            clipping_config=GradientClippingConfig(clipping_type="adaptive"),
            nan_config=NaNHandlingConfig(handling_type="adaptive"),
            debug_config=PyTorchDebuggingConfig(
                enable_memory_debugging=True, memory_tracking=True, debug_output_dir=f"{folder}/debug_output"
            ),
            emitter=run,
        ) as wrapper,
    ):
        clipped = 0
        for step in range(200):
            batch = torch.randint(len(images), (64,))
            # Every 50th batch is a million times as bright.
            inputs = images[batch] * (1e6 if step % 50 == 25 else 1.0)
            loss = nn.functional.cross_entropy(model(inputs), labels[batch])
            optimizer.zero_grad()
            loss.backward()
            stability_result = wrapper(model, loss, optimizer)
            clipped += stability_result["clipping_stats"]["clipped"]
            optimizer.step()
        debug_summary = wrapper.get_debug_summary()
    print(f"Training completed with {debug_summary['total_iterations']} debug iterations, {clipped} of them clipped")
    print(f"peak memory {debug_summary['peak_rss']:.0f} MB, loss {stability_result['loss']:.3f}")


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "runs/stability_wrapper")
