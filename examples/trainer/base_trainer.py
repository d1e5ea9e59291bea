"""A trainer with the five places where a debugger is connected; the rest is what any trainer does."""

import json
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import torch
from config_file import build
from datapoints import mean_scores, predict
from torch.utils.data import DataLoader

import stepscope
from debuggers.integration import after_epoch, before_epoch, checkpoint_indices
from debuggers.wrappers.sequential_debugger import SequentialDebugger


class BaseTrainer:
    """Trains what a configuration describes, validates it after each epoch, and saves the checkpoint epochs.

    ``work_dir/epoch_<n>`` holds ``checkpoint.pt``, ``validation_scores.json`` and the pages in ``debugger``.
    The configuration's ``debugger`` and ``run`` are optional.
    """

    def __init__(self, config: dict[str, Any]) -> None:
        self.config = config
        self.work_dir = Path(config["work_dir"])
        self.device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
        self.run: stepscope.Run | None = None
        self.debugger: SequentialDebugger | None = None
        self.epoch = 0
        self.step = 0

    def train(self) -> dict[str, float]:
        """Runs all epochs; returns the scores of the last validation."""
        self._init_components()
        with ExitStack() as stack:
            if self.config.get("run"):
                self.run = stack.enter_context(stepscope.open_run(**self.config["run"], config=self.config))
            self._init_debugger()
            if self.debugger:
                stack.enter_context(self.debugger)
            self._init_checkpoint_indices()
            for epoch in range(self.config["epochs"]):
                self.epoch = epoch
                self._train_epoch_()
                self._val_epoch_()
        return self.scores

    def _init_components(self) -> None:
        torch.manual_seed(self.config["seed"])
        self.model = build(self.config["model"]).to(self.device)
        self.optimizer = build(self.config["optimizer"], params=self.model.parameters())
        self.metric = build(self.config["metric"])
        size = self.config["batch_size"]
        self.train_loader = DataLoader(build(self.config["train_dataset"]), batch_size=size, shuffle=True)
        self.val_loader = DataLoader(build(self.config["val_dataset"]), batch_size=size)

    def _init_debugger(self) -> None:
        if self.config.get("debugger"):
            emitter = self.run.scoped("validation") if self.run else None
            self.debugger = build(self.config["debugger"], model=self.model, emitter=emitter)

    def _init_checkpoint_indices(self) -> None:
        self.checkpoint_indices = checkpoint_indices(self.config["checkpoint_method"], self.config["epochs"])

    def _train_epoch_(self) -> None:
        self.model.train()
        for dp in self.train_loader:
            predict(dp, self.model, self.metric, self.device)
            loss = dp["scores"]["loss"].mean()
            self.optimizer.zero_grad()
            loss.backward()
            self.optimizer.step()
            if self.run:
                self.run.scalar("train/loss", loss, step=self.step)
            self.step += 1

    @torch.no_grad()
    def _val_epoch_(self) -> None:
        self._before_val_loop()
        for dp in self.val_loader:
            self._eval_step(dp)
        self._after_val_loop_()

    def _before_val_loop(self) -> None:
        self.model.eval()
        self.val_scores: list[dict[str, torch.Tensor]] = []
        if self.debugger:
            self.debugger.step = self.step
            before_epoch(self.debugger, self.work_dir, self.epoch, self.checkpoint_indices)

    def _eval_step(self, dp: dict[str, Any]) -> None:
        predict(dp, self.model, self.metric, self.device)
        self.val_scores.append(dp["scores"])
        if self.debugger and self.debugger.enabled:
            dp["debug"] = self.debugger(dp, self.model)

    def _after_val_loop_(self) -> None:
        self.scores = mean_scores(self.val_scores)
        if self.run:
            for name, value in self.scores.items():
                self.run.scalar(f"validation/{name}", value, step=self.step)
        if self.debugger:
            after_epoch(self.debugger)
        if self.epoch in self.checkpoint_indices:
            self._save_checkpoint()

    def _save_checkpoint(self) -> None:
        folder = self.work_dir / f"epoch_{self.epoch}"
        folder.mkdir(parents=True, exist_ok=True)
        states = {"model": self.model.state_dict(), "optimizer": self.optimizer.state_dict(), "epoch": self.epoch}
        torch.save(states, folder / "checkpoint.pt")
        (folder / "validation_scores.json").write_text(json.dumps(self.scores), encoding="utf-8")
