"""What is learned of a training from outside, and that healthy trainings keep every invariant."""

import copy
import math
import pickle
import threading

import pytest
import torch
from torch import nn
from torch.nn import functional

import stepscope
from debuggers.diagnosis.progress import progress_of
from debuggers.gradients.parameter_watch import ParameterWatch
from debuggers.gradients.parameters import Parameters
from debuggers.instrumentation.isolation import Isolation
from debuggers.instrumentation.stopwatch import Stopwatch
from debuggers.measurement.arrival_queue import ArrivalQueue
from debuggers.observed_training.observer import TrainingObserver
from debuggers.torch_internals.backward_entry import current_entry

STEPS = 12


def network(*, last=None):
    torch.manual_seed(0)
    layers = [nn.Linear(4, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Dropout(0.1), nn.Linear(8, 3)]
    return nn.Sequential(*layers, *([] if last is None else [last]))


def batch(rows=8):
    return torch.randn(rows, 4), torch.randint(3, (rows,))


class Observed:
    """An observer that takes a step whenever the optimizer does."""

    def __init__(self, model, optimizer, scaler=None):
        def fail(message):
            raise AssertionError(message)

        self.losses, self.views = [], []
        self.observer = TrainingObserver(
            model,
            optimizer,
            scaler,
            isolation=Isolation("raise", fail),
            stopwatch=Stopwatch(),
            on_loss=self.views.append,
        )
        self.watch = ParameterWatch(Parameters(model), optimizer, ArrivalQueue(), fail)
        self.parameters, self.number = Parameters(model), 0
        self.observer.start()
        self.hook = optimizer.register_step_pre_hook(self.step)

    def step(self, *_):
        self.losses.append(self.observer.loss())
        self.watch.see(self.number, self.parameters.gradients())
        self.observer.step(self.number)
        self.number += 1

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        self.hook.remove()
        self.observer.close()

    @property
    def facts(self):
        return self.observer.facts(self.watch)

    def broken(self):
        return {one.name: one for one in self.facts.invariants if one.broken}

    def kinds(self):
        return {finding.kind for finding in self.observer.findings()}


def train(model, optimizer, *, steps=STEPS, zero=None, micro_batches=1, told=None):
    for _ in range(steps):
        (zero or optimizer.zero_grad)()
        for _ in range(micro_batches):
            inputs, targets = batch()
            loss = functional.cross_entropy(model(inputs), targets) / micro_batches
            loss.backward()
            if told is not None:
                told.append(float(loss.detach()) * micro_batches)
        optimizer.step()


@pytest.mark.parametrize("micro_batches", [1, 3])
def test_the_loss_of_each_step_is_seen(micro_batches):
    model, told = network(), []
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with Observed(model, optimizer) as observed:
        train(model, optimizer, micro_batches=micro_batches, told=told)
        means = torch.tensor(told).view(-1, micro_batches).mean(1)

        torch.testing.assert_close(torch.tensor(observed.losses), means)
        facts = observed.facts
    assert facts.backward_passes == micro_batches
    assert (facts.loss.kind, facts.loss.reduction) == ("cross_entropy", "mean")
    assert facts.loss.factor == pytest.approx(1 / micro_batches)


def test_the_facts_of_a_training():
    model = network(last=nn.Softmax(1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 5)
    with Observed(model, optimizer) as observed:
        train(model, optimizer)
        scheduler.step()
        facts = observed.facts

    assert (facts.steps, facts.last_step, facts.model, facts.optimizer) == (STEPS, STEPS - 1, "Sequential", "SGD")
    assert facts.scheduler == "StepLR"
    assert facts.groups[0].settings["momentum"] == 0.9
    assert facts.loss.before == "softmax"
    assert [layer.kind for layer in facts.layers][-1] == "Softmax"
    assert {layer.kind: layer.value for layer in facts.layers}["Dropout"] == 0.1
    assert (facts.inputs.shape, facts.outputs.shape, facts.targets.shape) == ((8, 4), (8, 3), (8,))
    assert facts.targets.integer
    first = facts.parameters[0]
    expected = network()[0].weight
    assert (first.name, first.shape, first.dtype) == ("0.weight", (8, 4), "float32")
    assert first.std == pytest.approx(float(expected.detach().std(correction=0)), rel=1e-5)
    assert not facts.not_told
    assert not facts.clips


def scaled(model, optimizer, observed_scaler):
    for _ in range(STEPS):
        optimizer.zero_grad()
        inputs, targets = batch()
        observed_scaler.scale(functional.cross_entropy(model(inputs), targets)).backward()
        observed_scaler.step(optimizer)
        observed_scaler.update()


@pytest.mark.parametrize("told", [True, False])
def test_a_loss_scale_is_taken_out(told):
    model = network()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    scaler = torch.amp.GradScaler("cpu", init_scale=1024.0)
    with Observed(model, optimizer, scaler if told else None) as observed:
        scaled(model, optimizer, scaler)

        assert all(0.3 < loss < 3 for loss in observed.losses)
        assert observed.facts.loss.factor == 1.0
        assert not observed.broken()
        assert not observed.facts.clips


@pytest.mark.parametrize("clip", [nn.utils.clip_grad_norm_, nn.utils.clip_grad_value_])
def test_clipping_is_noticed(clip):
    model = network()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    with Observed(model, optimizer) as observed:
        for _ in range(STEPS):
            optimizer.zero_grad()
            inputs, targets = batch()
            functional.cross_entropy(model(inputs), targets).backward()
            clip(model.parameters(), 0.1)
            optimizer.step()

        assert observed.facts.clips


@pytest.mark.parametrize("is_enabled", [True, False])
def test_clipping_is_noticed_beside_a_scaler(is_enabled):
    model = network()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    scaler = torch.amp.GradScaler("cpu", init_scale=64.0, enabled=is_enabled)
    with Observed(model, optimizer, scaler) as observed:
        for _ in range(STEPS):
            optimizer.zero_grad()
            inputs, targets = batch()
            scaler.scale(functional.cross_entropy(model(inputs), targets)).backward()
            scaler.unscale_(optimizer)
            nn.utils.clip_grad_norm_(model.parameters(), 0.1)
            scaler.step(optimizer)
            scaler.update()

        assert observed.facts.clips


@pytest.mark.parametrize(("calls", "passes", "joins"), [(3, 1, True), (2, 1, False), (3, 3, False)])
def test_a_pass_that_joins_the_models_calls_is_known(calls, passes, joins):
    """As of a policy's episode, or a sequence that a loop goes through; two calls may be two views of a batch."""
    model = network()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    with Observed(model, optimizer) as observed:
        for _ in range(STEPS):
            optimizer.zero_grad()
            losses = [model(batch()[0]).square().mean() for _ in range(calls)]
            for loss in losses if passes > 1 else [sum(losses)]:
                loss.backward()
            optimizer.step()
        assert observed.facts.joins_calls == joins


@pytest.mark.parametrize("is_asked", [False, True])
def test_whether_the_gradient_of_inputs_is_asked_for_is_known(is_asked):
    model = network()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    with Observed(model, optimizer) as observed:
        model(batch()[0].requires_grad_(is_asked)).mean().backward()
        optimizer.step()
        assert observed.facts.inputs.requires_grad == is_asked


def test_gradients_that_are_never_zeroed_are_found():
    model = network()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    with Observed(model, optimizer) as observed:
        train(model, optimizer, zero=lambda: None)

        assert observed.broken()["gradients_zeroed"].broken == STEPS - 1
        assert "gradients_zeroed" in observed.kinds()


@pytest.mark.parametrize("keeps", ["a sum of losses", "the outputs", "scaled losses", "features", "only the last loss"])
def test_graphs_that_a_loop_keeps_are_found(keeps):
    model = network()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    with Observed(model, optimizer) as observed:
        total, kept = torch.zeros(()), []
        for _ in range(45):
            inputs, targets = batch()
            optimizer.zero_grad()
            features = model[:-1](inputs)
            outputs = model[-1](features)
            loss = functional.cross_entropy(outputs, targets)
            (loss / 2 if keeps == "scaled losses" else loss).backward()
            optimizer.step()
            if keeps == "a sum of losses":
                total = total + loss
            elif keeps != "only the last loss":
                kept.append({"the outputs": outputs, "features": features}.get(keeps, loss))

        assert ("graphs_freed" in observed.kinds()) == (keeps != "only the last loss")


def test_a_model_that_is_trained_against_another_is_known():
    generator, critic = nn.Linear(2, 3), nn.Linear(3, 1)
    of_generator, of_critic = (torch.optim.SGD(one.parameters(), lr=0.01) for one in (generator, critic))
    with Observed(generator, of_generator) as generating, Observed(critic, of_critic) as judging:
        for _ in range(STEPS):
            made = generator(torch.randn(8, 2))
            of_critic.zero_grad()
            (critic(made.detach()).mean() - critic(torch.randn(8, 3)).mean()).backward()
            of_critic.step()
            of_generator.zero_grad()
            (-critic(made).mean()).backward()
            of_generator.step()

        assert generating.facts.trained_with_others
        assert judging.facts.trained_with_others
    model = network()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    with Observed(model, optimizer) as observed:
        train(model, optimizer)

        assert not observed.facts.trained_with_others


def test_steps_that_change_nothing_are_found():
    class Idle(torch.optim.SGD):
        def step(self, closure=None):
            pass

    model = network()
    optimizer = Idle(model.parameters(), lr=0.1)
    with Observed(model, optimizer) as observed:
        train(model, optimizer)

        assert "step_changes_weights" in observed.kinds()


def test_a_group_at_rate_zero_is_frozen_and_its_weights_need_not_change():
    model = network()
    optimizer = torch.optim.SGD([{"params": list(model.parameters())[:-2], "lr": 0.0},
                                 {"params": list(model.parameters())[-2:]}], lr=0.1)  # fmt: skip
    with Observed(model, optimizer) as observed:
        train(model, optimizer, steps=30)

        roles = [one.role for one in observed.facts.parameters]
        assert roles == ["frozen"] * (len(roles) - 2) + ["trained"] * 2
        assert "step_changes_weights" not in observed.kinds()


def test_steps_of_lbfgs_that_has_converged_may_change_nothing():
    layer, rows = nn.Linear(3, 1), torch.randn(16, 3)
    optimizer = torch.optim.LBFGS(layer.parameters(), line_search_fn="strong_wolfe", max_iter=100)

    def closure():
        optimizer.zero_grad()
        loss = nn.functional.mse_loss(layer(rows), rows[:, :1])
        loss.backward()
        return loss

    with stepscope.watch(layer, optimizer) as session:
        for _ in range(12):
            before = layer.weight.detach().clone()
            optimizer.step(closure)

    assert torch.equal(layer.weight, before)
    assert "step_changes_weights" not in {one.kind for one in session.report().findings}


def test_wrong_modes_are_found():
    model = network()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    with Observed(model, optimizer) as observed:
        for _ in range(4):
            train(model, optimizer, steps=4)
            with torch.no_grad():
                for _ in range(3):
                    model(batch()[0])
        model.eval()
        train(model, optimizer, steps=30)

        assert {"no_training_mode_in_validation", "eval_mode_in_training"} <= observed.kinds()
        assert (observed.facts.validations, observed.facts.train_validations) == (4, 4)


def plainly(model, optimizer):
    train(model, optimizer)


def zeroing_in_place(model, optimizer):
    train(model, optimizer, zero=lambda: optimizer.zero_grad(set_to_none=False))


def zeroing_after_the_step(model, optimizer):
    for _ in range(STEPS):
        inputs, targets = batch()
        functional.cross_entropy(model(inputs), targets).backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=False)


def zeroing_after_the_forward(model, optimizer):
    for _ in range(STEPS):
        inputs, targets = batch()
        loss = functional.cross_entropy(model(inputs), targets)
        model.zero_grad()
        loss.backward()
        optimizer.step()


def accumulating(model, optimizer):
    train(model, optimizer, micro_batches=4)


def validating(model, optimizer):
    for _ in range(3):
        train(model, optimizer, steps=4)
        model.eval()
        with torch.no_grad():
            for _ in range(3):
                model(batch(5)[0])
        model.train()


def pseudo_labels(model, optimizer):
    for _ in range(STEPS):
        inputs, _ = batch()
        with torch.no_grad():
            targets = model(inputs).argmax(1)
        optimizer.zero_grad()
        functional.cross_entropy(model(inputs), targets).backward()
        optimizer.step()


def several_losses(model, optimizer):
    for _ in range(STEPS):
        optimizer.zero_grad()
        inputs, targets = batch()
        outputs = model(inputs)
        functional.cross_entropy(outputs, targets).backward(retain_graph=True)
        outputs.square().mean().backward()
        optimizer.step()


def averaging_weights(model, optimizer):
    average = torch.optim.swa_utils.AveragedModel(model)
    for _ in range(STEPS):
        train(model, optimizer, steps=1)
        average.update_parameters(model)


def updating_on_one_batch(model, optimizer):
    for _ in range(4):
        inputs, targets = batch()
        with torch.no_grad():
            model(inputs)
        for _ in range(3):
            optimizer.zero_grad()
            functional.cross_entropy(model(inputs), targets).backward()
            optimizer.step()


def freezing(model, optimizer):
    model[0].requires_grad_(False)
    train(model, optimizer)


@pytest.mark.parametrize(
    "loop",
    [
        plainly,
        pytest.param(zeroing_in_place, marks=pytest.mark.slow),
        pytest.param(zeroing_after_the_step, marks=pytest.mark.slow),
        zeroing_after_the_forward,
        accumulating,
        pytest.param(validating, marks=pytest.mark.slow),
        pseudo_labels,
        pytest.param(several_losses, marks=pytest.mark.slow),
        averaging_weights,
        pytest.param(updating_on_one_batch, marks=pytest.mark.slow),
        freezing,
    ],
)
def test_healthy_trainings_keep_every_invariant(loop):
    model = network()
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
    with Observed(model, optimizer) as observed:
        loop(model, optimizer)

        assert not observed.broken()
        assert not observed.kinds()


def test_a_closure_is_healthy():
    model = network()
    optimizer = torch.optim.LBFGS(model.parameters(), lr=0.1, max_iter=4)
    with Observed(model, optimizer) as observed:
        observed.hook.remove()
        for _ in range(STEPS):
            inputs, targets = batch()
            first = []

            def closure(inputs=inputs, targets=targets, first=first):
                optimizer.zero_grad()
                loss = functional.cross_entropy(model(inputs), targets)
                loss.backward()
                if not first:
                    first.append(1)
                    observed.step()
                return loss

            optimizer.step(closure)

        assert not observed.broken()


def test_two_models_that_train_against_each_other_are_healthy_and_have_their_own_losses():
    torch.manual_seed(0)
    maker = nn.Sequential(nn.Linear(2, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 4))
    judge = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 1))
    makes, judges = (torch.optim.Adam(one.parameters(), lr=0.01) for one in (maker, judge))
    ones, zeros = torch.ones(8, 1), torch.zeros(8, 1)
    of_maker, of_judge = [], []
    score = functional.binary_cross_entropy_with_logits
    with Observed(maker, makes) as mine, Observed(judge, judges) as other:
        for number in range(STEPS):
            judges.zero_grad()
            if number % 2:
                with torch.no_grad():
                    made = maker(torch.randn(8, 2))
            else:
                made = maker(torch.randn(8, 2)).detach()
            real, fake = score(judge(torch.randn(8, 4)), ones), score(judge(made), zeros)
            real.backward()
            fake.backward()
            judges.step()
            of_judge.append(float((real + fake).detach()) / 2)
            makes.zero_grad()
            loss = score(judge(maker(torch.randn(8, 2))), ones)
            loss.backward()
            makes.step()
            of_maker.append(float(loss.detach()))

        assert mine.losses == pytest.approx(of_maker)
        assert other.losses == pytest.approx(of_judge)
        assert not mine.broken()
        assert not other.broken()
        assert (mine.facts.backward_passes, other.facts.backward_passes) == (1, 2)
        assert mine.facts.validations == 0
        assert mine.facts.loss is None
        assert other.facts.loss.kind == "bce_with_logits"


