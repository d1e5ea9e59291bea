"""Pictures in files: written safely, for any names and numbers, whatever matplotlib's user has set."""

import subprocess
import sys
from xml.etree import ElementTree

import matplotlib as mpl
import numpy as np
import pytest
import torch
from tracker_adapters.errors import ArtifactError

import stepscope
from debuggers.pictures.visualizer import VisualizationConfig, Visualizer

PNG = b"\x89PNG"
ODD = [np.nan, np.inf, -np.inf, 1.0, 2.0]


@pytest.fixture
def visualizer(tmp_path):
    return Visualizer(VisualizationConfig(output_directory=tmp_path / "new" / "plots", formats=("png", "svg")))


def texts(figure):
    return " ".join(text.get_text() for text in figure.findobj(lambda one: hasattr(one, "get_text")))


def test_each_picture_is_written_and_named_and_the_dashboard_holds_all(visualizer):
    visualizer.plot_tensor_distribution("weights", torch.randn(100, dtype=torch.bfloat16), 10)
    visualizer.plot_gradient_flow("layer1", [0, 1, 2], [0.1, 0.01, 1e-6])
    visualizer.plot_training_metrics("loss", [0, 1], {"train": [2, 1], "validation": [3, 2]}, "nats")
    visualizer.plot_activation_patterns("relu", torch.zeros(4, 3, 2, 2))
    visualizer.plot_attention("head 0", np.eye(2), ["a", "b"])
    visualizer.plot_layer_heat_map("norm", [[1, 2], [3, 4]], ["fc1", "fc2"], [0, 10])
    visualizer.plot_histogram_ridge("fc1", [np.arange(5), np.arange(9)], [0, 10])

    names = visualizer.get_plot_names()
    assert names == ["weights/distribution", "layer1/gradient_flow", "loss/metrics", "relu/activations",
                     "head 0/attention", "norm/heat_map", "fc1/ridge"]  # fmt: skip
    page = visualizer.create_dashboard(names).read_text()
    assert page.count("data:image/png;base64,") == len(names)
    files = sorted(visualizer.config.output_directory.iterdir())
    assert len(files) == 2 * len(names) + 1
    for file in files:
        if file.suffix == ".svg":
            ElementTree.parse(file)
        elif file.suffix == ".png":
            assert file.read_bytes().startswith(PNG)


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize(
    "name",
    [
        "../../etc/<script>",
        *(
            pytest.param(name, marks=pytest.mark.slow)
            for name in ("$x_{", "层\x1b[31m<script>", "\ud800", "a" * 500, "")
        ),
    ],
)
def test_any_name_is_drawn_as_it_is_and_stays_in_the_folder(visualizer, name):
    visualizer.plot_tensor_distribution(name, ODD)
    visualizer.plot_attention(name, np.eye(2), [name, "b"])
    page = visualizer.create_dashboard()

    assert len(list(page.parent.iterdir())) == 5
    assert sorted(one.name for one in page.parent.parent.iterdir()) == ["plots"]
    assert "<script>" not in page.read_text()


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize(
    "values",
    [
        ODD,
        *(
            pytest.param(values, marks=pytest.mark.slow)
            for values in ([], [np.nan], [3.0], [2.0, 2.0], [-1e308, 1e308], [0.0, 5e-324], [1e-9, -np.inf, 1e9])
        ),
    ],
)
def test_odd_numbers_are_drawn(visualizer, values):
    steps = range(len(values))

    visualizer.plot_tensor_distribution("x", values)
    visualizer.plot_gradient_flow("x", steps, values)
    visualizer.plot_layer_heat_map("x", [values], ["layer"], steps)
    visualizer.plot_histogram_ridge("x", [values, values])

    assert len(visualizer.get_plot_names()) == 4


@pytest.mark.slow
def test_what_is_not_finite_is_counted_and_axes_are_labelled(visualizer):
    assert "1 NaN, 1 +inf, 1 -inf" in texts(visualizer.plot_tensor_distribution("x", ODD))
    flow = texts(visualizer.plot_gradient_flow("x", range(5), ODD))
    assert "1 NaN, 1 +inf, 1 -inf" in flow and "gradient norm" in flow and "step" in flow
    assert "NaN orange" in texts(visualizer.plot_layer_heat_map("x", [ODD], ["layer"], range(5)))
    assert "2 NaN or infinite" in texts(visualizer.plot_histogram_ridge("x", [[np.nan], [1.0, np.inf]]))


