"""The calls of torch's SummaryWriter, read back from the run and with TensorBoard's own reader."""

import inspect
import math
import wave

import numpy as np
import pytest
import torch
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from torch.utils.tensorboard import SummaryWriter as TorchWriter

import stepscope
from stepscope.compat.errors import UnsupportedCallError
from stepscope.compat.media import film
from stepscope.compat.tensorboard import SummaryWriter
from stepscope.runs.script_run import script_run

NOT_HERE = {"add_onnx_graph", "add_tensor", "add_graph", "add_embedding", "add_custom_scalars", "add_mesh"}
NOT_HERE |= {"add_custom_scalars_multilinechart", "add_custom_scalars_marginchart", "add_image_with_boxes"}


@pytest.fixture
def no_sinks(monkeypatch):
    monkeypatch.setenv("STEPSCOPE_SINKS", "none")


def parameters(function):
    return {name: one.default for name, one in inspect.signature(function).parameters.items()}


@pytest.mark.parametrize("name", [name for name in dir(TorchWriter) if not name.startswith("_")] + ["__init__"])
def test_each_call_has_torchs_arguments_or_is_named_as_missing(name, tmp_path, no_sinks):
    if name in NOT_HERE:
        with SummaryWriter(tmp_path / "run") as writer, pytest.raises(UnsupportedCallError, match=f"has no {name}: "):
            getattr(writer, name)
    else:
        assert parameters(getattr(SummaryWriter, name)) == parameters(getattr(TorchWriter, name))


def test_values_are_recorded_as_they_are(tmp_path, no_sinks):
    with SummaryWriter(tmp_path / "run") as writer:
        weight = torch.tensor([2.5], requires_grad=True)
        values = [1, 0.5, np.float32(3), torch.tensor(4.0), weight, np.array([[5]]), True, math.nan, math.inf]
        for step, value in enumerate(values):
            writer.add_scalar("loss", value, step)
        writer.add_scalar("loss/timed", 1.0, np.int64(3), walltime=1700000000.5)
        writer.add_scalars("accuracy", {"train": 0.5, "val": 0.25}, 7)
        writer.add_histogram("weights", torch.tensor([1.0, math.nan, -math.inf]), 0)
        writer.add_text("note", "warm-up is over")
        writer.add_hparams({"lr": 0.1, "optimizer": "sgd"}, {"hparam/accuracy": 0.75})
        writer.add_pr_curve("pr", np.array([0, 1, 1]), np.array([0.1, 0.4, 0.9]), 2)
        writer.add_histogram_raw("raw", 0.0, 2.0, 3, 3.0, 5.0, [1.0, 2.0], [1, 2])
        writer.flush()
    with stepscope.read_run(tmp_path / "run") as record:
        assert record.info.status == "finished"
        assert record.info.config == {"lr": 0.1, "optimizer": "sgd"}
        loss = record.scalars("loss")
        assert loss.steps.tolist() == list(range(9))
        np.testing.assert_array_equal(loss.values, [1, 0.5, 3, 4, 2.5, 5, 1, math.nan, math.inf])
        assert record.scalars("loss/timed").times_ns.tolist() == [1700000000500000000]
        assert record.scalars("accuracy/val").values.tolist() == [0.25]
        assert record.scalars("hparam/accuracy").steps.tolist() == [0]
        (histogram,) = record.histograms("weights")
        assert (histogram.nan, histogram.count) == (1, 3)
        (curve,) = record.curves("pr")
        assert (curve.x_label, curve.y_label, len(curve.x)) == ("recall", "precision", 127)
        (raw,) = record.tables("raw")
        assert raw.rows == ((0.0, 1.0, 1), (1.0, 2.0, 2))


def test_precision_and_recall_are_torchs(tmp_path, no_sinks):
    from torch.utils.tensorboard.summary import compute_curve

    from stepscope.compat.media import precision_and_recall

    generator = np.random.default_rng(0)
    labels, predictions = generator.integers(0, 2, 100), generator.random(100)
    expected = compute_curve(labels, predictions, num_thresholds=31)
    found = precision_and_recall(labels, predictions, 31)
    np.testing.assert_allclose(np.stack(found), expected[4:], rtol=1e-12)


@pytest.mark.parametrize("axes", ["HW", "CHW", "HWC", "NCHW", "NHWC"])
@pytest.mark.parametrize("dtype", [np.uint8, np.float32])
def test_pictures_are_torchs(axes, dtype, tmp_path, no_sinks):
    from torch.utils.tensorboard._utils import convert_to_HWC

    from stepscope.compat.media import picture

    sizes = {"N": 11, "C": 3, "H": 4, "W": 5}
    values = np.random.default_rng(0).random([sizes[axis] for axis in axes])
    values = (values * 255).astype(np.uint8) if dtype is np.uint8 else values.astype(np.float32)
    expected = convert_to_HWC(values, axes)
    expected = (expected.astype(np.float32) * (1 if dtype is np.uint8 else 255)).clip(0, 255).astype(np.uint8)
    np.testing.assert_array_equal(np.broadcast_to(picture("x", values, axes), expected.shape), expected)


