"""torchtitan's loggers, by its own classes where it is installed, and by classes of the same signatures elsewhere.

It needs older data sets than the other frameworks here, so that ``pip install --no-deps torchtitan`` and what its
import asks for is the only way to have both.
"""

import importlib.util
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace

import pytest
import torch

import stepscope
from stepscope.integrations import frameworks

SOURCE = Path(frameworks.__file__).with_name("torchtitan.py")
MEMORY = dict.fromkeys(
    ("max_active_gib", "max_active_pct", "max_reserved_gib", "max_reserved_pct", "num_alloc_retries", "num_ooms"), 0
)


class BaseLogger:
    """As in torchtitan 0.3.0, torchtitan/components/metrics.py; so are the others."""

    def log(self, metrics, step):
        pass

    def close(self):
        pass


class LoggerContainer(BaseLogger):
    def __init__(self):
        self._loggers = []

    def add_logger(self, logger_instance):
        self._loggers.append(logger_instance)

    def log(self, metrics, step):
        for logger_instance in self._loggers:
            logger_instance.log(metrics, step)

    def close(self):
        for logger_instance in self._loggers:
            logger_instance.close()


class MetricsProcessor:
    def log(self, step, global_avg_loss, global_max_loss, grad_norm, extra_metrics=None):
        metrics = {
            "loss_metrics/global_avg_loss": global_avg_loss,
            "loss_metrics/global_max_loss": global_max_loss,
            "grad_norm": grad_norm,
            "throughput(tps)": 1.0,
        }
        self.logger.log(metrics | (extra_metrics or {}), step)

    def log_validation(self, loss, step, extra_metrics=None):
        self.logger.log({"validation_metrics/loss": loss, "validation_metrics/throughput(tps)": 1.0}, step)

    def close(self):
        self.logger.close()


@pytest.fixture(params=["real", "by signature"])
def torchtitan(request, monkeypatch):
    """The integration, and torchtitan's module of metrics."""
    if request.param == "real":
        metrics = pytest.importorskip("torchtitan.components.metrics", reason="needs torchtitan", exc_type=ImportError)
    else:
        metrics = ModuleType("torchtitan.components.metrics")
        for one in (BaseLogger, LoggerContainer, MetricsProcessor):
            setattr(metrics, one.__name__, one)
        monkeypatch.setitem(sys.modules, "torchtitan", ModuleType("torchtitan"))
        monkeypatch.setitem(sys.modules, "torchtitan.components", ModuleType("torchtitan.components"))
        monkeypatch.setitem(sys.modules, "torchtitan.components.metrics", metrics)
    spec = importlib.util.spec_from_file_location("stepscope_on_torchtitan", SOURCE)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return SimpleNamespace(logger=module.StepscopeLogger, metrics=metrics)


def processor_of(metrics, models, optimizers, *, logs=True):
    """A processor as a Trainer leaves it; its constructor asks a GPU for its name."""
    processor = metrics.MetricsProcessor.__new__(metrics.MetricsProcessor)
    color = SimpleNamespace(**dict.fromkeys(("red", "green", "orange", "turquoise", "blue", "cyan", "magenta"), ""))
    color.reset = color.yellow = ""
    memory = SimpleNamespace(get_peak_stats=lambda: SimpleNamespace(**MEMORY), reset_peak_stats=lambda: None)
    for name, value in {
        "logger": metrics.LoggerContainer() if logs else metrics.BaseLogger(),
        "model_parts": models,
        "optimizers": optimizers,
        "device_memory_monitor": memory,
        "color": color,
        "num_flops_per_token": 1,
        "ntokens_since_last_log": 1,
        "data_loading_times": [0.1],
        "time_last_log": 0.0,
        "gpu_peak_flops": 1.0,
        "has_quantization": False,
        "parallel_dims": SimpleNamespace(non_data_parallel_size=1),
        "config": SimpleNamespace(log_freq=1),
    }.items():
        setattr(processor, name, value)
    return processor


def train(models, optimizers, processor=None, *, steps=4):
    torch.manual_seed(1)
    losses = []
    for step in range(1, steps + 1):
        for optimizer in optimizers:
            optimizer.zero_grad()
        outputs = torch.randn(8, 4)
        for model in models:
            outputs = model(outputs)
        loss = outputs.square().mean()
        loss.backward()
        parameters = [parameter for model in models for parameter in model.parameters()]
        norm = torch.nn.utils.clip_grad_norm_(parameters, 0.01)
        for optimizer in optimizers:
            optimizer.step()
        losses.append(loss.item())
        if processor is not None:
            processor.data_loading_times.append(0.1)
            processor.log(step, loss.item(), loss.item(), norm.item(), {"lr": 0.1})
    return losses


