"""Going back to a good snapshot: all of the state, in place, and further back when that does not help."""

import copy
import gc
import math
import random
import weakref

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn
from tracker_adapters.artifacts import Alert
from tracker_adapters.testing import MemoryEmitter

from stability import GradientClippingConfig, NaNHandlingConfig, NumericalStabilityManager
from stability.handling.snapshots import SnapshotRing
from stability.handling.training_state import TrainingState


class Network(nn.Module):
    """Has running statistics, dropout, a tied weight, and a buffer that is replaced and grows."""

    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Linear(4, 4), nn.Linear(4, 4)
        self.second.weight = self.first.weight
        self.norm, self.dropout = nn.BatchNorm1d(4), nn.Dropout(0.5)
        self.register_buffer("seen", torch.zeros(0), persistent=False)

    def forward(self, inputs):
        self.seen = torch.cat([self.seen, inputs.mean().reshape(1)])
        return self.second(self.dropout(self.norm(self.first(inputs))))


OPTIMIZERS = {
    "AdamW": lambda parameters: torch.optim.AdamW(parameters, lr=0.01, amsgrad=True),
    "SGD": lambda parameters: torch.optim.SGD(parameters, lr=0.01, momentum=0.9),
    "LBFGS": lambda parameters: torch.optim.LBFGS(parameters, lr=0.1, max_iter=2, history_size=2),
}


def manager(scaler=None, emitter=None, **handling):
    clipping = GradientClippingConfig(clipping_type="none")
    config = NaNHandlingConfig(handling_type="restore", **handling)
    return NumericalStabilityManager(clipping, config, scaler=scaler, emitter=emitter)


def state(model, optimizer):
    buffers = {name: buffer.clone() for name, buffer in model.named_buffers()}
    generators = (torch.get_rng_state().tolist(), random.getstate(), np.random.get_state()[1].tolist())
    return copy.deepcopy((model.state_dict(), buffers, optimizer.state_dict()["state"])), generators


def same(one, other):
    if isinstance(one, torch.Tensor):
        return torch.equal(one, other)
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(same(one[key], other[key]) for key in one)
    if isinstance(one, (list, tuple)):
        return len(one) == len(other) and all(same(a, b) for a, b in zip(one, other, strict=True))
    return one == other


class Training:
    """A training with every kind of state, its states before each optimizer step, and the manager's answers."""

    def __init__(self, name, stability):
        torch.manual_seed(0), random.seed(0), np.random.seed(0)
        self.model = Network()
        self.optimizer = OPTIMIZERS[name](self.model.parameters())
        self.manager = stability
        self.states = []

    def loss(self):
        random.random(), np.random.random()
        self.optimizer.zero_grad()
        loss = self.model(torch.randn(6, 4)).square().mean()
        loss.backward()
        return loss

    def good_steps(self, count):
        for _ in range(count):
            loss = self.loss()
            self.states.append(self.now())
            self.manager.step(self.model, loss, self.optimizer)
            self.optimizer.step(self.loss if isinstance(self.optimizer, torch.optim.LBFGS) else None)

    def fault(self):
        return self.manager.step(self.model, self.loss() * math.nan, self.optimizer)["nan_stats"]

    def now(self):
        return state(self.model, self.optimizer)


@pytest.mark.parametrize("name", OPTIMIZERS)
@pytest.mark.parametrize("place", ["host", "device"])
class TestRestoring:
    """Good steps and then a fault."""

    @pytest.fixture
    def training(self, name, place):
        return Training(name, manager(snapshots=2, snapshot_every=2, snapshot_place=place))

    def test_everything_is_as_it_was_at_the_snapshot(self, training):
        training.good_steps(6)  # snapshots at 0, 2 and 4, of which two are kept

        stats = training.fault()

        assert (stats["action"], stats["restored_step"]) == ("restored", 4)
        assert same(training.states[4], training.now())

    def test_the_step_after_restoring_changes_nothing(self, training):
        training.good_steps(5)
        training.fault()

        training.optimizer.step(training.loss)

        assert same(training.states[4], training.now())

    def test_tensors_keep_their_identity(self, training):
        training.good_steps(4)
        parameters = [(id(p), p.data_ptr()) for p in training.model.parameters()]

        training.fault()

        assert parameters == [(id(p), p.data_ptr()) for p in training.model.parameters()]
        assert training.model.first.weight is training.model.second.weight
        assert all(p.requires_grad for p in training.model.parameters())

    def test_a_fault_that_stays_goes_one_further_back_and_then_says_that_nothing_is_left(self, training):
        training.good_steps(6)

        found = [
            (stats["action"], stats["restored_step"], stats["exhausted"])
            for stats in (training.fault() for _ in range(4))
        ]

        assert found == [("restored", 4, False), ("restored", 2, False), *[("skipped", None, True)] * 2]

    def test_healthy_training_is_the_same_to_the_bit_with_snapshots(self, training, name):
        detecting = NumericalStabilityManager(GradientClippingConfig(clipping_type="none"), NaNHandlingConfig())
        training.good_steps(6)
        watched = training.now()
        alone = Training(name, detecting)
        alone.good_steps(6)

        assert same(alone.now(), watched)


