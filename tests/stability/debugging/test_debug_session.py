"""Debug sessions: the documented structure, limits, files and the training wrapper."""

import errno
import json
import logging
import math
import os

import psutil
import pytest
import torch
from torch import nn
from tracker_adapters.testing import MemoryEmitter

from stability import (
    GradientClippingConfig,
    NaNHandlingConfig,
    NumericalStabilityManager,
    PyTorchDebuggingConfig,
    StabilityError,
    create_training_wrapper,
)


def manager(debug_config=None, **keywords):
    return NumericalStabilityManager(GradientClippingConfig(), NaNHandlingConfig(), debug_config, **keywords)


def in_memory(**fields):
    return PyTorchDebuggingConfig(save_debug_info=False, **fields)


@pytest.fixture
def model():
    return nn.Linear(2, 2)


def step(stability, model, value=1.0):
    for parameter in model.parameters():
        parameter.grad = torch.full_like(parameter, value)
    return stability.step(model, 0.5, torch.optim.SGD(model.parameters(), lr=0.1))


def test_debug_info_has_the_documented_structure(model):
    model.extra = nn.Parameter(torch.zeros(1))
    stability = manager(in_memory(enable_memory_debugging=True))
    stability.start_debug_session("structure")
    model.weight.grad = torch.full((2, 2), 2.0)
    model.bias.grad = torch.zeros(2)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

    info = stability.step(model, 0.5, optimizer)["debug_info"]

    memory, duration = info.pop("memory_info"), info.pop("session_duration")
    assert info == {
        "debug_enabled": True,
        "iteration": 1,
        "anomaly_detector": False,
        "grad_check": False,
        "memory_debug": True,
        "anomalies_detected": False,
        "anomaly_details": [],
        "gradient_stats": {
            "total_parameters": 3,
            "parameters_with_grad": 2,
            "mean_norm": 2.0,
            "std_norm": 2.0,
            "total_norm": 4.0,
        },
    }
    assert 0.0 < duration < 60.0
    cpu = memory["cpu_memory"]
    assert psutil.Process().memory_info().rss / 2**20 == pytest.approx(cpu["rss"], rel=0.2)
    assert psutil.Process().memory_percent() == pytest.approx(cpu["percent"], rel=0.2)
    assert cpu["vms"] >= cpu["rss"]


def test_without_a_session_anomalies_are_counted_and_nothing_else_is_collected(model):
    stability = manager()

    info = step(stability, model, math.nan)["debug_info"]

    assert not info["debug_enabled"]
    assert "gradient_stats" not in info
    assert info["anomalies_detected"]
    assert info["anomaly_details"][0]["kind"] == "nan_gradient"
    summary = stability.get_debug_summary()
    assert (summary["total_iterations"], summary["anomalies_detected"]) == (1, 1)


def test_a_session_starts_counting_anew_and_its_summary_stays_after_its_end(model):
    stability = manager(in_memory())
    step(stability, model, math.nan)
    stability.start_debug_session("second")
    step(stability, model)
    step(stability, model, math.inf)
    stability.stop_debug_session()
    step(stability, model)

    summary = stability.get_debug_summary()
    assert (
        summary["session"],
        summary["active"],
        summary["total_iterations"],
        summary["anomalies_detected"],
    ) == ("second", False, 2, 1)
    assert summary["last_anomaly"]["kind"] == "inf_gradient"
    assert summary["session_duration"] == stability.get_debug_summary()["session_duration"]


@pytest.mark.parametrize("limit", [{"max_debug_iterations": 2}, {"debug_timeout": 1e-9}])
def test_a_session_collects_only_within_its_limits(model, limit):
    stability = manager(in_memory(**limit))
    stability.start_debug_session("limited")

    enabled = [step(stability, model)["debug_info"]["debug_enabled"] for _ in range(4)]

    assert enabled == [True, True, False, False] if "max_debug_iterations" in limit else not any(enabled)
    assert stability.get_debug_summary()["total_iterations"] == 4


def test_stopping_writes_the_four_documented_files_as_strict_json(model, tmp_path):
    config = PyTorchDebuggingConfig(enable_memory_debugging=True, debug_output_dir=str(tmp_path / "out"))
    stability = manager(config)
    stability.start_debug_session("files")
    step(stability, model)
    step(stability, model, math.nan)

    paths = stability.stop_debug_session()

    kinds = ["history", "anomalies", "gradients", "memory"]
    assert sorted(paths) == sorted((tmp_path / "out").iterdir())
    assert kinds == [path.name.removeprefix("pytorch_debug_").partition("_")[0] for path in paths]
    contents = [json.loads(path.read_text(), parse_constant=pytest.fail) for path in paths]
    history, anomalies, gradients, memory = contents
    assert [info["iteration"] for info in history] == [1, 2]
    assert [anomaly["kind"] for anomaly in anomalies] == ["nan_gradient"]
    assert gradients[1]["total_norm"] == "NaN"
    assert memory[0]["cpu_memory"]["rss"] > 0
    assert [str(path) for path in paths] == stability.get_debug_summary()["files"]
    assert stability.stop_debug_session() == []


