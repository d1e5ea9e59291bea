"""A DebugConfig holds the documented fields, three presets, and names what is wrong."""

import pytest
import torch

from stepscope.errors import ConfigError
from stepscope.sessions.config import DebugConfig, as_config
from stepscope.sessions.schedule import Schedule


def test_the_documented_configuration_works():
    config = DebugConfig(
        enable_tensor_inspection=True,
        enable_gradient_debugging=True,
        enable_model_diagnostics=True,
        enable_visualization=True,
        max_tracked_tensors=1000,
        max_gradient_history=200,
        output_dir="./debug_output",
        sampling_rate=0.1,
    )

    assert config.schedule == Schedule(every=10)


def test_presets_can_be_changed():
    config = DebugConfig.preset("full", activations=[torch.nn.Linear, "blocks.*"])

    assert config.weights
    assert config.max_overhead is None
    assert config.activations == [torch.nn.Linear, "blocks.*"]


def test_a_preset_serves_as_configuration():
    assert as_config("standard") == as_config(None) == DebugConfig()
    assert as_config("economy").schedule.dense_until == 100


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"max_tracked_tensors": 0}, "max_tracked_tensors is 0"),
        ({"histogram_every": 1.5}, "histogram_every is 1.5"),
        ({"weights": 1}, "weights is 1"),
        ({"output_dir": 3}, "output_dir is 3"),
        ({"max_overhead": -0.1}, "max_overhead is -0.1"),
        ({"max_overhead": 0}, "max_overhead is 0"),
        ({"activations": "all"}, "activations is 'all'"),
        ({"schedule": 10}, "schedule is 10"),
        ({"sampling_rate": 2}, "sampling_rate is 2"),
        ({"sampling_rate": 0.5, "schedule": Schedule(every=3)}, "expected one of the two"),
    ],
)
def test_a_wrong_value_is_named(wrong, message):
    with pytest.raises(ConfigError, match=message):
        DebugConfig(**wrong)


def test_an_unknown_preset_field_or_configuration_is_named():
    with pytest.raises(ConfigError, match="preset is 'huge'; expected one of economy, standard, full"):
        DebugConfig.preset("huge")
    with pytest.raises(ConfigError, match="no field 'gradient_history'; did you mean 'max_gradient_history'"):
        DebugConfig.preset("full", gradient_history=3)
    with pytest.raises(ConfigError, match="config is 3"):
        as_config(3)
