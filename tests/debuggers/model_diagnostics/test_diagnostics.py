"""Model diagnostics: the course of a training by recorded metrics, its score, and clear errors."""

import math
from itertools import pairwise

import numpy as np
import pytest
import torch

import stepscope
from debuggers import ModelArchitectureInfo, ModelDiagnostics, ModelPerformanceMetrics
from debuggers.errors import ArgumentTypeError, DebuggerConfigError


def recorded(losses, **series):
    diagnostics = ModelDiagnostics()
    for step, loss in enumerate(losses):
        others = {name: values[step] for name, values in series.items()}
        diagnostics.record_performance(ModelPerformanceMetrics(training_step=step, loss=loss, **others))
    return diagnostics


def test_a_falling_loss_is_converging_and_healthy():
    diagnostics = recorded([1 - step / 100 for step in range(51)])

    dynamics = diagnostics.training_dynamics()
    first, last = 1 - 4.5 / 100, 1 - 45.5 / 100
    assert dynamics.convergence == pytest.approx((first - last) / first)
    assert dynamics.efficiency == pytest.approx(dynamics.convergence * 1000 / 50)
    assert dynamics.stability == 1
    assert dynamics.plateau is False
    assert (dynamics.generalisation_gap, dynamics.throughput, dynamics.throughput_change) == (None, None, None)
    parts = 0.35 + 0.25 * dynamics.convergence / 0.5 + 0.2 * dynamics.stability
    assert diagnostics.health_score() == pytest.approx(parts / 0.8)
    assert diagnostics.recommendations() == ()


def test_a_loss_that_stands_is_a_plateau():
    diagnostics = recorded([1.0] * 30)

    assert diagnostics.training_dynamics().plateau is True
    assert "stands still after falling by 0.0%" in diagnostics.recommendations()[0]


def test_a_loss_that_rose_is_told():
    diagnostics = recorded([1 + step / 10 for step in range(30)])

    assert "rose by" in diagnostics.recommendations()[0]
    parts = 0.35 + 0.2 * diagnostics.training_dynamics().stability
    assert diagnostics.health_score() == pytest.approx(parts / 0.8 / 2)


def test_a_loss_that_jumps_is_told():
    (advice,) = recorded([2.0 * 0.9**step + step % 2 * 0.1 for step in range(40)]).recommendations()

    assert "jumps by" in advice


@pytest.mark.parametrize(
    "losses",
    [
        [5 - 0.4 * step for step in range(12)],
        [5 * 0.5**step for step in range(12)],
        [0.5 * 0.8**step for step in range(10)],
        [5 * 0.5**step + 1.0 * (step == 30) for step in range(40)],
    ],
)
def test_a_fall_is_no_jump_however_steep(losses):
    diagnostics = recorded(losses)

    assert diagnostics.training_dynamics().stability == 1
    assert not any("jumps" in advice for advice in diagnostics.recommendations())


@pytest.mark.parametrize(("noise", "count"), [(0.24, 0), (0.26, 1)])
def test_noise_is_a_jump_from_a_quarter_of_the_loss_on(noise, count):
    diagnostics = recorded([4.0] * 20 + [1 + (-1) ** step * noise / 2 for step in range(20)])

    assert diagnostics.training_dynamics().stability == pytest.approx(1 / (1 + noise))
    assert sum("jumps by" in advice for advice in diagnostics.recommendations()) == count


@pytest.mark.parametrize(("validation", "count"), [(0.74, 0), (0.76, 1)])
def test_the_gap_to_the_validation_loss_is_told_from_a_half_on(validation, count):
    losses = [1.0] * 10 + [0.5] * 40
    diagnostics = recorded(losses, validation_loss=[None] * 49 + [validation])

    assert diagnostics.training_dynamics().generalisation_gap == pytest.approx(validation / 0.5 - 1)
    assert sum("validation loss" in advice for advice in diagnostics.recommendations()) == count


@pytest.mark.parametrize(("speed", "count"), [(81, 0), (79, 1)])
def test_a_throughput_that_fell_by_a_fifth_is_told(speed, count):
    diagnostics = recorded([0.9**step for step in range(30)], throughput_samples_per_sec=[100] * 15 + [speed] * 15)

    assert diagnostics.training_dynamics().throughput == pytest.approx((100 + speed) / 2)
    assert diagnostics.training_dynamics().throughput_change == pytest.approx(speed / 100 - 1)
    assert sum("throughput fell" in advice for advice in diagnostics.recommendations()) == count


