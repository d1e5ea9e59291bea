"""Gradient checks in a session: one module a turn, told once."""

import time

import pytest
import torch
from debugged_training import Network, WrongLayer, hooks_of, stability, train
from torch import nn
from tracker_adapters.testing import MemoryEmitter


class TestGradientChecks:
    """One module a turn."""

    def test_models_that_take_turns_are_checked_both(self):
        manager = stability(enable_grad_check=True, grad_check_every=3, grad_check_budget_s=3600.0)
        first, second = nn.Linear(4, 4), nn.Sequential(nn.Linear(4, 1))
        manager.start_debug_session("turns")
        for number in range(24):
            model = (first, second)[number % 2]
            model.zero_grad()
            loss = second(first(torch.randn(8, 4))).square().mean()
            loss.backward()
            manager.step(model, loss, torch.optim.SGD(model.parameters(), lr=0.01))
        manager.stop_debug_session()

        checks = manager.get_debug_summary()["gradient_checks"]
        assert set(checks["passed"]) == {"Linear", "0"}
        assert (checks["skipped"], hooks_of(first), hooks_of(second)) == ({}, 0, 0)

    def test_a_layer_that_was_exchanged_has_its_turn_and_the_old_one_has_not(self):
        model = nn.Sequential(nn.Linear(4, 4))
        manager = stability(enable_grad_check=True, grad_check_every=1, grad_check_budget_s=3600.0)
        manager.start_debug_session("exchanged")
        train(model, manager, steps=3)
        old, model[0] = model[0], WrongLayer()
        model.append(nn.Linear(4, 1))
        train(model, manager, steps=6)
        manager.stop_debug_session()

        checks = manager.get_debug_summary()["gradient_checks"]
        assert checks["failed"].keys() == {"0"}
        assert "1" in checks["passed"]
        assert hooks_of(old) == hooks_of(model) == 0

    def test_every_module_has_its_turn_and_the_wrong_one_is_told_once(self):
        emitter = MemoryEmitter()
        model = nn.Sequential(nn.Linear(4, 6), WrongLayer(), nn.Linear(6, 1))
        manager = stability(emitter, enable_grad_check=True, grad_check_every=1, grad_check_budget_s=3600.0)
        manager.start_debug_session("turns")

        results = train(model, manager, steps=8)
        manager.stop_debug_session()

        checked = [result["debug_info"]["gradient_check"]["module"] for result in results[1:]]
        assert checked == ["0", "1", "2", "0", "1", "2", "0"]
        summary = manager.get_debug_summary()
        assert summary["gradient_checks"]["passed"] == {"0": 3, "2": 2}
        assert summary["gradient_checks"]["failed"] == {"1": 2}
        assert summary["anomalies_by_kind"] == {"gradient_check_failed": 1}
        assert "1: the gradient of output 0 with respect to input 0" in summary["last_anomaly"]["message"]
        assert [artifact.name for artifact in emitter.artifacts].count("gradient_check_failed") == 1

    @pytest.mark.slow
    def test_with_a_share_of_the_time_checks_and_profiles_keep_to_it(self):
        manager = stability(
            enable_grad_check=True, enable_memory_debugging=True, memory_profiling=True, check_max_share=0.1
        )
        manager.start_debug_session("share")

        begun = time.perf_counter()
        results = train(Network(), manager, steps=400)
        elapsed = time.perf_counter() - begun
        manager.stop_debug_session()

        checks = [info["gradient_check"] for result in results if "gradient_check" in (info := result["debug_info"])]
        profiles = [number for number, result in enumerate(results) if "memory_profile" in result["debug_info"]]
        seconds = [check["seconds"] for check in checks]
        assert 2 <= len(checks) < 200
        assert sum(seconds) <= 0.1 * elapsed + 2 * max(seconds)
        assert profiles[0] == 1
        assert 2 <= len(profiles) < 400

    def test_checks_come_at_their_interval(self):
        manager = stability(enable_grad_check=True, grad_check_every=3, grad_check_budget_s=3600.0)
        manager.start_debug_session("interval")

        results = train(Network(), manager, steps=8)
        manager.stop_debug_session()

        assert [number for number, result in enumerate(results) if "gradient_check" in result["debug_info"]] == [
            1,
            4,
            7,
        ]

    @pytest.mark.parametrize(
        ("fields", "reason"),
        [({"grad_check_numerical": False}, "dense"), ({"grad_check_budget_s": 1e-9}, "out of time")],
    )
    def test_what_is_skipped_is_counted_by_reason(self, fields, reason):
        manager = stability(enable_grad_check=True, grad_check_every=1, **fields)
        manager.start_debug_session("skips")

        train(nn.Sequential(nn.Linear(4, 2)), manager, steps=3)
        manager.stop_debug_session()

        assert manager.get_debug_summary()["gradient_checks"]["skipped"] == {reason: 2}

    def test_a_module_that_is_not_called_gives_its_turn_away(self):
        model = Network()
        model.spare = nn.Linear(2, 2)
        manager = stability(enable_grad_check=True, grad_check_every=2, grad_check_budget_s=3600.0)
        manager.start_debug_session("spare")

        train(model, manager, steps=11)
        manager.stop_debug_session()

        assert manager.get_debug_summary()["gradient_checks"]["skipped"] == {"not called": 1}