@pytest.mark.parametrize("when", ["at the start", "later"])
def test_a_folder_that_cannot_be_written_to_is_told_once_and_does_not_stop_training(model, tmp_path, caplog, when):
    folder = tmp_path / "out"
    if when == "at the start":
        folder.write_text("in the way")
    stability = manager(PyTorchDebuggingConfig(debug_output_dir=str(folder)))
    stability.start_debug_session("unwritable")
    step(stability, model)
    if when == "later":
        folder.rmdir()
        folder.write_text("in the way")

    assert stability.stop_debug_session() == []
    assert caplog.text.count(f"nothing can be saved to {folder}") == 1
    assert [str(folder) in note for note in stability.get_debug_summary()["notes"]] == [True]


def test_a_full_disk_is_told_once_and_leaves_no_half_of_a_file(model, tmp_path, caplog, monkeypatch):
    def full(*_):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    stability = manager(PyTorchDebuggingConfig(debug_output_dir=str(tmp_path)))
    stability.start_debug_session("full")
    step(stability, model)
    monkeypatch.setattr(os, "fsync", full)

    assert stability.stop_debug_session() == []
    assert caplog.text.count("No space left on device") == 1
    assert list(tmp_path.iterdir()) == []


def test_a_session_needs_a_configuration_and_the_end_of_the_one_before():
    with pytest.raises(StabilityError, match="no debug session 'a' without a configuration; expected debug_config="):
        manager().start_debug_session("a")
    stability = manager(in_memory())
    stability.start_debug_session("a")
    with pytest.raises(StabilityError, match=r"session 'a' is running; expected stop_debug_session\(\) first"):
        stability.start_debug_session("b")


def test_the_debug_level_silences_lesser_anomalies_and_verbose_logging_adds_a_line_a_step(model, caplog):
    loud, quiet = in_memory(verbose_logging=True), in_memory(debug_level="error")
    big = torch.finfo(torch.float32).max
    with caplog.at_level(logging.INFO, logger="stability"):
        for config in (loud, quiet):
            stability = manager(config)
            stability.start_debug_session("levels")
            step(stability, model, big)  # a norm overflow: a warning
            stability.stop_debug_session()

    events = [(record.levelname, record.stepscope["event"]) for record in caplog.records]
    assert events == [
        ("INFO", "debug_session_started"),
        ("INFO", "debug_step"),
        ("WARNING", "gradient_norm_overflow"),
        ("INFO", "debug_session_stopped"),
    ]


def test_memory_tracking_emits_scalars(model):
    emitter = MemoryEmitter()
    stability = manager(in_memory(enable_memory_debugging=True, memory_tracking=True), emitter=emitter)
    stability.start_debug_session("memory")
    step(stability, model)

    names = {artifact.name for artifact in emitter.artifacts}
    assert {"stability/memory/rss_mb", "stability/memory/vms_mb", "stability/memory/percent"} <= names
    assert stability.get_debug_summary()["peak_rss"] > 0


class TestTrainingWrapper:
    """A callable with a session that begins with it and ends with the block."""

    def make(self, debug_config=None):
        return create_training_wrapper(
            clipping_config=GradientClippingConfig(), nan_config=NaNHandlingConfig(), debug_config=debug_config
        )

    def test_it_does_what_the_manager_does(self, model):
        wrapper = self.make(in_memory())
        model(torch.ones(1, 2)).sum().backward()

        result = wrapper(model, torch.tensor(0.5), torch.optim.SGD(model.parameters(), lr=0.1), step=7)

        assert result["step"] == 7
        assert result["debug_info"]["debug_enabled"]
        assert wrapper.get_debug_summary()["total_iterations"] == 1

    def test_without_a_debug_configuration_stopping_does_nothing(self):
        wrapper = self.make()

        assert wrapper.stop_debug_session() == []
        assert wrapper.get_debug_summary()["total_iterations"] == 0

    def test_leaving_the_block_ends_the_session_also_after_an_exception(self, tmp_path):
        wrapper = self.make(PyTorchDebuggingConfig(debug_output_dir=str(tmp_path)))

        with pytest.raises(KeyError), wrapper:
            raise KeyError

        assert not wrapper.get_debug_summary()["active"]
        assert len(list(tmp_path.iterdir())) == 4