def test_training_is_bit_identical_and_nothing_stays():
    before, plain, model = current_entry(), network(), network()
    train(plain, torch.optim.Adam(plain.parameters()), steps=0)
    optimizers = [torch.optim.Adam(one.parameters()) for one in (plain, model)]
    torch.manual_seed(1)
    train(plain, optimizers[0])
    torch.manual_seed(1)
    with Observed(model, optimizers[1]) as observed:
        train(model, optimizers[1])
        copy.deepcopy(model)
        pickle.dumps(model)
        assert observed.views

    assert all(torch.equal(a, b) for a, b in zip(plain.state_dict().values(), model.state_dict().values(), strict=True))
    assert current_entry() is before
    assert not optimizers[1]._optimizer_step_post_hooks
    assert model.__dict__.get("_compiled_call_impl") is None


class Halved(nn.Linear):
    """A layer that multiplies in another dtype than it is given, and gives back float32."""

    cast = torch.float16

    def forward(self, rows):
        """Casts rows, weight and bias."""
        return functional.linear(rows.to(self.cast), self.weight.to(self.cast), self.bias.to(self.cast)).float()


@pytest.mark.parametrize(("cast", "known"), [(torch.float16, "float16"), (torch.float32, "")])
def test_the_dtype_that_a_model_multiplies_in_is_known_without_autocast(cast, known):
    model = Halved(4, 3)
    model.cast = cast
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    with Observed(model, optimizer) as observed:
        for _ in range(3):
            optimizer.zero_grad()
            inputs, targets = batch()
            functional.cross_entropy(model(inputs), targets).backward()
            optimizer.step()
        assert observed.facts.mixed_precision == known


