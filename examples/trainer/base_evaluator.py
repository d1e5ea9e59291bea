"""An evaluator with the four places where a debugger is connected; the rest is what any evaluator does."""

import json
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import torch
from config_file import build
from datapoints import mean_scores, predict
from torch.utils.data import DataLoader

import stepscope
from debuggers.integration import after_epoch, before_epoch
from debuggers.wrappers.sequential_debugger import SequentialDebugger


class BaseEvaluator:
    """Evaluates a checkpoint as a configuration describes; every datapoint is debugged.

    ``work_dir`` gets ``evaluation_scores.json`` and the pages in ``debugger``. The configuration's ``debugger``
    and ``run`` are optional.
    """

    def __init__(self, config: dict[str, Any]) -> None:
        self.config = config
        self.work_dir = Path(config["work_dir"])
        self.device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
        self.run: stepscope.Run | None = None
        self.debugger: SequentialDebugger | None = None

    def evaluate(self) -> dict[str, float]:
        """Goes through the data once; returns the scores."""
        self._init_components()
        with ExitStack() as stack:
            if self.config.get("run"):
                self.run = stack.enter_context(stepscope.open_run(**self.config["run"], config=self.config))
            self._init_debugger()
            if self.debugger:
                stack.enter_context(self.debugger)
            self._eval_epoch_()
        return self.scores

    def _init_components(self) -> None:
        self.model = build(self.config["model"]).to(self.device)
        # weights_only: a checkpoint holds data, and is never run.
        states = torch.load(self.config["checkpoint_filepath"], map_location=self.device, weights_only=True)
        self.model.load_state_dict(states["model"])
        self.metric = build(self.config["metric"])
        self.loader = DataLoader(build(self.config["eval_dataset"]), batch_size=self.config["batch_size"])

    def _init_debugger(self) -> None:
        if self.config.get("debugger"):
            emitter = self.run.scoped("evaluation") if self.run else None
            self.debugger = build(self.config["debugger"], model=self.model, emitter=emitter)

    @torch.no_grad()
    def _eval_epoch_(self) -> None:
        self.model.eval()
        self.eval_scores: list[dict[str, torch.Tensor]] = []
        if self.debugger:
            before_epoch(self.debugger, self.work_dir)
        for dp in self.loader:
            self._eval_step(dp)
        self._after_eval_loop_()

    def _eval_step(self, dp: dict[str, Any]) -> None:
        predict(dp, self.model, self.metric, self.device)
        self.eval_scores.append(dp["scores"])
        if self.debugger and self.debugger.enabled:
            dp["debug"] = self.debugger(dp, self.model)

    def _after_eval_loop_(self) -> None:
        self.scores = mean_scores(self.eval_scores)
        if self.run:
            for name, value in self.scores.items():
                self.run.scalar(f"evaluation/{name}", value, step=0)
        if self.debugger:
            after_epoch(self.debugger)
        self.work_dir.mkdir(parents=True, exist_ok=True)
        (self.work_dir / "evaluation_scores.json").write_text(json.dumps(self.scores), encoding="utf-8")