class Ring:
    """A training whose only state is one weight: its value says where it is."""

    def __init__(self, **handling):
        self.model = nn.ParameterList([torch.zeros(1)])
        self.optimizer = torch.optim.SGD(self.model.parameters())
        self.ring = SnapshotRing(NaNHandlingConfig(handling_type="restore", **handling))
        self.steps = 0

    @torch.no_grad()
    def good(self):
        self.ring.note_good_step(self.model, self.optimizer, None, self.steps)
        self.model[0] += 1
        self.steps += 1

    def fault(self):
        self.steps += 1
        return self.ring.restore(self.model, self.optimizer, None)

    def age(self):
        return int(self.model[0].item())


class TestRing:
    """Which snapshot is taken and used."""

    def test_before_the_first_snapshot_there_is_nothing_to_go_back_to(self):
        assert Ring().fault() is None

    def test_a_fault_after_progress_goes_back_to_the_newest_snapshot_again(self):
        ring = Ring(snapshot_every=5)
        for _ in range(3):
            for _ in range(7):
                ring.good()
            ring.fault()
        assert ring.age() == 15

    @given(st.integers(1, 4), st.integers(1, 6), st.lists(st.integers(0, 40), min_size=1, max_size=4, unique=True))
    @settings(deadline=None)
    def test_faults_that_come_back_with_the_same_batch_are_overcome(self, count, every, bad_ages):
        """Restored generators bring the same batches again: a fault sits at an age until a step is skipped there."""
        ring = Ring(snapshots=count, snapshot_every=every)
        left = set(bad_ages)
        for _ in range(3000):
            if ring.age() >= 50:
                break
            if ring.age() in left:
                if ring.fault() is None:
                    left.discard(ring.age())  # skipped: the generators went on, and the next batch is another one
            else:
                ring.good()

        assert ring.age() >= 50

    @given(st.integers(1, 5), st.lists(st.booleans(), max_size=60))
    def test_there_are_never_more_copies_than_asked_for(self, count, faults):
        ring = Ring(snapshots=count, snapshot_every=1)
        for faulty in faults:
            ring.fault() if faulty else ring.good()
            assert ring.ring.bytes() <= count * 4


def test_memory_is_stated_and_reused():
    model = nn.Linear(512, 512, bias=False)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    stability = manager(snapshots=3, snapshot_every=1)
    stated = []
    for _ in range(6):
        optimizer.zero_grad()
        model(torch.ones(1, 512)).mean().backward()
        stated.append(stability.step(model, 0.5, optimizer)["debug_info"]["snapshot_mb"])
        optimizer.step()

    assert stated == [1.0, 3.0, 5.0, 6.0, 6.0, 6.0], "a megabyte of weights, and of momentum from the second step on"


def test_without_snapshots_no_memory_is_stated():
    model = nn.Linear(2, 2)
    model(torch.ones(1, 2)).mean().backward()
    stability = NumericalStabilityManager(GradientClippingConfig(), NaNHandlingConfig(handling_type="skip"))

    assert "snapshot_mb" not in stability.step(model, 0.5, torch.optim.SGD(model.parameters()))["debug_info"]


def test_a_parameter_that_only_the_optimizer_holds_goes_back_and_learning_rates_stay():
    model, stranger = nn.Linear(2, 2), nn.Parameter(torch.zeros(2))
    optimizer = torch.optim.SGD([*model.parameters(), stranger], lr=0.5)
    copied = TrainingState()
    copied.take(model, optimizer, None, "host")

    with torch.no_grad():
        stranger.fill_(math.nan)
    optimizer.param_groups[0]["lr"] = 0.25
    copied.put_back(model, optimizer, None)

    assert stranger.tolist() == [0.0, 0.0]
    assert optimizer.param_groups[0]["lr"] == 0.25


def test_the_scale_goes_back():
    model = nn.Linear(2, 2)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    scaler = torch.amp.GradScaler("cpu", init_scale=4.0, growth_interval=1)
    stability = manager(scaler, snapshot_every=100)
    for poisoned in (False, False, False, True):
        optimizer.zero_grad()
        loss = model(torch.ones(1, 2)).mean()
        scaler.scale(loss).backward()
        if poisoned:
            assert scaler.get_scale() == 32.0
        stability.step(model, loss * (math.nan if poisoned else 1.0), optimizer)
        if poisoned:
            assert scaler.get_scale() == 4.0
        scaler.step(optimizer)
        scaler.update()


def test_when_nothing_is_left_an_alert_says_so():
    model = nn.Linear(2, 2)
    optimizer = torch.optim.SGD(model.parameters())
    emitter = MemoryEmitter()
    model(torch.ones(1, 2)).mean().backward()

    manager(emitter=emitter).step(model, math.nan, optimizer)

    alerts = [artifact for artifact in emitter.artifacts if isinstance(artifact, Alert)]
    assert [alert.name for alert in alerts] == ["nan_loss", "nothing_to_restore"]
    assert alerts[0].message == "the loss is nan; the optimizer's step is skipped"


def test_snapshots_keep_no_optimizer_alive():
    model = nn.Linear(2, 2)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    stability = manager()
    model(torch.ones(1, 2)).mean().backward()
    stability.step(model, 0.5, optimizer)
    gone = weakref.ref(optimizer)

    del optimizer
    gc.collect()

    assert gone() is None


def test_offloaded_buffers_are_left_alone_by_snapshots():
    model = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.BatchNorm1d(2))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    state = TrainingState()
    state.take(model, optimizer, None, "device")
    model[1].running_mean.untyped_storage().resize_(0)
    model[1].running_var.fill_(5.0)
    state.put_back(model, optimizer, None)
    state.take(model, optimizer, None, "device")

    assert model[1].running_var.tolist() == [1.0, 1.0]
    assert "1.running_mean" not in state.weights
