"""Configurations: defaults of the document, unknown fields and wrong values refused by name."""

import dataclasses
import pickle

import numpy as np
import pytest

from stability import (
    GradientClippingConfig,
    NaNHandlingConfig,
    NumericalStabilityManager,
    PyTorchDebuggingConfig,
    StabilityConfigError,
)
from stability.debugging.config import PRESETS, TOOLS_OF_SWITCHES

DOCUMENTED = {
    "enable_autograd_anomaly": False,
    "autograd_anomaly_mode": "detect",
    "enable_grad_check": False,
    "grad_check_numerical": True,
    "grad_check_sparse_numerical": True,
    "enable_memory_debugging": False,
    "memory_tracking": False,
    "memory_profiling": False,
    "enable_cuda_debugging": False,
    "cuda_synchronize": False,
    "cuda_memory_fraction": 1.0,
    "enable_performance_debugging": False,
    "profile_autograd": False,
    "profile_memory": False,
    "debug_level": "info",
    "verbose_logging": False,
    "max_debug_iterations": 1000,
    "debug_timeout": 300.0,
    "save_debug_info": True,
    "debug_output_dir": "debug_output",
    "debug_file_prefix": "pytorch_debug",
}


def test_the_debugging_configuration_begins_with_the_documented_fields_and_defaults():
    fields = list(dataclasses.asdict(PyTorchDebuggingConfig()).items())

    assert fields[: len(DOCUMENTED)] == list(DOCUMENTED.items())


def test_clipping_is_by_norm_to_one_and_nan_is_detected_by_default():
    config = GradientClippingConfig()
    assert (config.clipping_type, config.max_norm, config.norm_type) == ("norm", 1.0, 2.0)
    assert NaNHandlingConfig().handling_type == "detect"


def test_an_unknown_field_is_refused_with_the_nearest_and_all_known_names():
    with pytest.raises(TypeError, match=r"no field 'max_nrom'; did you mean 'max_norm'\? .*clipping_type, max_norm"):
        GradientClippingConfig(max_nrom=1.0)
    with pytest.raises(TypeError, match="no field 'zzz'; its fields are handling_type"):
        NaNHandlingConfig(zzz=1)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: GradientClippingConfig(clipping_type="median"), "'median'; expected 'norm' or 'none' or 'value'"),
        (lambda: GradientClippingConfig(max_norm=0.0), "max_norm is 0.0; expected a number above 0"),
        (lambda: GradientClippingConfig(max_norm=float("nan")), "max_norm is nan; expected a number above 0"),
        (lambda: GradientClippingConfig(max_norm="1"), "max_norm is '1'; expected a number"),
        (lambda: GradientClippingConfig(norm_type=-1), "norm_type is -1; expected a number above 0"),
        (lambda: NaNHandlingConfig(handling_type="clamp"), "handling_type is 'clamp'; expected 'detect' or 'replace'"),
        (lambda: NaNHandlingConfig(nan_value=float("nan")), "nan_value is nan; expected a finite number"),
        (lambda: NaNHandlingConfig(inf_value=-1.0), "inf_value is -1.0; expected a finite number of at least 0, or"),
        (lambda: NaNHandlingConfig(inf_value=True), "inf_value is True; expected a finite number of at least 0, or"),
        (lambda: NaNHandlingConfig(scale_factor=0.0), "scale_factor is 0.0; expected a number above 0 and at most 1"),
        (lambda: NaNHandlingConfig(snapshots=0), "snapshots is 0; expected an integer of at least 1"),
        (lambda: NaNHandlingConfig(snapshot_every=2.5), "snapshot_every is 2.5; expected an integer"),
        (lambda: NaNHandlingConfig(snapshot_place="disk"), "snapshot_place is 'disk'; expected 'host' or 'device'"),
        (lambda: NaNHandlingConfig(adaptive_share=1.5), "adaptive_share is 1.5; expected a number from 0 to 1"),
        (lambda: NaNHandlingConfig(adaptive_restore_after=0), "adaptive_restore_after is 0; expected an integer of at"),
        (lambda: PyTorchDebuggingConfig(autograd_anomaly_mode="log"), "'log'; expected 'detect' or 'raise'"),
        (lambda: PyTorchDebuggingConfig(debug_level="debug"), "expected 'info' or 'warning' or 'error'"),
        (lambda: PyTorchDebuggingConfig(verbose_logging="yes"), "verbose_logging is 'yes'; expected True or False"),
        (lambda: PyTorchDebuggingConfig(max_debug_iterations=1.5), "is 1.5; expected an integer"),
        (lambda: PyTorchDebuggingConfig(max_debug_iterations=True), "is True; expected an integer"),
        (lambda: PyTorchDebuggingConfig(debug_timeout=0), "debug_timeout is 0; expected a number above 0"),
        (lambda: PyTorchDebuggingConfig(cuda_memory_fraction=1.5), "is 1.5; expected a number above 0 and at most 1"),
        (lambda: PyTorchDebuggingConfig(debug_file_prefix="a/b"), "'a/b'; expected the beginning of a file name"),
        (lambda: PyTorchDebuggingConfig(debug_output_dir="a\0b"), r"'a\\x00b'; expected the path of a folder"),
        (lambda: PyTorchDebuggingConfig(check_max_share="2 %"), "'2 %'; expected a number above 0 and at most 1, or"),
        (lambda: PyTorchDebuggingConfig(check_max_share=True), "is True; expected a number above 0 and at most 1, or"),
        (lambda: PyTorchDebuggingConfig(profile_wait=-1), "profile_wait is -1; expected a number of steps, 0 or more"),
        (lambda: PyTorchDebuggingConfig.preset("prod"), "no preset 'prod'; expected one of 'development', 'testing'"),
        (
            lambda: PyTorchDebuggingConfig(
                enable_grad_check=True, grad_check_numerical=False, grad_check_sparse_numerical=False
            ),
            "expected at least one of the two",
        ),
    ],
)
def test_a_wrong_value_is_refused_by_name_with_what_is_allowed(make, message):
    with pytest.raises(StabilityConfigError, match=message):
        make()


