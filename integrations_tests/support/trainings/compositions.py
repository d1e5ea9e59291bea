"""Draws a training and a way to observe it; which of them go together."""

import random
from dataclasses import dataclass
from typing import Any

from composed_models import BODIES

MANAGERS = ["detect", "replace", "gradient_zeroing", "gradient_scaling", "skip", "restore", "adaptive"]
CLIPPINGS = ["norm", "none", "value", "global_norm", "adaptive", "exponential", "percentile", "agc"]


@dataclass(frozen=True, kw_only=True)
class Case:
    """What is trained, what happens to it, and who looks on; see ``composed_training``."""

    seed: int
    model: str
    optimizer: str
    steps: int
    accumulate: int
    scaler: bool
    compiled: str | None
    second: bool
    way: str
    preset: str
    settings: dict[str, Any]
    manager: str | None
    clipping: str
    replay: bool
    fault: str | None
    fault_at: int
    error: str | None
    error_at: int
    validation: str | None
    copies: str | None
    new_head: bool
    break_after: int | None
    """The step after which the session ends and another one begins."""
    resumes: bool
    """Whether the run ends with it and is resumed."""
    run: bool
    sinks: tuple[str, ...]
    workers: bool
    thread: bool

    @property
    def is_closure(self) -> bool:
        """Whether the optimizer calls the model."""
        return self.optimizer == "lbfgs"


def draw(seed: int) -> Case:
    """Draws case ``seed``."""
    generator = random.Random(seed)
    one_of = generator.choice

    def maybe(share: float, value: Any = True, otherwise: Any = None) -> Any:
        return value if generator.random() < share else otherwise

    steps = one_of([4, 9, 28])
    optimizer = one_of(["sgd", "adamw", "foreach", "fused", "lbfgs"])
    closure = optimizer == "lbfgs"
    way = one_of(["watch", "told", "session", "session"])
    manager = maybe(0.5, one_of(MANAGERS)) if way == "session" and not closure else None
    scaler = bool(maybe(0.25)) and not closure
    model = one_of(list(BODIES))
    compiled = maybe(0.2, one_of(["outer", "inplace"])) if model in ("mlp", "tied", "half frozen") else None
    errors = ["forward", "loss", "after_backward"] + ["after_session"] * (way != "watch" and not (scaler and manager))
    return Case(
        seed=seed,
        model=model,
        optimizer=optimizer,
        steps=steps,
        accumulate=1 if closure else one_of([1, 1, 3]),
        scaler=scaler,
        compiled=compiled,
        second=bool(maybe(0.25)),
        way=way,
        preset=one_of(["economy", "standard", "full"]),
        settings=_settings(generator, maybe),
        manager=manager,
        clipping=one_of(CLIPPINGS),
        replay=bool(maybe(0.5)) and way != "watch" and not closure,
        fault=None if closure else one_of([None, None, "nan_input", "inf_input", "nan_gradient", "nan_loss"]),
        fault_at=generator.randrange(steps),
        error=None if closure else maybe(0.4, one_of(errors)),
        error_at=generator.randrange(steps),
        validation=one_of([None, "no_grad", "paused", "with_gradients"]),
        copies=one_of([None, None, "deepcopy", "pickle", "average"]),
        new_head=bool(maybe(0.2)) and not closure,
        break_after=maybe(0.3, generator.randrange(steps - 1)),
        resumes=bool(maybe(0.5)),
        run=bool(maybe(0.85)),
        sinks=maybe(0.1, (one_of(["local", "tensorboard"]),), ()),
        workers=bool(maybe(0.06)),
        thread=bool(maybe(0.15)),
    )


def _settings(generator: random.Random, maybe: Any) -> dict[str, Any]:
    found = {
        "every": maybe(0.2, generator.choice([2, 3])),
        "max_overhead": maybe(0.3, generator.choice([0.01, 0.5])),
        "updates": maybe(0.3),
        "weights": maybe(0.2),
        "activations": maybe(0.3),
    }
    chosen = {name: value for name, value in found.items() if value is not None}
    if "activations" in chosen and maybe(0.5):
        chosen["activation_gradients"] = True
    return chosen
