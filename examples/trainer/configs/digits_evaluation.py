"""Evaluates the trained network on digits that it has not seen, and keeps debug outputs of all of them."""

from digit_task import ClassificationScores, ConfidenceDebugger, DigitDataset, DigitNetwork

from debuggers.feature_map import FeatureMapDebugger
from debuggers.wrappers.sequential_debugger import SequentialDebugger

config = {
    "work_dir": "work_dir/digits_evaluation",
    "run": {"path": "runs/digits_evaluation", "sinks": ["tensorboard", "local"], "resume": True},
    "checkpoint_filepath": "work_dir/digits/epoch_9/checkpoint.pt",
    "batch_size": 64,
    "model": {"class": DigitNetwork, "args": {"channels": 16}},
    "metric": {"class": ClassificationScores},
    "eval_dataset": {"class": DigitDataset, "args": {"split": "test"}},
    "debugger": {
        "class": SequentialDebugger,
        "args": {
            "page_size_mb": 0.6,
            "keep": ["inputs", "labels", "outputs", "scores"],
            "debuggers_config": [
                {
                    "name": "backbone_features",
                    "debugger_config": {"class": FeatureMapDebugger, "args": {"layer_name": "backbone.conv2"}},
                },
                {"name": "confidence", "debugger_config": {"class": ConfidenceDebugger}},
            ],
        },
    },
}