def test_the_users_settings_neither_change_nor_show(visualizer):
    with mpl.rc_context(
        {"text.usetex": True, "text.color": "white", "figure.facecolor": "black", "axes.labelcolor": "white"}
    ):
        before = dict(mpl.rcParams)
        figure = visualizer.plot_gradient_flow("x", [0, 1], [1.0, 2.0])
        assert dict(mpl.rcParams) == before

    assert figure.get_facecolor() == (1, 1, 1, 1)
    assert figure.axes[0].xaxis.label.get_color() != "white"


def test_a_map_without_layers_is_drawn_empty(visualizer):
    visualizer.plot_layer_heat_map("norm", [], [], [])

    assert visualizer.get_plot_names() == ["norm/heat_map"]


@pytest.mark.slow
def test_neither_pyplot_nor_torch_is_imported(tmp_path):
    code = (
        "import sys; sys.modules['torch'] = None\nimport stepscope\n"
        f"visualizer = stepscope.Visualizer(stepscope.VisualizationConfig(output_directory={str(tmp_path)!r}))\n"
        "visualizer.plot_layer_heat_map('x', [[1, 2]], ['a'], [0, 1])\nprint('matplotlib.pyplot' in sys.modules)"
    )

    assert (
        subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True).stdout
        == "False\n"
    )


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda one: one.create_dashboard(["x"]), "there is no plot 'x'; nearest names: none, none is drawn"),
        (lambda one: one.plot_attention("x", np.ones(3)), r"shape \(3,\); expected \(queries, keys\)"),
        (lambda one: one.plot_attention("x", np.eye(2), ["a"]), r"x: 1 token for attention of shape \(2, 2\)"),
        (lambda one: one.plot_attention("x", np.ones((2, 3)), ["a", "b"]), r"2 tokens .* \(2, 3\); expected as many"),
        (lambda one: one.plot_activation_patterns("x", np.ones(3)), r"shape \(3,\); expected \(datapoints, units"),
        (lambda one: one.plot_histogram_ridge("x", [[1]], [1, 2]), "1 histograms and 2 steps"),
        (lambda one: one.plot_gradient_flow("x", [1], [1, 2]), r"x has shape \(1,\) and y \(2,\)"),
        (lambda one: VisualizationConfig(formats=("gif",)), "formats is"),
    ],
)
def test_wrong_arguments_are_named(visualizer, call, message):
    with pytest.raises(ArtifactError, match=message):
        call(visualizer)


def test_a_wrong_name_of_a_picture_is_told_the_nearest(tmp_path):
    visualizer = Visualizer(VisualizationConfig(output_directory=tmp_path))
    for name in ("weights", "losses"):
        visualizer.plot_tensor_distribution(name, [1.0, 2.0])

    with pytest.raises(ArtifactError, match="no plot 'wieghts/distribution'; nearest names: weights/distribution"):
        visualizer.create_dashboard(["wieghts/distribution"])


@pytest.mark.slow
def test_of_a_run_statistics_of_layers_become_maps_and_all_else_lines(tmp_path):
    layers, alone = ("a", "b", "c"), ("loss", "train/lr", "system/cpu", "system/memory", "system/threads")
    diagnosed = ("diagnosis/inputs/mean", "diagnosis/inputs/std", "diagnosis/inputs/min", "diagnosis/accuracy")
    with stepscope.open_run(tmp_path / "run", sinks=[], environment=False, system_metrics=False) as run:
        for step in range(3):
            for name in (*alone, *diagnosed):
                run.scalar(name, float(step), step=step)
            for group in ("gradient_norm", "diagnosis/weight_rms"):
                run.scalars([f"{group}/{layer}" for layer in layers], [1.0, 2.0, 3.0], step=step)
    with stepscope.read_run(tmp_path / "run") as record:
        names = list(Visualizer.of_run(record, VisualizationConfig(output_directory=tmp_path)).get_plot_names())
    maps = [f"{group}/heat_map" for group in ("gradient_norm", "diagnosis/weight_rms")]
    assert sorted(names) == sorted([*(f"{name}/metrics" for name in (*alone, *diagnosed)), *maps])
    lines = [name for name in names if name.endswith("/metrics")]
    assert lines[:2] == ["loss/metrics", "train/lr/metrics"]