def test_the_dtype_of_autocast_is_known():
    model = nn.Sequential(nn.Linear(4, 8), nn.Linear(8, 3))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    with Observed(model, optimizer) as observed:
        for _ in range(3):
            optimizer.zero_grad()
            inputs, targets = batch()
            with torch.autocast("cpu", torch.bfloat16):
                loss = functional.cross_entropy(model(inputs), targets)
            loss.backward()
            optimizer.step()

        assert observed.facts.mixed_precision == "bfloat16"
        assert not observed.broken()
        assert observed.facts.loss.kind == "cross_entropy"


def test_targets_of_a_loss_that_the_loop_writes_out_follow_from_its_outputs():
    model, targets = nn.Sequential(nn.Linear(4, 1), nn.Sigmoid()), []
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    with Observed(model, optimizer) as observed:
        for _ in range(3):
            optimizer.zero_grad()
            inputs = torch.randn(8, 4)
            targets.append(inputs.sum(1))
            (model(inputs).squeeze(1) - targets[-1]).square().mean().backward()
            (targets[-1] - model(inputs).squeeze(1)).pow(2).mean().backward()
            (model(inputs).squeeze(1).tanh() - targets[-1]).square().mean().backward()
            optimizer.step()

        seen = [view.targets for view in observed.views]
    for number, one in enumerate(seen):
        if number % 3 == 2:
            assert one is None
        else:
            torch.testing.assert_close(one, targets[number // 3])


@pytest.mark.parametrize(
    ("outputs", "follow"), [(1.0, True), (1e3, True), (1e9, False), (1e30, False), (math.nan, False)]
)
def test_targets_do_not_follow_from_outputs_that_are_too_large(outputs, follow):
    """A difference of 1e9 and 3 in float32 is rounded to 64: all targets would look like zero."""
    model = nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.0)
    with Observed(model, optimizer) as observed:
        with torch.no_grad():
            model.bias.fill_(outputs)
        inputs = torch.randn(8, 4)
        (model(inputs).squeeze(1) - inputs.sum(1)).square().mean().backward()
        optimizer.step()

        (view,) = observed.views
    assert (view.targets is not None) == follow
    if follow:
        torch.testing.assert_close(view.targets, inputs.sum(1), rtol=0, atol=1e-3)


def test_what_is_left_out_below_a_head_is_frozen():
    """A backbone under no_grad, of which no parameter was told that it requires no gradient."""
    model = nn.Sequential(nn.Linear(4, 400), nn.ReLU(), nn.Linear(400, 1))
    optimizer = torch.optim.SGD(model[2].parameters(), lr=0.01)
    with Observed(model, optimizer) as observed:
        for _ in range(STEPS):
            inputs = torch.randn(8, 4)
            optimizer.zero_grad()
            with torch.no_grad():
                features = model[1](model[0](inputs))
            (model[2](features) - 1).square().mean().backward()
            optimizer.step()

        roles = {one.name: one.role for one in observed.facts.parameters}
    assert roles == {"0.weight": "frozen", "0.bias": "frozen", "2.weight": "trained", "2.bias": "trained"}


def test_steps_inside_the_backward_pass_remove_the_gradients_they_have_used():
    model = nn.Linear(4, 1, bias=False)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)

    def step(parameter):
        optimizer.step()
        optimizer.zero_grad()

    model.weight.register_post_accumulate_grad_hook(step)
    with Observed(model, optimizer) as observed:
        for _ in range(STEPS):
            inputs = torch.randn(8, 4)
            (model(inputs) - inputs.sum(1, keepdim=True)).square().mean().backward()

        assert not observed.broken()


