"""All tools of a debug session, with limits, for an unattended run; faults trigger remedies."""

import math
import sys

import torch
from sklearn.datasets import load_digits
from torch import nn

import stepscope
from stability import (
    GradientClippingConfig,
    LearnedDetector,
    NaNHandlingConfig,
    NumericalStabilityManager,
    PyTorchDebuggingConfig,
)


def main(folder: str) -> None:
    torch.manual_seed(0)
    digits = load_digits()
    images, labels = torch.from_numpy(digits.data).float() / 16, torch.from_numpy(digits.target)
    model = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    debug_config = PyTorchDebuggingConfig(
        # Every tool; a gradient check takes no more than a tenth of a second, every 50 steps.
        enable_autograd_anomaly=True,
        autograd_anomaly_mode="detect",
        enable_grad_check=True,
        grad_check_every=50,
        grad_check_budget_s=0.1,
        enable_memory_debugging=True,
        memory_tracking=True,
        memory_profiling=True,
        enable_performance_debugging=True,
        profile_autograd=True,
        # Quiet and bounded.
        debug_level="warning",
        save_debug_info=True,
        debug_output_dir=f"{folder}/production_debug_logs",
        max_debug_iterations=10_000,
        debug_timeout=1800.0,
    )
    with stepscope.open_run(folder, sinks=["tensorboard", "local"]) as run:
        stability_manager = NumericalStabilityManager(
            GradientClippingConfig(clipping_type="exponential"),
            NaNHandlingConfig(handling_type="restore", snapshot_every=20),
            debug_config,
            emitter=run,
            detector=LearnedDetector(),
        )
        stability_manager.start_debug_session("production")
        try:
            for step in range(300):
                batch = torch.randint(len(images), (64,))
                inputs = images[batch]
                if step == 200:
                    inputs[3, 5] = math.inf
                loss = nn.functional.cross_entropy(model(inputs), labels[batch])
                optimizer.zero_grad()
                loss.backward()
                result = stability_manager.step(model, loss, optimizer)
                if result["nan_stats"]["action"] == "restored":
                    print(f"step {step}: back to step {result['nan_stats']['restored_step']}")
                optimizer.step()
        finally:
            stability_manager.stop_debug_session()
    summary = stability_manager.get_debug_summary()
    print(f"{summary['anomalies_detected']} anomalies, loss {stability_manager.history[-1].loss:.4f}")


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "runs/stability_production")
