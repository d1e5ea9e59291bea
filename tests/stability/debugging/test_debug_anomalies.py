"""Anomaly mode in a session: what it logs, when it raises, and what it puts back."""

import inspect
import warnings

import pytest
import torch
from debugged_training import Network, stability, train
from tracker_adapters.testing import MemoryEmitter

from stability import (
    AutogradAnomalyError,
    GradientClippingConfig,
    NaNHandlingConfig,
    PyTorchDebuggingConfig,
    create_training_wrapper,
)


class TestAnomalyMode:
    """Detecting names what may be at fault and goes on; raising stops the run."""

    def test_detect_names_the_operation_with_its_line_and_goes_on(self, caplog):
        emitter, model = MemoryEmitter(), Network()
        manager = stability(emitter, enable_autograd_anomaly=True)
        manager.start_debug_session("detect")

        results = train(model, manager, steps=3, root_at=1)

        assert "suspect_operations" not in results[0]["debug_info"]
        suspects = results[1]["debug_info"]["suspect_operations"]
        (root,) = [suspect for suspect in suspects if suspect.startswith("SqrtBackward0")]
        assert "hidden.sqrt()" in root
        assert inspect.getsourcefile(Network) in root
        assert root in [suspects[0], suspects[1]]
        (record,) = [record for record in caplog.records if "suspect" in record.message]
        assert record.stepscope == {"event": "suspect_operations", "session": "detect", "step": 1}
        assert "suspect_operations" in [artifact.name for artifact in emitter.artifacts]
        manager.stop_debug_session()

    def test_a_loss_without_a_graph_is_noted(self):
        model, manager = Network(), stability(enable_autograd_anomaly=True)
        manager.start_debug_session("detached")
        model(torch.randn(8, 4)).sum().backward()
        model.last.bias.grad.fill_(torch.nan)

        manager.step(model, 0.5, torch.optim.SGD(model.parameters()))
        manager.stop_debug_session()

        assert "the loss has no graph" in manager.get_debug_summary()["notes"][0]

    def test_raise_lets_torch_stop_at_a_nan_and_step_at_an_infinity(self):
        model = Network()
        manager = stability(enable_autograd_anomaly=True, autograd_anomaly_mode="raise")
        manager.start_debug_session("raise")
        value = torch.zeros(1, requires_grad=True)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            with pytest.raises(RuntimeError, match="returned nan values"):
                (value.sqrt() * 0).sum().backward()
        model(torch.randn(8, 4)).sum().backward()
        model.last.bias.grad.fill_(torch.inf)

        with pytest.raises(AutogradAnomalyError, match=r"step 0: inf_gradient: .*last\.bias"):
            manager.step(model, 0.5, torch.optim.SGD(model.parameters()))
        assert manager.history[-1].non_finite_gradients == 1
        manager.stop_debug_session()

    @pytest.mark.parametrize("mode", ["detect", "raise"])
    def test_the_mode_that_was_on_before_is_on_again_also_after_an_exception(self, mode):
        with torch.autograd.set_detect_anomaly(True, check_nan=mode == "detect"):
            config = PyTorchDebuggingConfig(
                enable_autograd_anomaly=True, autograd_anomaly_mode=mode, save_debug_info=False
            )
            with (
                pytest.raises(KeyError),
                create_training_wrapper(GradientClippingConfig(), NaNHandlingConfig(), config),
            ):
                assert torch.is_anomaly_check_nan_enabled() == (mode == "raise")
                raise KeyError
            assert torch.is_anomaly_enabled()
            assert torch.is_anomaly_check_nan_enabled() == (mode == "detect")

    @pytest.mark.parametrize("order", [(0, 1), (1, 0)], ids=["first in, first out", "last in, first out"])
    def test_of_sessions_that_overlap_the_strictest_holds_and_the_last_one_puts_the_mode_back(self, order):
        managers = [
            stability(enable_autograd_anomaly=True, autograd_anomaly_mode=mode, save_debug_info=False)
            for mode in ("detect", "raise")
        ]
        for manager in managers:
            manager.start_debug_session("overlapping")
        assert torch.is_anomaly_check_nan_enabled()

        managers[order[0]].stop_debug_session()
        assert torch.is_anomaly_enabled()
        assert torch.is_anomaly_check_nan_enabled() == (order[1] == 1)
        managers[order[1]].stop_debug_session()

        assert not torch.is_anomaly_enabled()
