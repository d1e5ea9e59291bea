"""One training of a random composition, watched or not; it notes what it computed, and what is left behind."""

import copy
import hashlib
import io
import random
import sys
from contextlib import nullcontext
from typing import Any

import numpy as np
import torch
from composed_models import WIDTH, network
from composed_observer import Observer
from compositions import Case
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

OPTIMIZERS = {
    "sgd": lambda parameters: torch.optim.SGD(parameters, lr=0.01, momentum=0.9, weight_decay=0.01),
    "adamw": lambda parameters: torch.optim.AdamW(parameters, lr=0.01),
    "foreach": lambda parameters: torch.optim.AdamW(parameters, lr=0.01, foreach=True),
    "fused": lambda parameters: torch.optim.Adam(parameters, lr=0.01, fused=True),
    "lbfgs": lambda parameters: torch.optim.LBFGS(parameters, lr=0.05, max_iter=3),
}


class Planted(RuntimeError):
    """An error of the training's own, which the loop catches."""


def digest(value: Any) -> str:
    """A short digest of tensors and plain values, to the bit."""
    found = hashlib.sha1()

    def add(item: Any) -> None:
        if isinstance(item, torch.Tensor):
            found.update(item.detach().contiguous().reshape(-1).view(torch.uint8).numpy().tobytes())
        elif isinstance(item, dict):
            for key in item:
                add(item[key])
        elif isinstance(item, (list, tuple)):
            for one in item:
                add(one)
        else:
            found.update(repr(item).encode())

    add(value)
    return found.hexdigest()[:12]