@pytest.mark.parametrize(
    ("configs", "message"),
    [
        (({"max_norm": 1.0}, NaNHandlingConfig()), r"clipping_config is .*max_norm.*; expected a GradientClippingC"),
        ((GradientClippingConfig(), None), "nan_config is None; expected a NaNHandlingConfig"),
        ((GradientClippingConfig(), NaNHandlingConfig(), True), "debug_config is True; expected a PyTorchDebuggingC"),
    ],
)
def test_a_manager_refuses_what_is_no_configuration(configs, message):
    with pytest.raises(StabilityConfigError, match=message):
        NumericalStabilityManager(*configs)


COUNTS = "max_debug_iterations max_debug_files grad_check_every memory_profile_every profile_active profile_repeat"
BUDGETS = "debug_timeout max_debug_file_mb grad_check_budget_s memory_leak_mb"


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        *((name, "an integer of at least 1") for name in COUNTS.split()),
        *((name, "a number above 0") for name in BUDGETS.split()),
    ],
)
def test_counts_and_budgets_are_positive(name, expected):
    with pytest.raises(StabilityConfigError, match=f"{name} is 0; expected {expected}"):
        PyTorchDebuggingConfig(**{name: 0})


def test_numbers_of_numpy_are_numbers():
    assert GradientClippingConfig(max_norm=np.float64(2)).max_norm == 2
    with pytest.raises(StabilityConfigError, match=r"max_norm is .*; expected a number above 0"):
        GradientClippingConfig(max_norm=np.float64("nan"))


@pytest.mark.parametrize("name", TOOLS_OF_SWITCHES)
def test_a_switch_needs_its_tool(name):
    value = 0.5 if name == "cuda_memory_fraction" else True
    tool = TOOLS_OF_SWITCHES[name][1]

    with pytest.raises(StabilityConfigError, match=f"{name} is {value} and {tool} is False; expected {tool}=True"):
        PyTorchDebuggingConfig(**{name: value})
    assert getattr(PyTorchDebuggingConfig(**{name: value, tool: True}), name) == value


@pytest.mark.parametrize(
    ("name", "anomaly", "grad_check", "memory"),
    [
        ("development", True, True, True),
        ("testing", True, False, True),
        ("production", False, False, False),
        ("debugging", True, True, True),
    ],
)
def test_a_preset_switches_on_what_the_documents_table_says(name, anomaly, grad_check, memory):
    config = PyTorchDebuggingConfig.preset(name)

    switches = (config.enable_autograd_anomaly, config.enable_grad_check, config.enable_memory_debugging)
    assert switches == (anomaly, grad_check, memory)
    assert dataclasses.replace(config, debug_level="error") == PyTorchDebuggingConfig.preset(name, debug_level="error")


def test_every_preset_is_listed():
    assert list(PRESETS) == ["development", "testing", "production", "debugging"]


def test_a_configuration_is_frozen_and_survives_pickling_and_replacing():
    config = GradientClippingConfig(max_norm=2.0)

    with pytest.raises(dataclasses.FrozenInstanceError):
        config.max_norm = 3.0
    assert config == pickle.loads(pickle.dumps(config))
    assert GradientClippingConfig(max_norm=2.0, norm_type=1.0) == dataclasses.replace(config, norm_type=1.0)