def test_pictures_sounds_and_films_are_recorded(tmp_path, no_sinks):
    from matplotlib.figure import Figure

    figure = Figure()
    figure.subplots().plot([1, 2])
    with SummaryWriter(tmp_path / "run") as writer:
        writer.add_image("one", torch.rand(3, 4, 5), 1)
        writer.add_images("grid", torch.rand(9, 1, 4, 5), 1)
        writer.add_figure("figure", figure, 1, close=False)
        writer.add_audio("beep", torch.sin(torch.arange(100) / 3), 1, sample_rate=8000)
        writer.add_video("film", torch.randint(0, 255, (1, 3, 3, 8, 8), dtype=torch.uint8), 1)
    with stepscope.read_run(tmp_path / "run") as record:
        kinds = {info.name: info.kind for info in record.names(0)}
        assert {name: kinds[name] for name in ("one", "grid", "figure")} == dict.fromkeys(
            ("one", "grid", "figure"), "image"
        )
        (grid,) = record.images("grid")
        assert (grid.height, grid.width) == (8, 40)
        beep, moving = (next(one for one in record.files() if one.name == name) for name in ("beep", "film"))
        with wave.open(str(beep.path)) as sound:
            assert (sound.getframerate(), sound.getnframes(), sound.getnchannels()) == (8000, 100, 1)
        assert moving.path.read_bytes().startswith(b"GIF89a")
    with pytest.raises(stepscope.ArtifactError, match="no frames"):
        film("film", [], 4)


def test_a_wrong_argument_is_named(tmp_path, no_sinks):
    with SummaryWriter(tmp_path / "run") as writer:
        with pytest.raises(stepscope.ArtifactError, match=r"scalar 'loss': got shape \(2,\)"):
            writer.add_scalar("loss", torch.ones(2), 0)
        with pytest.raises(stepscope.ArtifactError, match="dataformats is 'XY'"):
            writer.add_image("x", torch.ones(2, 2), 0, dataformats="XY")
        with pytest.raises(stepscope.ArtifactError, match="two mappings"):
            writer.add_hparams([], {})
        assert not hasattr(writer, "add_graph")


def test_writers_of_one_folder_share_a_run_and_a_second_start_gets_a_number(tmp_path, no_sinks):
    first, second = SummaryWriter(tmp_path / "run"), SummaryWriter(tmp_path / "run")
    assert first.run is second.run
    first.add_scalar("a", 1.0, 0)
    first.close()
    first.close()
    second.add_scalar("b", 2.0, 0)
    second.close()
    with SummaryWriter(tmp_path / "run") as again:
        assert again.run.path.name == "run-2"
    with SummaryWriter(tmp_path / "run", purge_step=5) as resumed:
        resumed.add_scalar("a", 3.0, 5)
        assert (resumed.run.path.name, resumed.run.attempt) == ("run", 2)
    with stepscope.read_run(tmp_path / "run") as record:
        assert record.scalars("a").values.tolist() == [1.0, 3.0]
        assert record.scalars("b").values.tolist() == [2.0]


def test_a_writer_does_not_join_a_run_that_was_closed(tmp_path, no_sinks):
    left = SummaryWriter(tmp_path / "run")
    left.run.close()
    with SummaryWriter(tmp_path / "run") as writer:
        assert writer.run is not left.run
    left.close()


def test_under_stepscope_run_all_writers_record_in_its_run(tmp_path):
    with stepscope.open_run(tmp_path / "own", sinks=[]) as run, script_run(run):
        train, val = SummaryWriter(tmp_path / "log" / "train"), SummaryWriter(tmp_path / "log" / "val")
        train.add_scalar("loss", 1.0, 0)
        val.add_scalar("loss", 2.0, 0)
        train.close()
        val.close()
        run.flush_store()
        assert run.info.status == "running"
        with stepscope.read_run(run.path) as record:
            assert record.scalars("loss").values.tolist() == [1.0]
            assert record.scalars("val/loss").values.tolist() == [2.0]
    assert not (tmp_path / "log").exists()


def trained(writer_of, folder):
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.Dropout(0.5), torch.nn.Linear(8, 1))
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    losses = []
    with writer_of(folder) as writer:
        for step in range(10):
            optimizer.zero_grad()
            loss = model(torch.randn(16, 4)).square().mean()
            loss.backward()
            optimizer.step()
            writer.add_scalar("loss", loss, step)
            writer.add_histogram("weights", model[0].weight, step)
            losses.append(loss.item())
    return losses, [one.detach().clone() for one in model.parameters()]


@pytest.mark.slow
def test_the_training_is_the_same_and_so_is_what_tensorboard_reads(tmp_path):
    theirs, weights = trained(TorchWriter, tmp_path / "torch")
    ours, our_weights = trained(SummaryWriter, tmp_path / "ours")
    assert ours == theirs
    assert all(map(torch.equal, weights, our_weights))
    points = [
        [(event.step, event.value) for event in EventAccumulator(str(tmp_path / one)).Reload().Scalars("loss")]
        for one in ("torch", "ours")
    ]
    assert points[0] == points[1]
    assert len(points[1]) == 10
