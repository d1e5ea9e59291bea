"""Remedies are tried one at a time, kept when they help, and taken back when they do not."""

import copy
import pickle
import weakref

import pytest
import torch
from torch import nn

from debuggers.first_nan.operands import Operand
from debuggers.first_nan.origin import NonFiniteOrigin
from stability.errors import StabilityConfigError
from stability.recovery.config import RecoveryConfig
from stability.recovery.excluded_datapoints import RecoverySampler
from stability.recovery.recovery import Recovery
from stability.recovery.remedies import Fault


class Loop:
    """A model with an optimizer, whose faults are told to a recovery."""

    def __init__(self, **options):
        torch.manual_seed(0)
        self.model = nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 1))
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=1.0)
        self.scaler = None
        self.recovery = Recovery(RecoveryConfig(trial_steps=5, **options))
        self.step = 0

    def good(self, steps):
        for _ in range(steps):
            self.step += 1
            self.recovery.note_good_step(self.step)

    def fault(self, origin=None, *, loss_finite=True, ranks=()):
        self.step += 1
        stats = {"loss_finite": loss_finite, "gradients_finite": False, "scaler_step": False, "ranks": ranks}
        return self.recovery.note_fault(Fault(self.step, self.model, self.optimizer, self.scaler, stats, origin))

    def changes(self):
        return [(event.change, event.remedy) for event in self.recovery.events]

    def moved(self):
        """By how much a step moves a weight whose gradient is 1."""
        before = self.model[2].bias.detach().clone()
        for parameter in self.model.parameters():
            parameter.grad = torch.ones_like(parameter)
        self.optimizer.step()
        return (before - self.model[2].bias.detach()).item()


def operand(dtype, role="self"):
    numbers = {"minimum": -1.0, "maximum": 1.0, "nan": 0, "positive_inf": 0, "negative_inf": 0, "zeros": 0}
    return Operand(role=role, name="", dtype=dtype, shape=(2, 4), negatives=1, **numbers)


def origin(module="2", dtype="float16", datapoints=None):
    return NonFiniteOrigin(module=module, operator="aten::addmm", inputs=(operand(dtype),), datapoints=datapoints)


def test_nothing_is_switched_on_at_first():
    loop = Loop()
    assert loop.fault(origin(datapoints=(1,))) is None
    assert loop.recovery.events == ()
    assert loop.moved() == 1.0


def test_a_lower_learning_rate_that_helps_is_kept():
    loop = Loop(lower_learning_rate=True)
    assert loop.moved() == 1.0
    event = loop.fault()
    assert "the learning rate, 1, is multiplied by 0.5" in event.message
    assert loop.moved() == 0.5
    assert loop.optimizer.param_groups[0]["lr"] == 1.0
    loop.good(10)
    assert loop.changes() == [("applied", "lower_learning_rate"), ("kept", "lower_learning_rate")]
    loop.fault()
    assert loop.moved() == 0.25
    loop.recovery.close()
    assert loop.moved() == 1.0


def test_as_a_context_manager_it_leaves_nothing_behind():
    loop = Loop(lower_learning_rate=True)
    with loop.recovery:
        loop.fault()
        assert loop.moved() == 0.5
    assert loop.moved() == 1.0


def test_one_that_does_not_help_is_taken_back_and_then_nothing_is_left():
    loop = Loop(lower_learning_rate=True)
    loop.fault()
    loop.good(3)
    assert loop.fault() is None
    assert loop.fault() is None
    assert loop.changes() == [("applied", "lower_learning_rate"), ("undone", "lower_learning_rate"), ("exhausted", "")]
    assert loop.moved() == 1.0
    loop.good(5)
    assert loop.fault().change == "applied"


def test_schedulers_go_on_as_if_nothing_were():
    loop, plain = Loop(lower_learning_rate=True), Loop()
    schedulers = [
        torch.optim.lr_scheduler.LambdaLR(loop.optimizer, lambda step: 1 / (1 + step)),
        torch.optim.lr_scheduler.LambdaLR(plain.optimizer, lambda step: 1 / (1 + step)),
    ]
    loop.fault()
    for _ in range(4):
        assert loop.moved() == pytest.approx(0.5 * plain.moved(), rel=1e-5)
        for scheduler in schedulers:
            scheduler.step()
    assert schedulers[0].get_last_lr() == schedulers[1].get_last_lr()


