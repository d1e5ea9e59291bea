"""Conditional hooks of a session: on the layers of its model, at its steps, and without a trace."""

import pytest
import torch
from torch import nn
from torch.utils.checkpoint import checkpoint
from tracker_adapters.artifacts import Alert, Page, Table
from tracker_adapters.testing import MemoryEmitter

import stepscope
from debuggers import HookAction, HookBuilder, HookTrigger
from debuggers.errors import LayerNotFoundError

QUIET = {"enable_visualization": False}


class Block(nn.Module):
    """Two layers, of which the second is used twice, and repeated in the backward pass if it is checkpointed."""

    def __init__(self, *, checkpointed=False):
        super().__init__()
        self.attention = nn.Linear(4, 4)
        self.mlp = nn.Sequential(nn.Linear(4, 4), nn.Dropout(0.5))
        self.checkpointed = checkpointed

    def forward(self, x):
        x = self.attention(x)
        return checkpoint(self.mlp, x, use_reentrant=False) if self.checkpointed else self.mlp(x)


def train(register=None, *, steps=5, model=None, spikes=(), emitter=None, **options):
    """Trains a model; returns the session, and the final parameters."""
    torch.manual_seed(0)
    model = Block() if model is None else model()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    session = stepscope.DebugSession(model, optimizer, run=emitter, config=stepscope.DebugConfig(**QUIET), **options)
    with session:
        if register is not None:
            register(session.hooks)
        for step in range(steps):
            optimizer.zero_grad()
            loss = model(torch.randn(6, 4)).square().mean() * (100 if step in spikes else 1)
            loss.backward()
            session.step(loss)
            optimizer.step()
    return session, [parameter.detach().clone() for parameter in model.parameters()]


def collecting(trigger, layers, events, **options):
    """Registers a hook whose events are appended to a list."""
    builder = HookBuilder("h").trigger(trigger, **options).layer_patterns(layers)
    hook = builder.action(HookAction.CALLBACK, callback=lambda event: events.append((event.layer, event.step))).build()
    return lambda hooks: hooks.register_hook(hook)


def test_layers_are_looked_at_in_the_forward_pass():
    events = []
    train(collecting(HookTrigger.EVERY_FORWARD, ["attention", r"mlp\..*"], events), steps=2)
    assert events == [(layer, step) for step in range(2) for layer in ("attention", "mlp.0", "mlp.1")]


def test_layers_are_looked_at_in_the_backward_pass():
    events = []
    train(collecting(HookTrigger.EVERY_BACKWARD, ["attention", "mlp.0"], events), steps=2)
    assert events == [(layer, step) for step in range(2) for layer in ("mlp.0", "attention")]


@pytest.mark.parametrize(
    ("options", "steps"),
    [
        ({"trigger": HookTrigger.EVERY_N_STEPS, "n": 2}, [0, 2, 4]),
        ({"trigger": HookTrigger.AT_STEPS, "steps": [1, 3]}, [1, 3]),
        ({"trigger": HookTrigger.ON_CONDITION, "condition": "step > 2 and isfinite(l2_norm)"}, [3, 4]),
        ({"trigger": HookTrigger.EVERY_FORWARD, "condition": "executions < 2"}, [0, 1]),
    ],
)
def test_a_hook_acts_at_its_steps(options, steps):
    events = []
    train(collecting(layers=["attention"], events=events, **options))
    assert events == [("attention", step) for step in steps]


def test_what_checkpointing_repeats_is_no_further_call():
    events = []
    train(collecting(HookTrigger.EVERY_FORWARD, ["mlp.0"], events), steps=2, model=lambda: Block(checkpointed=True))
    assert events == [("mlp.0", 0), ("mlp.0", 1)]


def test_a_hook_that_runs_the_model_does_not_call_itself():
    events = []

    def register(hooks):
        def callback(event):
            events.append(event.layer)
            hooks._model(torch.ones(1, 4))

        hook = HookBuilder("h").trigger(HookTrigger.EVERY_FORWARD).action(HookAction.CALLBACK, callback=callback)
        hooks.register_hook(hook.layer_patterns(["attention"]).build())

    train(register, steps=2)
    assert events == ["attention"] * 2


def test_a_pattern_that_matches_nothing_names_the_nearest_layers():
    events = []
    with pytest.raises(LayerNotFoundError, match=r"Block has no layer that matches 'atention.\*'; nearest .*attention"):
        train(collecting(HookTrigger.EVERY_FORWARD, ["mlp.*", "atention.*"], events))


def test_a_layer_that_is_exchanged_is_followed():
    torch.manual_seed(0)
    model = Block()
    events = []
    with stepscope.DebugSession(model) as session:
        collecting(HookTrigger.EVERY_FORWARD, ["attention"], events)(session.hooks)
        for _ in range(2):
            model(torch.randn(6, 4)).sum().backward()
            model.attention = nn.Sequential(nn.Linear(4, 4))
            session.step()
        assert session.hooks.list_hooks()[0].layers == ("attention",)
    assert events == [("attention", 0), ("attention", 1)]


def test_findings_and_spikes_of_the_loss_let_hooks_act():
    findings, spikes = [], []

    def register(hooks):
        collecting(HookTrigger.ON_FINDING, [], findings, kinds=["exploding_gradient"])(hooks)
        collecting(HookTrigger.ON_LOSS_SPIKE, [], spikes)(hooks)

    train(register, steps=90, spikes=[80])
    assert {step for _, step in findings} == {80}
    assert spikes == [("loss", 80)]


