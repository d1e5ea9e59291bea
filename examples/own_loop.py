"""A custom training loop with the stability manager, and debuggers in the validation of every second epoch."""

import sys
from pathlib import Path

import torch
from sklearn.datasets import load_digits
from torch import nn

import stepscope
from debuggers.activation_stats import ActivationStatsDebugger
from debuggers.feature_map import FeatureMapDebugger
from debuggers.integration import after_epoch, before_epoch, checkpoint_indices
from debuggers.pages import PageReader
from debuggers.wrappers.sequential_debugger import SequentialDebugger
from stability import GradientClippingConfig, NaNHandlingConfig, NumericalStabilityManager

EPOCHS = 4
DEBUGGERS = [
    {"name": "maps", "debugger_config": {"class": FeatureMapDebugger, "args": {"layer_name": "0"}}},
    {"name": "hidden", "debugger_config": {"class": ActivationStatsDebugger, "args": {"layer_name": "3"}}},
]


def main(folder: str) -> None:
    torch.manual_seed(0)
    digits = load_digits()
    images = torch.from_numpy(digits.images).float()[:, None] / 16
    labels = torch.from_numpy(digits.target)
    model = nn.Sequential(nn.Conv2d(1, 8, 3), nn.ReLU(), nn.Flatten(), nn.Linear(8 * 36, 10))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    epochs_to_debug = checkpoint_indices(2, EPOCHS)
    with stepscope.open_run(folder, sinks=["tensorboard", "local"]) as run:
        stability = NumericalStabilityManager(GradientClippingConfig(max_norm=1.0), NaNHandlingConfig(), emitter=run)
        with SequentialDebugger(DEBUGGERS, model, emitter=run.scoped("validation"), keep=["labels"]) as debugger:
            step = 0
            for epoch in range(EPOCHS):
                for batch in torch.randperm(1500).split(100):
                    loss = nn.functional.cross_entropy(model(images[batch]), labels[batch])
                    optimizer.zero_grad()
                    loss.backward()
                    stability.step(model, loss, optimizer)
                    optimizer.step()
                    run.scalar("train/loss", loss, step=step)
                    step += 1
                before_epoch(debugger, run.path, epoch, epochs_to_debug)
                debugger.step = step
                for index in range(1500, 1520):
                    with torch.no_grad():
                        outputs = model(images[index : index + 1])
                    datapoint = {"labels": labels[index], "outputs": outputs, "meta_info": {"idx": index}}
                    debugger(datapoint, model)  # does nothing in an epoch that is not debugged
                after_epoch(debugger)
    pages = PageReader(Path(folder) / f"epoch_{epochs_to_debug[-1]}" / "debugger")
    print(f"{len(pages)} datapoints in pages; the first one's map has shape {pages[1500]['maps']['feature_map'].shape}")


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "runs/own_loop")