def test_remedies_are_tried_in_order_and_only_where_they_fit():
    loop = Loop(exclude_datapoints=True, widen_operator=True, reduce_loss_scale=True, lower_learning_rate=True)
    assert loop.fault(origin(datapoints=(7, 3))).remedy == "exclude_datapoints"
    assert loop.fault(origin()).remedy == "widen_operator"
    assert loop.fault(origin()).remedy == "lower_learning_rate"  # there is no scaler whose scale could be lowered
    assert loop.recovery.excluded.indices == frozenset()


def test_excluded_datapoints_are_not_sampled_and_new_ones_are_added():
    loop = Loop(exclude_datapoints=True)
    sampler = RecoverySampler(range(6), loop.recovery.excluded)
    loop.fault(origin(datapoints=(2,)))
    assert list(sampler) == [0, 1, 3, 4, 5]
    loop.fault(origin(datapoints=(2, 4)))
    assert list(sampler) == [0, 1, 3, 5]
    assert loop.changes() == [
        ("applied", "exclude_datapoints"),
        ("kept", "exclude_datapoints"),
        ("applied", "exclude_datapoints"),
    ]
    loop.fault(None)
    assert list(sampler) == [0, 1, 3, 4, 5]
    assert len(sampler) == 6
    loader = torch.utils.data.DataLoader(list("abcdef"), batch_size=2, sampler=sampler)
    assert [letter for batch in loader for letter in batch] == ["a", "b", "d", "e", "f"]


def test_a_named_module_computes_in_float32_until_that_is_taken_back():
    loop = Loop(widen_operator=True)
    inputs = torch.full((2, 4), 300.0)
    with torch.no_grad():
        loop.model[0].weight.fill_(300.0)
        loop.model[2].weight.fill_(1.0)

    def run():
        with torch.autocast("cpu", dtype=torch.float16):
            return loop.model(inputs), loop.model[0](inputs).dtype

    assert not run()[0].isfinite().all()
    event = loop.fault(origin(module="0"))
    assert event.message == "0 computes in float32: aten::addmm left the range of its narrower dtype"
    hidden = run()[1]
    assert hidden == torch.float32
    assert torch.get_autocast_dtype("cpu") == torch.bfloat16
    assert not torch.is_autocast_enabled("cpu")
    pickle.loads(pickle.dumps(loop.model))
    copy.deepcopy(loop.model)(inputs)
    loop.fault(origin(module="0"))
    assert run()[1] == torch.float16


def test_an_exception_in_a_widened_module_leaves_autocast_as_it_was():
    loop = Loop(widen_operator=True)
    loop.fault(origin(module="0"))
    with torch.autocast("cpu", dtype=torch.bfloat16):
        with pytest.raises(RuntimeError):
            loop.model(torch.ones(2, 3))
        assert torch.is_autocast_enabled("cpu")
    assert not torch.is_autocast_enabled("cpu")


def test_float32_operators_are_not_widened():
    loop = Loop(widen_operator=True)
    assert loop.fault(origin(dtype="float32")) is None
    assert loop.fault(origin(module="the loss")) is None
    assert loop.changes() == [("exhausted", "")]


def test_a_model_with_narrow_parameters_is_not_widened():
    loop = Loop(widen_operator=True)
    loop.model.to(torch.bfloat16)

    assert loop.fault(origin(module="1", dtype="bfloat16")) is None
    loop.model(torch.ones(2, 4, dtype=torch.bfloat16))


def test_of_several_optimizers_the_one_whose_step_was_faulty_goes_slower():
    loop = Loop(lower_learning_rate=True)
    first, second = loop.optimizer, torch.optim.SGD(loop.model.parameters(), lr=1.0)
    loop.fault()
    loop.good(5)
    assert loop.moved() == 0.5
    loop.optimizer = second
    assert loop.moved() == 1.0
    loop.fault()
    assert loop.moved() == 0.5
    loop.fault()
    assert loop.moved() == 1.0
    loop.optimizer = first
    assert loop.moved() == 0.5
    loop.recovery.close()
    assert loop.moved() == 1.0


