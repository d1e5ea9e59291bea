"""The validation's worst datapoints, with the feature maps that the network made of them."""

import sys

import torch
from sklearn.datasets import load_digits
from torch import nn

import stepscope
from debuggers.failed_datapoints import failures
from debuggers.feature_map import FeatureMapDebugger
from debuggers.wrappers.sequential_debugger import SequentialDebugger

DEBUGGERS = [{"name": "maps", "debugger_config": {"class": FeatureMapDebugger, "args": {"layer_name": "0"}}}]


def main(folder: str) -> None:
    torch.manual_seed(0)
    digits = load_digits()
    images = torch.from_numpy(digits.images).float()[:, None] / 16
    labels = torch.from_numpy(digits.target)
    model = nn.Sequential(nn.Conv2d(1, 8, 3), nn.ReLU(), nn.Flatten(), nn.Linear(8 * 36, 10))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    for batch in torch.randperm(1500).split(100):
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(images[batch]), labels[batch]).backward()
        optimizer.step()

    keep = ["inputs", "labels", "outputs", "scores"]
    with (
        stepscope.open_run(folder, sinks=["local"]) as run,
        SequentialDebugger(DEBUGGERS, model, emitter=run.scoped("validation"), keep=keep) as debugger,
    ):
        debugger.begin_epoch(run.path / "epoch_0/debugger")
        for rows in torch.arange(1500, 1797).split(99):
            with torch.no_grad():
                outputs = model(images[rows])
            loss = nn.functional.cross_entropy(outputs, labels[rows], reduction="none")
            datapoint = {"inputs": images[rows], "labels": labels[rows], "outputs": outputs, "scores": {"loss": loss}}
            debugger({**datapoint, "meta_info": {"idx": rows}}, model)
        debugger.save_all()

    worst = failures(run.path / "epoch_0", limit=3)
    print(f"{worst.wrong} of {worst.wrong + worst.right} were wrong; the worst:")
    for failure in worst:
        maps = failure.outputs["maps"]["feature_map"]
        print(
            f"digit {failure.datapoint}: labelled {failure.label}, predicted {failure.prediction}, "
            f"loss {failure.loss:.2f}, {len(maps)} maps, the strongest is {maps.max((1, 2)).argmax()}"
        )


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "runs/worst")
