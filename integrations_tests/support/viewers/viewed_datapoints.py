"""Runs for the viewer's views of datapoints, images and texts: trainings, ten thousand datapoints, a hostile page."""

import os

import joblib
import numpy as np
import torch
from digits_data import digits_data
from tracker_adapters.artifacts import PageEntry

import stepscope
from debuggers.attention import AttentionDebugger
from debuggers.feature_map import FeatureMapDebugger
from debuggers.gradcam import GradCAMDebugger
from debuggers.page_files.saving import write_page
from debuggers.wrappers.sequential_debugger import SequentialDebugger

COUNT = 48
STEPS = 30
MANY = 10_000
SCRIPT = "<img src=x onerror=alert(1)>"


class Network(torch.nn.Module):
    """A convolution, attention over sixteen places, and a linear head."""

    def __init__(self):
        super().__init__()
        self.conv = torch.nn.Sequential(torch.nn.Conv2d(1, 8, 3, padding=1), torch.nn.ReLU())
        self.down = torch.nn.Conv2d(8, 8, 2, 2)
        self.attention = torch.nn.MultiheadAttention(8, 2, batch_first=True)
        self.head = torch.nn.Linear(8, 10)

    def forward(self, images):
        """(B, 1, 8, 8) to (B, 10)."""
        tokens = self.down(self.conv(images)).flatten(2).transpose(1, 2)
        return self.head((tokens + self.attention(tokens, tokens, tokens, need_weights=False)[0]).mean(1))


CONFIG = [
    {"name": "maps", "debugger_config": {"class": FeatureMapDebugger, "args": {"layer_name": "conv"}}},
    {"name": "attention", "debugger_config": {"class": AttentionDebugger, "args": {"layer_name": "attention"}}},
    {"name": "cam", "debugger_config": {"class": GradCAMDebugger, "args": {"target_layer": "conv"}}},
]


def train(path, seed):
    """Trains on digits for 30 steps with an image at each, and keeps the pages of two epochs."""
    torch.manual_seed(seed)
    rows, classes = digits_data()
    images = torch.tensor(rows[:COUNT]).float().reshape(-1, 1, 8, 8) / 16
    labels = torch.tensor(classes[:COUNT])
    model = Network()
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    kept = ["inputs", "labels", "outputs", "scores", "meta_info"]
    with (
        stepscope.open_run(path, sinks=[]) as run,
        SequentialDebugger(CONFIG, model, emitter=run.scoped("validation"), keep=kept) as debugger,
    ):
        for epoch in range(2):
            debugger.enabled = False
            for step in range(epoch * STEPS // 2, (epoch + 1) * STEPS // 2):
                loss = torch.nn.functional.cross_entropy(model(images), labels)
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                run.at(step).scalar("train/loss", loss.item())
                weights = model.conv[0].weight.detach()[:, 0].reshape(-1, 3)
                run.at(step).image("weights", weights, layout="HW", value_range=(-0.5, 0.5))
            debugger.enabled, debugger.step = True, step
            debugger.begin_epoch(run.path / f"epoch_{epoch}/debugger")
            with torch.no_grad():
                outputs = model(images)
            scores = {"loss": torch.nn.functional.cross_entropy(outputs, labels, reduction="none")}
            meta_info = {"idx": torch.arange(COUNT), "file": SCRIPT}
            batch = {"inputs": images, "labels": labels, "outputs": outputs, "scores": scores, "meta_info": meta_info}
            debugger(batch, model)
            debugger.save_all()
        _record_the_rest(run, path.parent / "notes.html")
    return run.path


def _record_the_rest(run, notes):
    for step in (0, 10):
        run.at(step).text("notes", f"# Step {step}\n\n**bold** {SCRIPT} [bad](javascript:alert(1))")
        run.at(step).table("classes", ["class", "count"], [[SCRIPT, 3], ["b", 20 + step], ["c", 1]])
        run.at(step).curve("ratio", [0.0, 0.5, 1.0], [float("nan"), 1.0, float("inf")])
        run.at(step).curve("roc", [0.0, 0.5, 1.0], [0.0, 0.7, 1.0], x_label="fpr", y_label="tpr")
    notes.write_text("<script>alert(1)</script>", encoding="utf-8")
    run.at(3).file(notes, media_type="text/html")
    run.at(7).alert("plateau", f"The loss stays. {SCRIPT}", level="warning")
    run.at(9).alert("nan_gradient", "NaN in conv.0.weight", level="error")


class _Runs:
    """A page that would make a folder when it is loaded."""

    def __init__(self, folder):
        self.folder = folder

    def __reduce__(self):
        return os.mkdir, (str(self.folder),)


def record_many(folder):
    """A run with one page of ten thousand datapoints, a quarter of them wrong."""
    with stepscope.open_run(folder / "runs/many", sinks=[]) as run:
        outputs = np.array([0.0, 1.0], np.float32)
        datapoints = {
            idx: {"stats": {"mean": float(idx)}, "datapoint": {"outputs": outputs, "labels": int(idx % 4 > 0)}}
            for idx in range(MANY)
        }
        (folder / "many").mkdir()
        record = write_page(folder / "many", 0, datapoints)
        contents = [PageEntry(datapoint=idx, debugger="stats", summary="") for idx in datapoints]
        run.at(1).page(folder / "many" / record.page, contents=contents, sha256=record.sha256)


def record_hostile(folder):
    """A run with a page that would execute something, and one that is fine."""
    with stepscope.open_run(folder / "runs/hostile", sinks=[]) as run:
        joblib.dump({0: {"bad": _Runs(folder / "executed")}}, folder / "page_0.pkl")
        run.at(1).page(folder / "page_0.pkl", contents=[PageEntry(datapoint=0, debugger="bad", summary="")])
        joblib.dump({0: {"fine": 0.5}}, folder / "page_1.pkl")
        run.at(1).page(folder / "page_1.pkl", contents=[PageEntry(datapoint=1, debugger="fine", summary="")])
