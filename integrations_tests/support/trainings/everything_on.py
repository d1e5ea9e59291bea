"""Looks on at a training with everything at once: session, hooks, profiler, probes, validations, debuggers."""

import random
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np
import torch
from composed_training import digest
from torch import nn

import stepscope
from debuggers.activation_stats import ActivationStatsDebugger
from debuggers.attention import AttentionDebugger
from debuggers.conditional_hooks.builder import HookBuilder
from debuggers.conditional_hooks.vocabulary import HookAction, HookTrigger
from debuggers.errors import DebuggerConfigError
from debuggers.feature_map import FeatureMapDebugger
from debuggers.gradcam import GradCAMDebugger
from debuggers.layer_output import LayerOutputDebugger
from debuggers.wrappers.sequential_debugger import SequentialDebugger

PROBED_AT = 2
"""The step after which a batch is probed, layers are timed, and a validation runs."""


class Nobody:
    """Notes the bits of a training, and looks at nothing else; ``between`` trains as long as it is called."""

    def __init__(self) -> None:
        self.bits: list[tuple[Any, ...]] = []

    def begin(self, model: nn.Module, optimizer: torch.optim.Optimizer, scaler: Any = None) -> None:
        """Begins to look on."""
        self._model, self._optimizer = model, optimizer

    def between(self, loss: Any, inputs: torch.Tensor, targets: torch.Tensor | None = None) -> None:
        """Is called after each step, with its loss and batch."""
        model, state = self._model, self._optimizer.state_dict()["state"]
        generators = torch.get_rng_state(), repr(np.random.get_state()), random.getstate()
        gradients = [None if p.grad is None else p.grad.to_dense() for p in model.parameters()]
        parts = [loss, list(model.parameters()), list(model.buffers()), gradients, state, generators]
        self.bits.append((*map(digest, parts), [module.training for module in model.modules()]))

    def end(self) -> None:
        """Looks on no more."""


class Everything(Nobody):
    """Has all that there is looking on."""

    def __init__(self, folder: Path) -> None:
        super().__init__()
        self.folder = folder
        self.reports: list[stepscope.DebugReport] = []
        self.called = 0
        self._stack = ExitStack()
        self._number = 0

    def begin(self, model: nn.Module, optimizer: torch.optim.Optimizer, scaler: Any = None) -> None:
        super().begin(model, optimizer, scaler)
        self.run = self._stack.enter_context(stepscope.open_run(self.folder / "run", sinks=[]))
        self.session = stepscope.watch(
            model, optimizer, run=self.run, scaler=scaler, config="full", activation_gradients=True,
            output_dir=self.folder / "report",
        )  # fmt: skip
        self._stack.callback(self.session.close)
        for trigger in HookTrigger:
            for action in (one for one in HookAction if one != HookAction.RAISE):  # that ends a training
                self._register(trigger, action)
        self._debuggers = self._debugger(model)
        self.session.profiler.start_timer("training")

    def _register(self, trigger: HookTrigger, action: HookAction) -> None:
        options = {
            HookTrigger.EVERY_N_STEPS: {"n": 2},
            HookTrigger.AT_STEPS: {"steps": [1]},
            HookTrigger.ON_CONDITION: {"condition": "l2_norm >= 0"},
        }
        given = {"callback": self._callback} if action is HookAction.CALLBACK else {}
        builder = HookBuilder(f"{trigger} {action}").trigger(trigger, **options.get(trigger, {}))
        try:
            hook = builder.action(action, **given).max_executions(20).build()
        except DebuggerConfigError:  # steps have no tensor, and a forward pass no gradient
            return
        self.session.hooks.register_hook(hook)

    def _callback(self, event: Any) -> None:
        self.called += 1
        random.random(), np.random.rand(), torch.rand(1)

    def _debugger(self, model: nn.Module) -> SequentialDebugger | None:
        def entry(kind: type, **args: Any) -> dict[str, Any]:
            name = f"{kind.__name__} {next(iter(args.values()))}"
            return {"name": name, "debugger_config": {"class": kind, "args": args}}

        leaves = [name for name, one in model.named_modules() if isinstance(one, (nn.Linear, nn.Conv2d, nn.LSTM))]
        leaves = [name for name in leaves if name and not name.endswith("out_proj")][:3]
        chosen = [
            entry(kind, layer_name=name)
            for name in leaves
            for kind in (ActivationStatsDebugger, FeatureMapDebugger, LayerOutputDebugger)
        ]
        chosen += [
            entry(GradCAMDebugger, target_layer=name)
            for name, one in model.named_modules()
            if isinstance(one, nn.Conv2d)
        ]
        chosen += [
            entry(AttentionDebugger, layer_name=name)
            for name, one in model.named_modules()
            if isinstance(one, nn.MultiheadAttention)
        ]
        if not chosen:
            return None
        debugger = self._stack.enter_context(SequentialDebugger(chosen, model, emitter=self.run.scoped("pages")))
        debugger.begin_epoch(self.folder / "pages")
        return debugger

    def between(self, loss: Any, inputs: torch.Tensor, targets: torch.Tensor | None = None) -> None:
        number, self._number = self._number, self._number + 1
        if number == PROBED_AT:
            self._look_closely(inputs, targets)
        super().between(loss, inputs, targets)

    def _look_closely(self, inputs: torch.Tensor, targets: torch.Tensor | None) -> None:
        with torch.random.fork_rng():
            if targets is not None:
                self.probed = self.session.probe((inputs, targets), loss=nn.functional.mse_loss, steps=3)
            modes = [module.training for module in self._model.modules()]
            with self.session.validating(), torch.no_grad():
                self._model.eval()
                buffers = [buffer.clone() for buffer in self._model.buffers()]
                outputs = self._model(inputs)
                if self._debuggers is not None:
                    datapoint = {"inputs": inputs, "outputs": outputs, "meta_info": {"idx": range(len(inputs))}}
                    with torch.enable_grad():
                        self._debuggers(datapoint, self._model)
                for buffer, before in zip(self._model.buffers(), buffers, strict=True):
                    assert torch.equal(buffer, before), "the training's own validation changes a buffer"
            for module, mode in zip(self._model.modules(), modes, strict=True):
                module.training = mode
        self.session.validation(0.5, metrics={"accuracy": 0.5})
        self.session.profiler.measure_forward(inputs, repeats=1)
        self.session.report()
        self.session.evidence()

    def end(self) -> None:
        self.session.profiler.end_timer("training")
        if self._debuggers is not None:
            self._debuggers.save_all()
        self._stack.close()
        self.reports.append(self.session.report())
        assert self.session.close().verdict == self.reports[-1].verdict, "closed twice"