def made(count):
    torch.manual_seed(0)
    models = [torch.nn.Linear(4, 4) for _ in range(count)]
    return models, [torch.optim.SGD(model.parameters(), lr=0.1) for model in models]


def test_what_is_logged_and_what_is_watched_stand_under_the_same_steps(tmp_path, torchtitan):
    plain, optimizers = made(1)
    expected = train(plain, optimizers)
    models, optimizers = made(1)
    processor = processor_of(torchtitan.metrics, models, optimizers)
    logger = torchtitan.logger(tmp_path / "run", max_overhead=None)
    logger.attach(processor)
    assert isinstance(logger, torchtitan.metrics.BaseLogger)

    assert train(models, optimizers, processor) == expected
    processor.log_validation(0.5, 4)
    processor.close()

    assert torch.equal(models[0].weight, plain[0].weight)
    record = stepscope.read_run(tmp_path / "run")
    for name in ("loss", "logged/loss", "lr", "total_norm/unclipped_gradients", "total_norm/gradients"):
        assert record.scalars(name).steps.tolist() == [0, 1, 2, 3], name
    assert record.scalars("loss").values.tolist() == pytest.approx(expected)
    assert record.scalars("total_norm/gradients").values == pytest.approx([0.01] * 4, rel=1e-3)
    assert record.scalars("total_norm/unclipped_gradients").values.min() > 0.1
    assert record.scalars("validation/loss").steps.tolist() == [3]
    assert record.info.status == "finished"


def test_stages_of_a_pipeline_on_a_rank_that_logs_nothing_are_watched(tmp_path, torchtitan):
    models, optimizers = made(2)
    processor = processor_of(torchtitan.metrics, models, optimizers, logs=False)
    torchtitan.logger(tmp_path / "run", max_overhead=None).attach(processor)
    train(models, optimizers)
    processor.close()

    record = stepscope.read_run(tmp_path / "run")
    for place in (0, 1):
        assert record.scalars(f"{place}/gradient_norm/weight").steps.tolist() == [0, 1, 2, 3]


def test_a_second_logger_of_a_trainer_does_nothing_and_says_so(tmp_path, torchtitan, caplog):
    models, optimizers = made(1)
    processor = processor_of(torchtitan.metrics, models, optimizers)
    for name in ("first", "second"):
        torchtitan.logger(tmp_path / name, max_overhead=None).attach(processor)
    train(models, optimizers, processor)
    processor.close()

    assert caplog.text.count("there are 2 calls of StepscopeLogger.attach for one trainer") == 1
    record = stepscope.read_run(tmp_path / "first")
    assert record.scalars("loss").steps.tolist() == record.scalars("lr").steps.tolist() == [0, 1, 2, 3]
    assert not (tmp_path / "second").exists()


def test_a_processor_without_a_trainer_is_refused(tmp_path, torchtitan):
    models, optimizers = made(1)
    logger = torchtitan.logger(tmp_path / "run")
    with pytest.raises(stepscope.SessionError, match="the model_parts are None"):
        logger.attach(processor_of(torchtitan.metrics, None, optimizers))
    with pytest.raises(stepscope.SessionError, match="the optimizers are None"):
        logger.attach(processor_of(torchtitan.metrics, models, None))


def test_a_version_that_was_not_tested_is_told_once_and_goes_on(tmp_path, torchtitan, monkeypatch, caplog):
    monkeypatch.setattr(frameworks, "version", lambda name: "0.4.0")
    monkeypatch.setattr(frameworks, "_warned", set())

    for name in ("first", "second"):
        models, optimizers = made(1)
        processor = processor_of(torchtitan.metrics, models, optimizers)
        torchtitan.logger(tmp_path / name).attach(processor)
        train(models, optimizers, processor)
        processor.close()
        assert stepscope.read_run(tmp_path / name).scalars("loss").steps.tolist() == list(range(4))

    assert caplog.text.count("stepscope was tested with torchtitan 0.3, and 0.4.0 is installed: it continues") == 1


def test_a_finding_asks_the_trainer_to_stop(tmp_path, torchtitan):
    models, optimizers = made(1)
    processor = processor_of(torchtitan.metrics, models, optimizers)
    logger = torchtitan.logger(tmp_path / "run", on_finding={"non_finite_gradient": "stop"})
    logger.attach(processor)
    train(models, optimizers, processor, steps=2)
    assert not logger.should_stop()

    with torch.no_grad():
        models[0].weight.fill_(float("nan"))
    train(models, optimizers, processor, steps=2)

    assert logger.should_stop()
    processor.close()