def test_all_actions_in_a_run():
    emitter = MemoryEmitter()

    def register(hooks):
        actions = [HookAction.INSPECT_TENSOR, HookAction.RECORD_GRADIENT, HookAction.SAVE_TENSOR, HookAction.SNAPSHOT]
        builder = HookBuilder("all of it").trigger(HookTrigger.AT_STEPS, steps=[1]).layer_patterns(["mlp.0"])
        for action in [*actions, HookAction.ALERT, HookAction.PAUSE]:
            builder.action(action)
        hooks.register_hook(builder.build())

    session, _ = train(register, steps=2, emitter=emitter)

    assert session.report().failures == {}
    assert [info.name for info in session.tensor_inspector.tensors()] == ["mlp.0/gradient"]
    assert "mlp.0" in session.gradient_debugger.history.names
    found = {artifact.name: artifact for artifact in emitter.artifacts if isinstance(artifact, (Page, Table, Alert))}
    assert found["hooks/all of it/page_0"].step == 1
    assert found["hooks/all of it"].message == "gradient of mlp.0 at step 1"
    table = found["hooks/all of it/snapshot"]
    assert [row[0] for row in table.rows] == ["attention.weight", "attention.bias", "mlp.0.weight", "mlp.0.bias"]


def test_training_is_bit_for_bit_the_same():
    def register(hooks):
        for trigger in (HookTrigger.EVERY_FORWARD, HookTrigger.EVERY_BACKWARD):
            builder = HookBuilder("h").trigger(trigger, condition="l2_norm > 0").action(HookAction.INSPECT_TENSOR)
            builder.action(HookAction.CALLBACK, callback=lambda event: event.tensor.add_(torch.rand(())))
            hooks.register_hook(builder.action(HookAction.SNAPSHOT).build())

    _, without = train()
    session, with_hooks = train(register)
    assert session.report().failures == {}
    assert all(map(torch.equal, without, with_hooks))


def test_nothing_is_left_and_a_pause_shows_no_hook():
    model = Block()
    before = {name: set(module.__dict__) for name, module in model.named_modules()}
    events = []
    with stepscope.DebugSession(model) as session:
        collecting(HookTrigger.EVERY_FORWARD, ["attention"], events)(session.hooks)
        with session.paused():
            model(torch.randn(6, 4))
        output = model(torch.randn(6, 4))
    output.sum().backward()
    model(torch.randn(6, 4))
    assert events == [("attention", 0)]
    assert before == {name: set(module.__dict__) for name, module in model.named_modules()}


def test_failures_are_in_the_report():
    def register(hooks):
        hook = HookBuilder("h").trigger(HookTrigger.EVERY_FORWARD, condition=lambda summary: 1 / 0)
        hooks.register_hook(hook.action(HookAction.ALERT).layer_patterns(["attention"]).build())

    session, _ = train(register, steps=3)
    report = session.report()
    assert report.failures == {"hook 'h': its condition: ZeroDivisionError": 3}
    assert "hook 'h' failed 3 times" in report.coverage.gaps
    assert "internal error" not in report.summary()


def test_a_kind_of_finding_that_does_not_exist_is_told(caplog):
    def register(hooks):
        for kind in ("non_finite_los", "non_finite_loss"):
            hook = HookBuilder("typo").trigger(HookTrigger.ON_FINDING, kinds=[kind])
            hooks.register_hook(hook.action(HookAction.STOP).build())

    train(register, steps=2)
    assert [line for line in caplog.messages if "no rule of this session finds" in line] == [
        "hook 'typo': no rule of this session finds 'non_finite_los', so that nothing is done; expected the kind of "
        "one of its findings, such as 'non_finite_loss', or a level: info, warning, error"
    ]


def test_a_disabled_session_has_hooks_that_do_nothing(monkeypatch):
    monkeypatch.setenv("STEPSCOPE_DISABLED", "1")
    events = []
    session, _ = train(collecting(HookTrigger.EVERY_FORWARD, ["attention"], events))
    assert events == []
    assert session.hooks.execute_hooks("attention", [1.0]) == []


def test_an_unchanged_loop_has_hooks_and_gradients_come_without_the_loss_scale():
    torch.manual_seed(0)
    model = Block()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    scaler = torch.amp.GradScaler("cpu", init_scale=1024.0)
    norms = []
    with stepscope.watch(model, optimizer, scaler=scaler) as session:
        session.hooks.register_hook(
            HookBuilder("h")
            .trigger(HookTrigger.EVERY_BACKWARD)
            .layer_patterns(["mlp.1"])
            .action(HookAction.CALLBACK, callback=lambda event: norms.append(event.summary.max))
            .build()
        )
        for _ in range(2):
            loss = model(torch.ones(6, 4)).sum()
            scaler.scale(loss).backward()
            scaler.step(optimizer)
            scaler.update()
            optimizer.zero_grad()
    assert norms == [1.0, 1.0]


def test_the_first_layer_of_a_report_is_the_one_that_is_called_first():
    """A head may be made before the body that it stands behind."""

    class HeadFirst(nn.Module):
        def __init__(self):
            super().__init__()
            self.head, self.body = nn.Linear(4, 4), nn.Linear(4, 4)

        def forward(self, x):
            return self.head(self.body(x).tanh())

    session, _ = train(model=HeadFirst)
    assert "Gradient norm of the first layer, body: " in session.report().summary()
