"""Trains on the digits, and keeps debug outputs of every fifth epoch."""

import torch
from digit_task import ClassificationScores, ConfidenceDebugger, DigitDataset, DigitNetwork

from debuggers.activation_stats import ActivationStatsDebugger
from debuggers.feature_map import FeatureMapDebugger
from debuggers.wrappers.sequential_debugger import SequentialDebugger

config = {
    "work_dir": "work_dir/digits",
    "run": {"path": "runs/digits", "sinks": ["tensorboard", "local"], "resume": True},
    "seed": 0,
    "epochs": 10,
    "batch_size": 64,
    "checkpoint_method": 5,  # every fifth epoch and the last one
    "model": {"class": DigitNetwork, "args": {"channels": 16}},
    "optimizer": {"class": torch.optim.AdamW, "args": {"lr": 1e-2}},
    "metric": {"class": ClassificationScores},
    "train_dataset": {"class": DigitDataset, "args": {"split": "train"}},
    "val_dataset": {"class": DigitDataset, "args": {"split": "val"}},
    "debugger": {
        "class": SequentialDebugger,
        "args": {
            "page_size_mb": 1,
            "keep": ["inputs", "labels", "outputs", "scores"],
            "debuggers_config": [
                {
                    "name": "backbone_features",
                    "debugger_config": {"class": FeatureMapDebugger, "args": {"layer_name": "backbone.conv2"}},
                },
                {
                    "name": "head_stats",
                    "debugger_config": {"class": ActivationStatsDebugger, "args": {"layer_name": "head"}},
                },
                {"name": "confidence", "debugger_config": {"class": ConfidenceDebugger}},
            ],
        },
    },
}