class Training:
    """Runs a case; ``observer`` looks on, or nobody does."""

    def __init__(self, case: Case, observer: Observer | None) -> None:
        torch.manual_seed(case.seed), np.random.seed(case.seed), random.seed(case.seed)
        self.case = case
        self.inputs = torch.randn(64, WIDTH, generator=torch.Generator().manual_seed(case.seed))
        self.targets = 0.5 * self.inputs.sum(1, keepdim=True)
        self.model = self.net = network(case.model)
        if case.compiled == "outer":
            self.net = torch.compile(self.model, backend="eager")
        elif case.compiled == "inplace":
            self.model.compile(backend="eager")
        self.optimizer = OPTIMIZERS[case.optimizer]([p for p in self.model.parameters() if p.requires_grad])
        self.scaler = torch.amp.GradScaler("cpu", init_scale=1024.0, growth_interval=4) if case.scaler else None
        self.critic = network("mlp") if case.second else None
        self.critic_optimizer = torch.optim.SGD(self.critic.parameters(), lr=0.01) if self.critic else None
        self.observer = observer or Observer(case, None)
        self.bits: list[tuple[Any, ...]] = []
        """After each step: digests of all that a training is."""
        self.norms: list[dict[str, float]] = []
        """The true norm of each gradient, at each step that counts as one."""
        self.losses: list[float] = []
        self.copies: list[str] = []
        self.is_spent = False

    def run(self) -> None:
        """Trains to the end."""
        case, batches = self.case, self.batches()
        self.observer.begin(self)
        try:
            for number in range(case.steps):
                if case.new_head and number == case.steps // 2:
                    self.replace_head()
                try:
                    self.step(number, [next(batches) for _ in range(case.accumulate)])
                except (Planted, RuntimeError) as error:
                    if not isinstance(error, Planted) and "shapes cannot be multiplied" not in str(error):
                        raise
                    self.optimizer.zero_grad()
                self.between(number)
                self.bits.append(self.now())
                if number == case.break_after:
                    self.observer.end()
                    self.observer.begin(self)
        finally:
            batches.close()
            self.observer.end(last=True)

    def batches(self) -> Any:
        """Yields batches for ever."""
        if self.case.workers:
            loader = DataLoader(TensorDataset(self.inputs, self.targets), 8, shuffle=True, num_workers=1)
            while True:
                yield from loader
        while True:
            chosen = torch.randint(0, 64, (8,))
            yield self.inputs[chosen], self.targets[chosen]

    def loss(self, inputs: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        """The loss of one micro-batch."""
        outputs = self.net(inputs)
        loss = (outputs - targets).square().mean() / self.case.accumulate
        if self.critic is not None:
            loss = loss + 0.01 * self.critic(inputs * outputs).mean()
        return loss

    def fail(self, where: str, number: int) -> None:
        """Raises the planted error where it is due, once."""
        if (self.case.error, self.case.error_at) == (where, number) and not self.is_spent:
            self.is_spent = True
            raise Planted(where)

    def step(self, number: int, batches: list[Any]) -> None:
        """One step, with the second model's before it."""
        if self.critic is not None and self.critic_optimizer is not None:
            self.critic_optimizer.zero_grad()
            with torch.no_grad():
                made = self.net(batches[0][0])
            self.critic(batches[0][0] * made).square().mean().backward()
            self.critic_optimizer.step()
        if self.case.is_closure:
            self.closure_step(batches)
            return
        faulty, kind = number == self.case.fault_at, self.case.fault
        if faulty and kind in ("nan_input", "inf_input"):
            batches = [(inputs.clone(), targets) for inputs, targets in batches]
            batches[0][0][0, 0] = float(kind[:3])
        self.optimizer.zero_grad()
        total = 0.0
        for inputs, targets in batches:
            if self.case.error == "forward" and number == self.case.error_at and not self.is_spent:
                self.is_spent = True
                self.model.head(inputs[:, 1:])
            loss = self.loss(inputs, targets) * (float("nan") if faulty and kind == "nan_loss" else 1.0)
            self.fail("loss", number)
            (self.scaler.scale(loss) if self.scaler else loss).backward()
            total = total + loss.detach()
        if faulty and kind == "nan_gradient":
            self.model.head.weight.grad[0, 0] = float("nan")
        self.fail("after_backward", number)
        self.update(number, total, batches)

    def update(self, number: int, loss: torch.Tensor, batches: list[Any]) -> None:
        """Hands over and updates; notes what counts as a step."""
        scale = self.scaler.get_scale() if self.scaler else 1.0
        norms = self.true_norms(scale)
        if self.case.way != "watch":
            self.count(norms, loss)
        self.observer.look(loss, lambda: sum(self.loss(*batch) for batch in batches))
        self.fail("after_session", number)
        if self.scaler is None:
            self.optimizer.step()
        else:
            self.scaler.step(self.optimizer)
            self.scaler.update()
        skipped = self.scaler is not None and self.scaler.get_scale() < scale
        if self.case.way == "watch" and not skipped:
            self.count(norms, loss)

    def closure_step(self, batches: list[Any]) -> None:
        """One step of an optimizer that calls the model."""
        calls: list[torch.Tensor] = []

        def closure() -> torch.Tensor:
            self.optimizer.zero_grad()
            loss = self.loss(*batches[0])
            loss.backward()
            calls.append(loss.detach())
            if len(calls) == 1:
                self.count(self.true_norms(1.0), loss.detach())
                self.observer.look(loss, None)
            return loss

        self.optimizer.step(closure)

    def count(self, norms: dict[str, float], loss: torch.Tensor) -> None:
        """Notes the truth about a step that counts as one."""
        self.norms.append(norms)
        self.losses.append(float(loss))

    def true_norms(self, scale: float) -> dict[str, float]:
        """Norms of the gradients by name, in float64 and without the scale."""
        named = [(name, p.grad) for name, p in self.model.named_parameters() if p.grad is not None]
        return {name: float((gradient.double() / scale).norm()) for name, gradient in named}

    def replace_head(self) -> None:
        """Puts another head in the place of the one that is there."""
        self.model.head = nn.Linear(WIDTH, 1)
        self.optimizer.add_param_group({"params": list(self.model.head.parameters())})

    def between(self, number: int) -> None:
        """A validation, and a copy of the model."""
        if self.case.validation and number % 3 == 1:
            self.model.eval()
            pause = self.observer.paused() if self.case.validation == "paused" else nullcontext()
            with pause, torch.set_grad_enabled(self.case.validation == "with_gradients"):
                self.net(self.inputs[:5])
            self.model.train()
        if self.case.copies and number == self.case.steps // 2:
            with torch.random.fork_rng():
                self.copies.append(self.copied())

    def copied(self) -> str:
        """Copies the model as it is, uses the copy, and returns its bits; what is saved must load without us."""
        if self.case.copies == "average":
            other = torch.optim.swa_utils.AveragedModel(self.model)
            other.update_parameters(self.model)
        elif self.case.copies == "deepcopy" or self.case.compiled:
            other = copy.deepcopy(self.model)
        else:
            buffer = io.BytesIO()
            torch.save(self.model, buffer)
            for package in (b"stepscope", b"debuggers", b"stability", b"tracker_adapters"):
                assert package not in buffer.getvalue(), f"what is saved needs {package.decode()}"
            buffer.seek(0)
            other = torch.load(buffer, weights_only=False)
        hooks = [len(module._forward_hooks) + len(module._forward_pre_hooks) for module in other.modules()]
        return f"{hooks} {digest(other.eval()(self.inputs[:3]))}"

    def now(self) -> tuple[Any, ...]:
        """What must be the same with and without an observer."""
        gradients = [p.grad for p in self.model.parameters() if p.grad is not None]
        critic = [] if self.critic is None else list(self.critic.parameters())
        generators = (torch.get_rng_state(), repr(np.random.get_state()), random.getstate())
        return (
            len(gradients), digest(gradients),
            digest(list(self.model.parameters())), digest(list(self.model.buffers())),
            digest(self.optimizer.state_dict()["state"]), digest(critic), digest(generators), self.model.training,
        )  # fmt: skip

    def surface(self) -> dict[str, Any]:
        """Where hooks and the like could be left."""
        found: dict[str, Any] = {}
        modules = [*self.model.named_modules(prefix="model")]
        modules += [] if self.critic is None else [*self.critic.named_modules(prefix="critic")]
        for name, module in modules:
            counts = {key: len(value) for key, value in vars(module).items() if "hooks" in key}
            found[name] = (type(module), sorted(vars(module)), counts)
        for name, parameter in self.model.named_parameters():
            hooks = parameter._backward_hooks, getattr(parameter, "_post_accumulate_grad_hooks", None)
            found[name] = [len(one or ()) for one in hooks]
        for place in (sys.modules["torch.nn.modules.module"], sys.modules["torch.optim.optimizer"]):
            hooks_of_all = {key: value for key, value in vars(place).items() if key.startswith("_global")}
            found[place.__name__] = {key: len(one) for key, one in hooks_of_all.items() if isinstance(one, dict)}
        for optimizer in filter(None, (self.optimizer, self.critic_optimizer)):
            found[f"optimizer {type(optimizer).__name__} {optimizer is self.optimizer}"] = {
                key: len(one) for key, one in vars(optimizer).items() if "hooks" in key
            }
        found["torch"] = (
            torch.is_anomaly_enabled(),
            torch.is_grad_enabled(),
            nn.Module.__call__,
            torch.Tensor.backward,
        )
        return found
