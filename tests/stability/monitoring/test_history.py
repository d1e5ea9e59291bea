"""The history of a manager: bounded, saved as JSON and CSV, and drawn."""

import csv
import io
import json
import math

import numpy as np
import pytest
import torch
from PIL import Image
from tracker_adapters.values.pictures import picture_pixels

import stepscope
from stability import (
    GradientClippingConfig,
    NaNHandlingConfig,
    NumericalStabilityManager,
    PyTorchDebuggingConfig,
    StabilityError,
)
from stability.plots import (
    PLOTS,
    anomalies,
    anomaly_distribution,
    emit,
    gradient_norms,
    memory,
    save,
    stability_history,
)


@pytest.fixture
def manager(tmp_path):
    """Ten steps with tracked memory, two of them with NaN."""
    config = PyTorchDebuggingConfig(enable_memory_debugging=True, save_debug_info=False)
    manager = NumericalStabilityManager(GradientClippingConfig(max_norm=0.01), NaNHandlingConfig(), config)
    manager.start_debug_session()
    run_steps(manager)
    return manager


def run_steps(manager):
    model = torch.nn.Linear(2, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range(10):
        inputs = torch.ones(4, 2) if step not in (3, 4) else torch.full((4, 2), math.nan)
        loss = model(inputs).square().mean() + 1
        optimizer.zero_grad()
        loss.backward()
        manager.step(model, loss, optimizer)


def test_json_holds_every_step_with_nan_as_text(manager, tmp_path):
    path = manager.history.save(tmp_path / "new" / "history.json")
    rows = json.loads(path.read_text())
    assert [row["step"] for row in rows] == list(range(10))
    assert rows[3]["loss"] == "NaN"
    assert rows[3]["anomalies"] == ["nan_loss", "nan_gradient"]
    assert rows[5]["loss"] == manager.history[5].loss
    assert rows[0]["rss_mb"] > 1


def test_csv_holds_every_step(manager, tmp_path):
    with manager.history.save(tmp_path / "history.csv").open(newline="") as stream:
        rows = list(csv.DictReader(stream))
    assert [float(row["gradient_norm"]) for row in rows[:3]] == [record.gradient_norm for record in manager.history[:3]]
    assert math.isnan(float(rows[4]["loss"]))
    assert rows[4]["anomalies"] == "nan_loss nan_gradient"


def test_another_suffix_is_refused(manager, tmp_path):
    with pytest.raises(StabilityError, match=r"history\.txt; expected a name that ends in \.json or \.csv"):
        manager.history.save(tmp_path / "history.txt")
    with pytest.raises(StabilityError, match=r"plot\.txt; expected a name that ends in .*png"):
        save(stability_history(manager.history), tmp_path / "plot.txt")
    assert list(tmp_path.iterdir()) == []


def test_the_stability_history_marks_steps_that_are_not_finite(manager, tmp_path):
    figure = stability_history(manager.history)
    save(figure, tmp_path / "plot.png")
    loss, norm, score = figure.axes
    line, faults = loss.get_lines()
    assert faults.get_xdata().tolist() == [3, 4]
    expected = [record.loss for record in manager.history]
    np.testing.assert_array_equal(line.get_ydata(), expected)
    assert (norm.get_yscale(), score.get_xlabel()) == ("log", "step")
    with Image.open(tmp_path / "plot.png") as picture:
        assert picture.size == (800, 600)


def test_clipped_norms_are_drawn_beside_the_original_ones(manager):
    (axes,) = gradient_norms(manager.history).axes
    after = next(line for line in axes.get_lines() if line.get_label() == "after clipping")
    np.testing.assert_allclose(after.get_ydata(), 0.01, rtol=1e-3)
    assert list(after.get_xdata()) == [0, 1, 2, 5, 6, 7, 8, 9]


def test_anomalies_have_a_row_a_kind_and_a_bar_a_kind(manager):
    (axes,) = anomalies(manager.history).axes
    assert [label.get_text() for label in axes.get_yticklabels()] == ["nan_gradient", "nan_loss"]
    assert [list(line.get_xdata()) for line in axes.get_lines()] == [[3, 4], [3, 4]]
    (axes,) = anomaly_distribution(manager.history).axes
    assert [bar.get_width() for bar in axes.patches] == [2, 2]


def test_memory_is_drawn_where_it_was_tracked(manager):
    (axes,) = memory(manager.history).axes
    assert list(axes.get_lines()[0].get_ydata()) == [record.rss_mb for record in manager.history]
    bare = NumericalStabilityManager(GradientClippingConfig(), NaNHandlingConfig())
    run_steps(bare)
    (axes,) = memory(bare.history).axes
    assert "enable_memory_debugging=True" in axes.texts[0].get_text()


@pytest.mark.parametrize(
    "plot",
    [
        pytest.param(plot, id=name, marks=() if name == "stability_history" else pytest.mark.slow)
        for name, plot in PLOTS.items()
    ],
)
def test_an_empty_history_and_one_without_finite_values_can_be_drawn(plot, manager):
    for history in ([], manager.history[3:5], manager.history):
        picture = picture_pixels("plot", plot(history))
        assert (picture.dtype, picture.shape[2]) == (np.uint8, 3)
        assert picture.min() < 128 < picture.max()


@pytest.mark.slow
def test_the_figures_are_emitted_as_images(tmp_path):
    with stepscope.open_run(tmp_path / "run", sinks=["local"]) as run:
        manager = NumericalStabilityManager(GradientClippingConfig(), NaNHandlingConfig(), emitter=run)
        emit(manager.history, run)
        run_steps(manager)
        emit(manager.history, run)
    recorded = stepscope.read_run(tmp_path / "run")
    for name, plot in PLOTS.items():
        (image,) = recorded.images(f"stability/plots/{name}")
        assert image.step == 9
        with Image.open(io.BytesIO(image.png)) as picture:
            np.testing.assert_array_equal(np.asarray(picture), picture_pixels("plot", plot(manager.history)))
