"""What users do today to watch a training step, and the floor: what no watcher can be faster than."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import nn

HUGE_NORM = 1e9
"""A bound that no gradient reaches: the clipping multiplies by one, so that both models stay the same."""


@dataclass(frozen=True)
class Watching:
    """A model that is being watched.

    Attributes:
        after_backward: Called with step and loss between backward and the optimizer's step.
        paused: Entered between two steps, for what belongs to the plain model.
        lag: How many artifacts still wait for their tracker; None where that cannot be asked.
        own_share: The overhead that the side itself has measured; None if it does not.
    """

    after_backward: Callable[[int, float], object]
    paused: Callable[[], AbstractContextManager[None]] = nullcontext
    lag: Callable[[], int | None] = lambda: None
    own_share: Callable[[], float | None] = lambda: None


Side = Callable[[nn.Module, torch.optim.Optimizer, Path], AbstractContextManager[Watching]]
"""Watches a model and its optimizer, writes under a folder; leaving the context delivers what is left."""


@contextmanager
def floor(model: nn.Module, optimizer: torch.optim.Optimizer, folder: Path) -> Iterator[Watching]:
    """Reads every gradient once, for its norm."""
    parameters = list(model.parameters())

    def norms(step: int, loss: float) -> None:
        torch._foreach_norm([parameter.grad for parameter in parameters if parameter.grad is not None])

    yield Watching(norms)


@contextmanager
def clip(model: nn.Module, optimizer: torch.optim.Optimizer, folder: Path) -> Iterator[Watching]:
    """Clips by the norm of all gradients, as most training loops do."""
    parameters = list(model.parameters())
    yield Watching(lambda step, loss: nn.utils.clip_grad_norm_(parameters, HUGE_NORM))


@contextmanager
def add_histogram(model: nn.Module, optimizer: torch.optim.Optimizer, folder: Path) -> Iterator[Watching]:
    """TensorBoard's histogram of every gradient."""
    from torch.utils.tensorboard import SummaryWriter

    named = list(model.named_parameters())
    with SummaryWriter(str(folder)) as board:

        def write(step: int, loss: float) -> None:
            board.add_scalar("loss", loss, step)
            for name, parameter in named:
                board.add_histogram(f"gradients/{name}", parameter.grad, step)

        yield Watching(write)


@contextmanager
def naive_gradients(model: nn.Module, optimizer: torch.optim.Optimizer, folder: Path) -> Iterator[Watching]:
    """Eight statistics of every gradient, one ``.item()`` and one TensorBoard scalar each."""
    from torch.utils.tensorboard import SummaryWriter

    named = list(model.named_parameters())
    with SummaryWriter(str(folder)) as board:

        def write(step: int, loss: float) -> None:
            for name, parameter in named:
                gradient = parameter.grad
                assert gradient is not None
                for statistic in (torch.mean, torch.std, torch.min, torch.max, torch.norm):
                    board.add_scalar(f"{name}/{statistic.__name__}", statistic(gradient).item(), step)
                board.add_scalar(f"{name}/zeros", (gradient == 0).sum().item(), step)
                board.add_scalar(f"{name}/nans", gradient.isnan().sum().item(), step)
                board.add_scalar(f"{name}/infinities", gradient.isinf().sum().item(), step)

        yield Watching(write)


@contextmanager
def naive_activations(model: nn.Module, optimizer: torch.optim.Optimizer, folder: Path) -> Iterator[Watching]:
    """Ten statistics of the output of every leaf module, each a ``float(tensor)`` in a forward hook."""
    captured: dict[str, dict[str, float]] = {}

    def hook_for(name: str) -> Callable[[nn.Module, object, torch.Tensor], None]:
        def capture(module: nn.Module, inputs: object, output: torch.Tensor) -> None:
            values = output.detach()
            captured[name] = {
                "mean": float(values.mean()),
                "std": float(values.std()),
                "min": float(values.min()),
                "max": float(values.max()),
                "l1_norm": float(values.abs().mean()),
                "l2_norm": float(values.norm()),
                "sparsity": float((values == 0).float().mean()),
                "positive_ratio": float((values > 0).float().mean()),
                "saturation_low": float((values <= -1).float().mean()),
                "saturation_high": float((values >= 1).float().mean()),
            }

        return capture

    leaves = [(name, module) for name, module in model.named_modules() if not list(module.children())]
    handles = [module.register_forward_hook(hook_for(name)) for name, module in leaves]
    yield Watching(lambda step, loss: None)
    for handle in handles:
        handle.remove()


def wandb_watch(log: str) -> Side:
    """Returns ``wandb.watch`` at every step, offline; ``log`` is "gradients" or "all"."""

    @contextmanager
    def side(model: nn.Module, optimizer: torch.optim.Optimizer, folder: Path) -> Iterator[Watching]:
        import wandb

        run = wandb.init(mode="offline", dir=str(folder), settings=wandb.Settings(silent=True))
        run.watch(model, log=log, log_freq=1)
        yield Watching(lambda step, loss: run.log({"loss": loss}))
        run.unwatch(model)
        run.finish()

    return side


THEIRS: dict[str, Side] = {
    "floor": floor,
    "clip": clip,
    "wandb_gradients": wandb_watch("gradients"),
    "wandb_all": wandb_watch("all"),
    "add_histogram": add_histogram,
    "naive_gradients": naive_gradients,
    "naive_activations": naive_activations,
}
TITLES = {
    "floor": "torch._foreach_norm",
    "clip": "clip_grad_norm_",
    "wandb_gradients": "wandb.watch(gradients)",
    "wandb_all": "wandb.watch(all)",
    "add_histogram": "add_histogram of gradients",
    "naive_gradients": "8 statistics with .item()",
    "naive_activations": "10 activation statistics",
}
