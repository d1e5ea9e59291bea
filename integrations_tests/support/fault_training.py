"""A training run in a process of its own, for faults to be done to it: ``python fault_training.py JSON``.

It really trains: a softmax regression on scikit-learn's digits, in NumPy, the same to the last bit each time. Each step
emits what ``emitted_by`` counts. It says ``step <n>`` on standard output after each step; at the steps in ``pauses`` it
waits for a line on standard input, so that a fault can be done at a known moment; and it ends with one line of JSON.
"""

import functools
import json
import sys
from collections import Counter
from typing import Any

import numpy as np
from digits_data import digits_data

NAMES = ("loss", "accuracy", "grad/norm", "weight/norm")
HISTOGRAM_EVERY, IMAGE_EVERY, TEXT_EVERY = 5, 20, 50


def emitted_by(steps: int) -> Counter[str]:
    """Returns how many artifacts of each kind a training of so many steps emits."""

    def times(every: int) -> int:
        return -(-steps // every)

    return Counter(
        scalar=len(NAMES) * steps,
        histogram=times(HISTOGRAM_EVERY),
        image=times(IMAGE_EVERY),
        text=times(TEXT_EVERY),
    )


class Regression:
    """Softmax regression on the digits, by gradient descent on batches of 64."""

    def __init__(self) -> None:
        pictures, self.labels = digits_data()
        self.inputs = pictures / 16.0
        self.weight = np.random.default_rng(0).normal(0, 0.1, (64, 10))
        self.order = np.random.default_rng(1)

    def step(self) -> dict[str, float]:
        """Takes one step; returns the scalars that it emits by name."""
        rows = self.order.integers(0, len(self.inputs), 64)
        inputs, labels = self.inputs[rows], self.labels[rows]
        logits = inputs @ self.weight
        shifted = np.exp(logits - logits.max(axis=1, keepdims=True))
        probabilities = shifted / shifted.sum(axis=1, keepdims=True)
        loss = -np.log(probabilities[np.arange(64), labels]).mean()
        self.gradient = inputs.T @ (probabilities - np.eye(10)[labels]) / 64
        self.weight -= 0.5 * self.gradient
        values = (loss, (logits.argmax(axis=1) == labels).mean())
        norms = (np.linalg.norm(self.gradient), np.linalg.norm(self.weight))
        return dict(zip(NAMES, map(float, (*values, *norms)), strict=True))


@functools.cache
def losses_without_us(steps: int) -> list[str]:
    """Returns the losses of a training that emits nothing, as hexadecimal floats."""
    model = Regression()
    return [model.step()["loss"].hex() for _ in range(steps)]


def emit_step(run: Any, model: Regression, values: dict[str, float], step: int) -> None:
    """Emits what belongs to one step."""
    for name, value in values.items():
        run.scalar(name, value, step=step)
    if step % HISTOGRAM_EVERY == 0:
        run.histogram("grad", model.gradient, step=step)
    if step % IMAGE_EVERY == 0:
        picture = model.weight[:, 0].reshape(8, 8)
        run.image("weight/0", picture, step=step, layout="HW", value_range=(-2.0, 2.0))
    if step % TEXT_EVERY == 0:
        run.text("notes", f"step {step}", step=step)


def main() -> None:
    """Trains as the JSON on the command line says; see ``faults.train`` for its keys."""
    import stepscope

    plan: dict[str, Any] = json.loads(sys.argv[1])
    model, losses = Regression(), []
    run = stepscope.open_run(plan["folder"], **plan["open_run"])
    pauses = set(plan["pauses"])
    for step in range(plan["steps"]):
        values = model.step()
        losses.append(values["loss"].hex())
        emit_step(run, model, values, step)
        print("step", step, flush=True)
        if step in pauses:
            sys.stdin.readline()
    complete = run.close(plan["close_timeout"])
    stats = run.stats
    sinks = {
        name: {"delivered": sink.delivered, "pending": sink.pending, "failed": sink.failed, "state": sink.state}
        for name, sink in stats.sinks.items()
    }
    print(
        json.dumps(
            {
                "losses": losses,
                "complete": complete,
                "emitted": stats.emitted,
                "stored": stats.stored,
                "lost": stats.lost,
                "sinks": sinks,
            }
        ),
        flush=True,
    )


if __name__ == "__main__":
    main()