@pytest.mark.parametrize("layers", [[0], [0, 4]])
def test_the_last_gradients_of_replaced_layers_are_nothing_that_was_not_zeroed(layers):
    model = network()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    with Observed(model, optimizer) as observed:
        train(model, optimizer)
        for place in layers:
            model[place] = nn.Linear(model[place].in_features, model[place].out_features)
        optimizer.param_groups.clear()
        optimizer.add_param_group({"params": list(model.parameters()), "lr": 0.01})
        train(model, optimizer)

        assert "gradients_zeroed" not in observed.broken()


@pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors")
@pytest.mark.parametrize("layout", [torch.strided, torch.jagged])
def test_nested_tensors_are_left_out(layout):
    model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    with Observed(model, optimizer) as observed:
        for _ in range(4):
            optimizer.zero_grad()
            rows = torch.nested.nested_tensor([torch.randn(3, 4), torch.randn(5, 4)], layout=layout)
            torch.cat(model(rows).unbind()).square().mean().backward()
            optimizer.step()

        assert observed.facts.inputs is None
        assert not observed.broken()


def test_complex_weights_cannot_be_told_to_stand_still():
    model = nn.Linear(4, 2, dtype=torch.complex64)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    with Observed(model, optimizer) as observed:
        for _ in range(4):
            optimizer.zero_grad()
            model(torch.randn(8, 4, dtype=torch.complex64)).abs().square().mean().backward()
            optimizer.step()

        assert "step_changes_weights" not in {one.name for one in observed.facts.invariants}


