"""A loop with clipping, NaN handling and a debug session: what one call a step finds, does and writes."""

import math
import sys

import torch
from sklearn.datasets import load_digits
from torch import nn

import stepscope
from stability import (
    GradientClippingConfig,
    NaNHandlingConfig,
    NumericalStabilityManager,
    PyTorchDebuggingConfig,
    plots,
)


def main(folder: str) -> None:
    torch.manual_seed(0)
    digits = load_digits()
    images, labels = torch.from_numpy(digits.data).float() / 16, torch.from_numpy(digits.target)
    model = nn.Sequential(nn.Linear(64, 64), nn.Tanh(), nn.Linear(64, 10))
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    debug_config = PyTorchDebuggingConfig(
        enable_autograd_anomaly=True,
        autograd_anomaly_mode="detect",
        enable_grad_check=True,
        enable_memory_debugging=True,
        save_debug_info=True,
        debug_output_dir=f"{folder}/debug_output",
    )
    with stepscope.open_run(folder, sinks=["tensorboard", "local"]) as run:
        stability_manager = NumericalStabilityManager(
            clipping_config=GradientClippingConfig(max_norm=1.0),
            nan_config=NaNHandlingConfig(handling_type="skip"),
            debug_config=debug_config,
            emitter=run,
        )
        stability_manager.start_debug_session("digits")
        for step in range(200):
            batch = torch.randint(len(images), (64,))
            inputs = images[batch]
            if step == 120:
                inputs[0, 0] = math.nan  # what a broken file does
            loss = nn.functional.cross_entropy(model(inputs), labels[batch])
            optimizer.zero_grad()
            loss.backward()
            result = stability_manager.step(model, loss, optimizer)
            if result["debug_info"]["anomalies_detected"]:
                print(f"step {step}: {result['debug_info']['anomaly_details'][0]['message']}")
            optimizer.step()
        files = stability_manager.stop_debug_session()
        plots.save(plots.stability_history(stability_manager.history), f"{folder}/stability.png")
        plots.emit(stability_manager.history, run)
    summary = stability_manager.get_debug_summary()
    print(f"Total anomalies detected: {summary['anomalies_detected']}, loss {stability_manager.history[-1].loss:.3f}")
    print(*(path.name for path in files), sep="\n")


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "runs/stability_basic")
