"""Event files that TensorBoard's own clients wrote, and ours, become runs that show the same."""

import subprocess
import sys

import numpy as np
import pytest
import readback_tensorboard
import torch
from click.testing import CliRunner
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from torch.utils.tensorboard import SummaryWriter

import stepscope
from stepscope.cli import main
from stepscope.importing import import_runs


def run_command(*arguments, cwd):
    command = [sys.executable, "-m", "stepscope", *arguments]
    return subprocess.run(command, cwd=cwd, capture_output=True, text=True, timeout=120, check=False)


def test_what_torch_wrote_is_imported_as_tensorboard_reads_it(tmp_path):
    generator = np.random.default_rng(0)
    with SummaryWriter(str(tmp_path / "logs")) as writer:
        for step in range(50):
            writer.add_scalar("loss", generator.normal(), step)
            writer.add_scalar("new/loss", generator.normal(), step, new_style=True)
        writer.add_histogram("weights", generator.normal(size=1000), 3)
        writer.add_image("picture", torch.zeros(3, 4, 5, dtype=torch.uint8), 4)
        writer.add_text("note", "**hello**", 5)
        writer.add_scalars("both", {"a": 1.0, "b": 2.0}, 6)
        writer.add_hparams({"lr": 0.1, "bs": 32}, {"metric": 1.0}, run_name="hparams")

    done = run_command("import", "logs", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "100 scalars" in done.stdout
    accumulator = EventAccumulator(str(tmp_path / "logs"), size_guidance={"scalars": 0, "tensors": 0})
    accumulator.Reload()
    with stepscope.read_run(tmp_path / "runs" / "logs") as record:
        series = record.scalars("loss")
        assert [(event.step, event.value) for event in accumulator.Scalars("loss")] == list(
            zip(series.steps.tolist(), series.values.tolist(), strict=True)
        )
        np.testing.assert_allclose(series.times_ns / 1e9, [event.wall_time for event in accumulator.Scalars("loss")])
        expected = [float(event.tensor_proto.float_val[0]) for event in accumulator.Tensors("new/loss")]
        assert record.scalars("new/loss").values.tolist() == expected
        (table,) = record.tables("weights")
        counts = [row[2] for row in table.rows]
        assert sum(counts) == 1000
        assert counts == list(accumulator.Histograms("weights")[0].histogram_value.bucket)
        (picture,) = record.images("picture")
        assert picture.png == accumulator.Images("picture")[0].encoded_image_string
        assert [text.text for text in record.texts("note/text_summary")] == ["**hello**"]
    with stepscope.read_run(tmp_path / "runs" / "both_a") as record:
        assert record.scalars("both").values.tolist() == [1.0]
    with stepscope.read_run(tmp_path / "runs" / "hparams") as record:
        assert record.info.config == {"lr": 0.1, "bs": 32.0}


@pytest.mark.slow
def test_a_run_comes_back_from_our_event_files_and_goes_out_again(tmp_path):
    names, generator = [f"grad/{number}" for number in range(20)], np.random.default_rng(0)
    files = tmp_path / "files"
    with stepscope.open_run(tmp_path / "run", sinks=[{"type": "tensorboard", "path": files / "first"}]) as run:
        for step in range(200):
            run.scalars(names, generator.normal(size=20).astype(np.float32), step=step)
        run.scalar("odd", float("nan"), step=3)
        run.scalar("odd", float("-inf"), step=4)
        run.image("input", np.arange(12, dtype=np.uint8).reshape(3, 4), step=1, layout="HW")
        run.text("notes", "x", step=2)
    (one,) = import_runs(files / "first", tmp_path / "imported")
    assert one.skipped.counts == {"a value of the plugin 'custom_scalars'": 1}, "how a page is laid out is no data"
    with stepscope.read_run(tmp_path / "run") as before, stepscope.read_run(one.run) as after:
        for name in [*names, "odd"]:
            np.testing.assert_array_equal(after.scalars(name).steps, before.scalars(name).steps)
            np.testing.assert_array_equal(after.scalars(name).values, before.scalars(name).values)
            assert np.abs(after.scalars(name).times_ns - before.scalars(name).times_ns).max() < 1000
        assert after.images("input")[0].png == before.images("input")[0].png
        assert after.texts("notes")[0].text == "x"

    sinks = [{"type": "tensorboard", "path": files / "again"}]
    with stepscope.open_run(one.run, resume=True, sinks=sinks) as run:
        assert run.flush(60)
    shown, expected = (readback_tensorboard.read_back({"target": str(files / name)}) for name in ("again", "first"))
    assert sorted(map(repr, shown)) == sorted(map(repr, expected))
    assert len(shown) == 4004


@pytest.mark.parametrize("package", ["tensorboard", pytest.param("google_crc32c", marks=pytest.mark.slow)])
def test_without_its_package_an_import_names_the_extra(tmp_path, package):
    (tmp_path / "logs").mkdir()
    (tmp_path / "logs" / "events.out.tfevents.1.host").write_bytes(b"torn")
    without = f"import sys; sys.modules.update(torch=None, {package}=None); from stepscope.cli import main; main()"
    done = subprocess.run(
        [sys.executable, "-c", without, "import", "logs"],
        cwd=tmp_path, capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert done.returncode == 2
    assert "pip install 'stepscope[tensorboard]'" in done.stderr
    assert len(done.stderr.splitlines()) == 1
    assert list((tmp_path / "runs").glob("*")) == []


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["import", "missing"], "is not a folder"),
        (["import", "."], "holds nothing to import"),
        (["import"], "Missing argument"),
    ],
)
def test_wrong_usage_is_one_line_and_exit_code_2(tmp_path, monkeypatch, arguments, message):
    monkeypatch.chdir(tmp_path)
    done = CliRunner().invoke(main, arguments)
    assert done.exit_code == 2
    assert message in done.stderr
    assert "Traceback" not in done.stderr