def test_a_closed_recovery_leaves_no_hook_and_no_other_rate_after_a_step_that_raised():
    loop = Loop(lower_learning_rate=True)
    loop.fault()
    with pytest.raises(ZeroDivisionError):
        loop.optimizer.step(lambda: 1 / 0)
    loop.recovery.close()

    assert loop.optimizer.param_groups[0]["lr"] == 1.0
    assert loop.moved() == 1.0


def test_the_loss_scale_falls_before_the_next_loss_is_scaled():
    loop = Loop(reduce_loss_scale=True)
    loop.scaler = torch.amp.GradScaler("cpu", init_scale=1024.0)
    scales = []

    def train_step():
        loss = loop.model(torch.ones(2, 4)).sum()
        scales.append(loop.scaler.get_scale())
        loop.optimizer.zero_grad()
        loop.scaler.scale(loss).backward()
        loop.scaler.unscale_(loop.optimizer)
        gradient = loop.model[2].bias.grad.item()
        loop.scaler.step(loop.optimizer)
        loop.scaler.update()
        return gradient

    assert train_step() == 2.0
    loop.scaler.scale(loop.model(torch.ones(2, 4)).sum()).backward()
    event = loop.fault()
    assert "from 1024 to 512" in event.message
    assert loop.scaler.get_scale() == 1024.0  # this step's gradients carry it
    assert train_step() == 2.0
    assert loop.fault() is None
    assert train_step() == 2.0
    assert scales == [1024.0, 512.0, 1024.0]
    assert loop.fault(loss_finite=False) is None


@pytest.mark.parametrize("name", ["learning_rate_factor", "loss_scale_factor"])
def test_a_wrong_configuration_is_refused(name):
    with pytest.raises(StabilityConfigError, match=f"{name} is 1.5; expected a number between 0 and 1"):
        RecoveryConfig(**{name: 1.5})
    with pytest.raises(TypeError, match="no field 'widen_operators'; did you mean 'widen_operator'"):
        RecoveryConfig(widen_operators=True)


def starve():
    torch.empty(1 << 58, dtype=torch.uint8)


def test_a_step_that_runs_out_of_memory_is_given_up_and_leaves_nothing_behind():
    loop = Loop(relieve_memory=True)
    held = []
    loop.model[0].weight.grad = torch.ones(4, 4)

    def big_step():
        activations = torch.zeros(1000)
        held.append(weakref.ref(activations))
        starve()

    with loop.recovery.relieved(loop.model, 3):
        big_step()
        pytest.fail("the step goes on")
    (event,) = loop.recovery.events
    assert (event.step, event.change, event.remedy) == (3, "applied", "relieve_memory")
    assert "the step was dropped" in event.message
    assert held[0]() is None
    assert loop.model[0].weight.grad is None


def test_memory_that_stays_short_is_an_error_after_some_steps_in_a_row():
    loop = Loop(relieve_memory=True, memory_attempts=2)
    for _ in range(3):
        with loop.recovery.relieved(loop.model, 0):
            starve()
        with loop.recovery.relieved(loop.model, 1):
            pass
    with loop.recovery.relieved(loop.model, 2):
        starve()
    with pytest.raises(RuntimeError, match="allocate"), loop.recovery.relieved(loop.model, 3):
        starve()


def test_other_exceptions_and_a_remedy_that_is_off_change_nothing():
    with pytest.raises(RuntimeError, match="allocate"), Loop().recovery.relieved(nn.Linear(1, 1), 0):
        starve()
    loop = Loop(relieve_memory=True)
    with pytest.raises(RuntimeError, match="something else"), loop.recovery.relieved(loop.model, 0):
        raise RuntimeError("something else")
    assert loop.recovery.events == ()


def test_several_ranks_only_do_what_is_the_same_on_all():
    loop = Loop(exclude_datapoints=True, widen_operator=True, reduce_loss_scale=True, lower_learning_rate=True)
    loop.scaler = torch.amp.GradScaler("cpu")
    assert loop.fault(origin(datapoints=(7,)), ranks=[1]).remedy == "lower_learning_rate"