def test_a_pass_in_another_thread_is_not_looked_at():
    """There torch may fill or free the gradients while they are read, which would end the process."""
    one, other = (nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 3)) for _ in range(2))
    optimizers = [torch.optim.SGD(model.parameters(), lr=0.01) for model in (one, other)]
    with Observed(one, optimizers[0]) as mine:
        looks = []
        marks = mine.observer.passes._marks
        marks.note = lambda note=marks.note: looks.append(threading.get_ident()) or note()
        worker = threading.Thread(target=train, args=(other, optimizers[1]))
        worker.start()
        worker.join()
        assert looks == []

        worker = threading.Thread(target=train, args=(one, optimizers[0]))
        worker.start()
        worker.join()
        assert mine.facts.backward_passes == 1
        assert len(mine.losses) == STEPS
        assert None not in mine.losses
        assert mine.facts.loss.kind == "cross_entropy"


@pytest.mark.parametrize("keeps", [0, 64])
def test_a_cross_entropy_over_a_queue_that_fills_has_ever_more_classes(keeps):
    """Its loss rises with them, which says nothing of the training."""
    model = nn.Linear(4, 8)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    keys, queue = nn.Linear(4, 8).requires_grad_(False), torch.zeros(0, 8)
    with stepscope.watch(model, optimizer) as session:
        for _ in range(12):
            rows = torch.randn(16, 4)
            answers = keys(rows)
            optimizer.zero_grad()
            functional.cross_entropy(model(rows) @ torch.cat([answers, queue]).T, torch.arange(16)).backward()
            optimizer.step()
            queue = torch.cat([queue, answers])[-keeps:] if keeps else queue
        evidence = session.evidence()

    assert evidence.facts.loss.classes_grow is (keeps > 0)
    assert (progress_of(evidence) is None) is (keeps > 0)


def test_heads_that_take_turns_have_no_growing_classes():
    model = nn.ModuleList([nn.Linear(4, 3), nn.Linear(4, 9)])
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    with stepscope.watch(model, optimizer) as session:
        for step in range(9):
            optimizer.zero_grad()
            functional.cross_entropy(model[step % 2](torch.randn(16, 4)), torch.arange(16) % 3).backward()
            optimizer.step()
        assert not session.evidence().facts.loss.classes_grow
