"""Choose how gradients are clipped and what happens to NaN, train on digits, and watch the stability live.

Run: ``pip install 'stepscope[gradio]'``, then ``python examples/gradio_app.py`` and open http://127.0.0.1:7860.
"""

import math
import os
import sys
from collections.abc import Iterator
from typing import Any, get_args

import torch
from sklearn.datasets import load_digits
from torch import nn

from stability import GradientClippingConfig, NaNHandlingConfig, NumericalStabilityManager, PyTorchDebuggingConfig
from stability.clipping.config import ClippingType
from stability.handling.config import HandlingType
from stability.plots import anomalies, gradient_norms, stability_history

SHOWN_EVERY = 20
COLUMNS = ["step", "kind", "message"]


def clipping(clipping_type: str, bound: float) -> dict[str, Any]:
    """Returns the fields of ``GradientClippingConfig`` that the slider sets for a type; 1 gives their defaults."""
    fields: dict[str, dict[str, Any]] = {
        "value": {"clip_value": bound},
        "adaptive": {"adaptive_factor": 1 + bound},
        "layer_wise": {"layer_thresholds": {"*": bound}},
        "percentile": {"percentile": 100 - bound},
        "exponential": {"exponential_factor": 1 + bound},
        "agc": {"agc_clip_factor": bound / 100},
        "none": {},
    }
    return {"clipping_type": clipping_type, **fields.get(clipping_type, {"max_norm": bound})}


def describe(clipping_type: str, bound: float) -> str:
    """Returns what the choice means."""
    return f"`GradientClippingConfig({', '.join(f'{k}={v!r}' for k, v in clipping(clipping_type, bound).items())})`"


def train(  # noqa: PLR0917 - as the page hands them over
    clipping_type: str, bound: float, handling_type: str, learning_rate: float, fault_every: int | None, steps: int
) -> Iterator[tuple[NumericalStabilityManager, list[list[Any]]]]:
    """Trains on digits; yields the manager and the anomalies so far, every 20 steps.

    Args:
        clipping_type: Of ``GradientClippingConfig``.
        bound: How far gradients may go; see ``clipping``.
        handling_type: Of ``NaNHandlingConfig``.
        learning_rate: Of the optimizer.
        fault_every: One batch of so many holds a NaN; 0 or None for none.
        steps: How many there are.
    """
    digits = load_digits()
    images, labels = torch.from_numpy(digits.data).float() / 16, torch.from_numpy(digits.target)
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10))
    optimizer = torch.optim.SGD(model.parameters(), lr=learning_rate, momentum=0.9)
    debug_config = PyTorchDebuggingConfig(
        enable_autograd_anomaly=True, enable_memory_debugging=True, save_debug_info=False
    )
    stability_manager = NumericalStabilityManager(
        GradientClippingConfig(**clipping(clipping_type, bound)),
        NaNHandlingConfig(handling_type=handling_type),
        debug_config,
    )
    found: list[list[Any]] = []
    stability_manager.start_debug_session("gradio")
    try:
        for step in range(int(steps)):
            batch = torch.randint(len(images), (64,))
            inputs = images[batch]
            if fault_every and step % int(fault_every) == int(fault_every) // 2:
                inputs[0, 0] = math.nan
            loss = nn.functional.cross_entropy(model(inputs), labels[batch])
            optimizer.zero_grad()
            loss.backward()
            result = stability_manager.step(model, loss, optimizer)
            found += [[step, detail["kind"], detail["message"]] for detail in result["debug_info"]["anomaly_details"]]
            optimizer.step()
            if step % SHOWN_EVERY == SHOWN_EVERY - 1:
                yield stability_manager, found
    finally:  # also when the page is closed in the middle
        stability_manager.stop_debug_session()


def show(*choices: Any) -> Iterator[tuple[str, Any, Any, Any, list[list[Any]]]]:
    """Yields what the page shows, while ``train`` goes on; what ends it is shown as its reason."""
    import gradio

    training = train(*choices)
    while True:
        try:
            manager, found = next(training)
        except StopIteration:
            return
        except Exception as error:
            raise gradio.Error(f"{type(error).__name__}: {error}", duration=None) from error
        history = manager.history
        last = history[-1]
        text = (
            f"**step {last.step}**: loss {last.loss:.4g}, gradient norm {last.gradient_norm:.4g}, "
            f"score {last.stability_score:.2f}, {len(found)} anomalies"
        )
        yield text, stability_history(history), gradient_norms(history), anomalies(history), found[:-20:-1]


def build() -> Any:
    """Returns the page."""
    os.environ.setdefault("GRADIO_ANALYTICS_ENABLED", "False")
    import gradio

    with gradio.Blocks(title="stepscope: numerical stability") as page:
        gradio.Markdown("# Numerical stability, live")
        with gradio.Row():
            with gradio.Column(scale=1):
                choices = [
                    gradio.Dropdown(list(get_args(ClippingType)), value="norm", label="clipping type"),
                    gradio.Slider(0.05, 5.0, value=1.0, label="bound (1: the type's default)"),
                    gradio.Dropdown(list(get_args(HandlingType)), value="detect", label="NaN handling"),
                    gradio.Slider(0.001, 1.0, value=0.05, label="learning rate"),
                    gradio.Number(50, precision=0, minimum=0, label="a NaN in one batch of so many (0: in none)"),
                    gradio.Slider(20, 1000, value=200, step=20, label="steps"),
                ]
                meaning = gradio.Markdown(describe("norm", 1.0))
                for choice in choices[:2]:
                    choice.change(describe, choices[:2], meaning)
                start = gradio.Button("Train", variant="primary")
                stop = gradio.Button("Stop")
            with gradio.Column(scale=3):
                outputs = [
                    gradio.Markdown("Not started."),
                    gradio.Plot(label="stability"),
                    gradio.Plot(label="gradient norms"),
                    gradio.Plot(label="anomalies"),
                    gradio.Dataframe(headers=COLUMNS, wrap=True, label="last anomalies"),
                ]
        running = start.click(show, choices, outputs)
        stop.click(None, cancels=[running])
    return page


def main(port: int) -> None:
    build().queue().launch(server_name="127.0.0.1", server_port=port, share=False)


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 7860)