def test_too_few_records_are_not_called_healthy():
    dynamics = recorded([1.0] * 7).training_dynamics()

    assert (dynamics.convergence, dynamics.plateau, dynamics.stability) == (None, None, None)
    assert recorded([1.0] * 7).health_score() is None
    assert ModelDiagnostics().health_score() is None
    assert ModelDiagnostics().training_dynamics().non_finite is None
    assert ModelDiagnostics().recommendations() == ()


def test_nan_is_legal_and_speaks_against_the_training():
    diagnostics = recorded([math.nan] * 10)

    assert diagnostics.training_dynamics().non_finite == 1
    assert diagnostics.health_score() == 0
    assert diagnostics.recommendations()[0].startswith("100.0% of the losses are NaN")
    assert recorded([0.0] * 10).training_dynamics().convergence is None


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"loss": "0.5"}, "performance metrics: loss is '0.5'; expected a number"),
        ({"loss": torch.tensor([0.5])}, r"loss is tensor\(\[0.5000\]\); expected a number"),
        ({"loss": torch.tensor(0.5, device="meta")}, "loss is tensor.*meta.*; expected a number"),
        ({"loss": 0.5, "accuracy": "good"}, "accuracy is 'good'; expected a number, or None"),
        ({"loss": 0.5, "accuracy": 1.01}, "accuracy is 1.01; expected a share from 0 to 1, such as 0.85, or None"),
        ({"loss": 0.5, "accuracy": -0.01}, "accuracy is -0.01; expected a share from 0 to 1"),
        ({"loss": 0.5, "batch_size": 0}, "batch_size is 0; expected an integer of at least 1, or None"),
        ({"loss": 0.5, "throughput_samples_per_sec": -5}, "throughput_samples_per_sec is -5; expected a number of at"),
        ({"loss": 0.5, "training_step": -1}, "training_step is -1; expected an integer of at least 0"),
    ],
)
def test_a_wrong_metric_is_one_clear_error(values, message):
    with pytest.raises(DebuggerConfigError, match=message):
        ModelPerformanceMetrics(**{"training_step": 0, **values})


def test_scalars_of_numpy_are_numbers():
    metrics = ModelPerformanceMetrics(training_step=np.int64(3), loss=np.float32(0.5), accuracy=np.float64("nan"))

    assert (type(metrics.training_step), metrics.training_step) == (int, 3)
    assert (type(metrics.loss), metrics.loss) == (float, 0.5)
    assert math.isnan(metrics.accuracy)


@pytest.mark.parametrize("accuracy", [0, 1.0, math.nan, np.array(0.5), torch.tensor(0.5)])
def test_a_share_and_a_tensor_without_dimensions_are_taken(accuracy):
    loss = torch.tensor(1.5, requires_grad=True)
    metrics = ModelPerformanceMetrics(
        training_step=0, loss=loss, accuracy=accuracy, batch_size=1, throughput_samples_per_sec=0
    )

    assert (type(metrics.loss), metrics.loss) == (float, 1.5)
    assert type(metrics.accuracy) in (int, float)


def test_what_is_no_record_is_a_clear_error():
    with pytest.raises(ArgumentTypeError, match="got dict; expected a ModelPerformanceMetrics"):
        ModelDiagnostics().record_performance({"loss": 1.0})
    with pytest.raises(ArgumentTypeError, match="got int; expected a ModelArchitectureInfo"):
        ModelDiagnostics().record_architecture(3)
    with pytest.raises(ArgumentTypeError, match="no model"):
        ModelDiagnostics().flops()


@pytest.mark.slow
def test_a_million_records_are_kept_evenly_and_few():
    diagnostics, total = ModelDiagnostics(), 1_000_000
    one = [ModelPerformanceMetrics(training_step=step, loss=1.0) for step in range(0, total, 1000)]
    for step in range(total):
        diagnostics.record_performance(one[step // 1000])

    steps = [record.training_step for record in diagnostics.records]
    assert diagnostics.recorded == total
    assert 2048 <= len(steps) <= 4096
    assert steps[0] == 0
    assert steps[-1] == total - 1000
    assert max(after - before for before, after in pairwise(steps)) == 1000


def test_a_session_without_a_model_takes_what_it_is_told():
    session = stepscope.debug_session()
    assert session.model_diagnostics.architecture() is None
    told = ModelArchitectureInfo(
        total_parameters=125_000_000, trainable_parameters=125_000_000, model_size_mb=500.0, layer_count=24
    )
    session.model_diagnostics.record_architecture(told)

    assert session.model_diagnostics.architecture() is told
