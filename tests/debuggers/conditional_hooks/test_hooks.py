"""Hooks on tensors that a loop passes in: triggers, conditions, limits, actions, and what fails."""

import io
import logging
import math
import sys

import numpy as np
import pytest
import torch
from tracker_adapters.artifacts import Alert
from tracker_adapters.errors import ArtifactError
from tracker_adapters.testing import MemoryEmitter

from debuggers import GradientDebugger, HookAction, HookBuilder, HookTrigger, TensorInspector, load_page
from debuggers.conditional_hooks import acting
from debuggers.conditional_hooks.hooks import ConditionalHooks
from debuggers.errors import DebuggerConfigError, UnknownHookError
from debuggers.instrumentation.isolation import Isolation


class Loop:
    """A session's hooks without a model."""

    def __init__(self, emitter=None, **options):
        self.inspector, self.gradients = TensorInspector(), GradientDebugger()
        self.isolation = Isolation("isolate", lambda message: None)
        self.hooks = ConditionalHooks(
            None,
            inspector=self.inspector,
            gradients=self.gradients,
            isolation=self.isolation,
            emitter=emitter,
            **options,
        )

    def register(self, trigger, action=HookAction.ALERT, *, most=None, patterns=(), action_options=None, **options):
        builder = HookBuilder("h").trigger(trigger, **options).action(action, **(action_options or {}))
        if most is not None:
            builder.max_executions(most)
        return self.hooks.register_hook(builder.layer_patterns(patterns).build())

    def steps(self, number, *, layer="fc", is_forward=True):
        """The steps at which hooks acted, of so many."""
        return [
            result.step
            for _ in range(number)
            for result in self.hooks.execute_hooks(layer, [3.0, 4.0], is_forward=is_forward)
        ]


@pytest.fixture
def loop():
    return Loop()


def test_the_example_of_the_document(loop):
    hook = HookBuilder("Layer Monitor").trigger(HookTrigger.EVERY_FORWARD).action(HookAction.INSPECT_TENSOR)
    hook_id = loop.hooks.register_hook(hook.layer_patterns(["attention.*"]).max_executions(100).build())

    (result,) = loop.hooks.execute_hooks("attention_layer_1", [1.0, 2.0, 3.0, 4.0], [2, 2], True, None)

    info = loop.inspector.get_tensor_info(result.value)
    assert (result.hook_id, result.hook, result.error) == (hook_id, "Layer Monitor", "")
    assert (info.name, info.operation, info.shape, info.stats.mean) == ("attention_layer_1", "forward", (2, 2), 2.5)
    assert loop.hooks.execute_hooks("attention_layer_1", [1.0], is_forward=False) == []
    assert loop.hooks.execute_hooks("mlp", [1.0]) == []


def test_when_each_trigger_acts(loop):
    loop.register(HookTrigger.EVERY_N_STEPS, n=3)
    assert loop.steps(7) == [0, 3, 6]
    loop = Loop()
    loop.register(HookTrigger.AT_STEPS, steps=[1, 4])
    assert loop.steps(7) == [1, 4]
    loop = Loop()
    loop.register(HookTrigger.ON_CONDITION, condition="l2_norm > 4.9 and step > 4")
    assert loop.steps(7) == [5, 6]
    loop = Loop()
    loop.register(HookTrigger.ON_CONDITION, condition=lambda summary: summary.mean > 3.6)
    assert loop.steps(7) == []
    loop = Loop()
    loop.register(HookTrigger.EVERY_BACKWARD)
    assert loop.steps(2) == []
    assert loop.steps(2, is_forward=False) == [0, 1]


def test_a_step_that_is_given_counts(loop):
    loop.register(HookTrigger.AT_STEPS, steps=[70])
    assert loop.hooks.execute_hooks("fc", [1.0], step=69) == []
    assert loop.hooks.execute_hooks("fc", [1.0], step=70)[0].step == 70


def test_a_hook_acts_at_most_as_often_as_it_may(loop):
    hook = loop.register(HookTrigger.EVERY_FORWARD, most=3)
    assert loop.steps(5) == [0, 1, 2]
    assert loop.hooks.count(hook) == 3


def test_hooks_are_listed_disabled_enabled_and_removed(loop):
    first = loop.register(HookTrigger.EVERY_FORWARD)
    second = loop.register(HookTrigger.EVERY_FORWARD, patterns=["other"])
    loop.hooks.disable_hook(first)
    assert loop.steps(1) == []
    loop.hooks.enable_hook(first)
    assert loop.steps(1) == [1]
    assert [(one.id, one.name, one.enabled, one.executions) for one in loop.hooks.list_hooks()] == [
        (first, "h", True, 1),
        (second, "h", True, 0),
    ]
    loop.hooks.remove_hook(first)
    assert loop.steps(1) == []
    with pytest.raises(UnknownHookError, match=f"hook id {first} is unknown; registered are: {second}"):
        loop.hooks.count(first)


def test_what_is_no_hook_is_refused(loop):
    with pytest.raises(DebuggerConfigError, match=r"expected what HookBuilder.build returns; call build\(\)"):
        loop.hooks.register_hook(HookBuilder("h"))
    with pytest.raises(DebuggerConfigError, match="SNAPSHOT needs a model"):
        loop.register(HookTrigger.EVERY_FORWARD, HookAction.SNAPSHOT)
    with pytest.raises(DebuggerConfigError, match="SAVE_TENSOR has no place for pages"):
        loop.register(HookTrigger.EVERY_FORWARD, HookAction.SAVE_TENSOR)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("fc", [1.0, 2.0], [3]), r"2 values have the shape \(3,\)"),
        (("fc", [1.0, 2.0], [-1, -2]), r"shape \(-1, -2\)"),
        (("fc", [1.0], "ab"), "shape is 'ab'; expected a sequence of sizes"),
        (("", [1.0]), "has 0 characters"),
        (("fc", "text"), "fc"),
        (("fc", [1.0], None, True, -1), "step is -1"),
    ],
)
def test_wrong_arguments_are_named(loop, arguments, message):
    with pytest.raises(ArtifactError, match=message):
        loop.hooks.execute_hooks(*arguments)


def test_a_gradient_is_recorded_and_inspected(loop):
    loop.register(HookTrigger.EVERY_BACKWARD, HookAction.RECORD_GRADIENT)
    loop.register(HookTrigger.EVERY_BACKWARD, HookAction.INSPECT_TENSOR)
    loop.steps(2, is_forward=False)
    assert list(loop.gradients.history.names) == ["fc"]
    assert [info.name for info in loop.inspector.tensors()] == ["fc/gradient"] * 2


def test_a_tensor_is_saved_as_a_page(loop, tmp_path):
    loop.register(HookTrigger.EVERY_FORWARD, HookAction.SAVE_TENSOR, action_options={"folder": tmp_path / "kept"})
    (first,) = loop.hooks.execute_hooks("fc", np.arange(6.0), [2, 3])
    (second,) = loop.hooks.execute_hooks("fc", [math.nan])
    loop.hooks.close()
    assert (first.value, second.value) == (tmp_path / "kept" / "page_0.pkl", tmp_path / "kept" / "page_1.pkl")
    saved = load_page(first.value)[0]["h"]
    assert (saved["layer"], saved["step"], saved["is_forward"]) == ("fc", 0, True)
    assert saved["values"].tolist() == [[0.0, 1.0, 2.0], [3.0, 4.0, 5.0]]

    again = Loop()
    again.register(HookTrigger.EVERY_FORWARD, HookAction.SAVE_TENSOR, action_options={"folder": tmp_path / "kept"})
    assert again.hooks.execute_hooks("fc", [1.0])[0].value.name == "page_2.pkl"
    again.hooks.close()


def test_an_alert_is_emitted_and_logged_where_there_is_no_run(loop, caplog):
    emitter = MemoryEmitter()
    told = Loop(emitter)
    options = {"message": "look at this", "level": "error"}
    told.register(HookTrigger.EVERY_FORWARD, action_options=options)
    told.steps(1)
    (alert,) = [artifact for artifact in emitter.artifacts if isinstance(artifact, Alert)]
    assert (alert.name, alert.message, alert.level, alert.step) == ("hooks/h", "look at this", "error", 0)

    loop.register(HookTrigger.ON_CONDITION, condition="l2_norm > 1")
    (result,) = loop.hooks.execute_hooks("fc", [3.0, 4.0])
    assert result.value == "output of fc at step 0, where l2_norm > 1"
    assert "hook 'h' at step 0: output of fc at step 0, where l2_norm > 1" in caplog.text


def test_a_callback_gets_the_event_and_its_result_is_returned(loop):
    kept = []

    def callback(event):
        kept.append(event)
        event.tensor.zero_()
        torch.rand(3)
        return (event.hook, event.layer, event.step, event.is_forward, event.executions, event.summary.l2)

    values = torch.tensor([3.0, 4.0])
    state = torch.get_rng_state()
    loop.register(HookTrigger.EVERY_FORWARD, HookAction.CALLBACK, action_options={"callback": callback})
    (result,) = loop.hooks.execute_hooks("fc", values)
    assert result.value == ("h", "fc", 0, True, 0, 5.0)
    assert values.tolist() == [3.0, 4.0]
    assert torch.equal(state, torch.get_rng_state())
    assert kept[0].source is None


def test_a_callback_that_raises_is_counted_and_told_once(loop, caplog):
    def callback(event):
        raise ValueError("no")

    hook = loop.register(HookTrigger.EVERY_FORWARD, HookAction.CALLBACK, action_options={"callback": callback})
    results = [loop.hooks.execute_hooks("fc", [1.0])[0] for _ in range(3)]
    assert [result.error for result in results] == ["ValueError: no"] * 3
    assert loop.isolation.counts == {("hook 'h': callback", "ValueError"): 3}
    assert caplog.text.count("hook 'h': callback failed: ValueError: no") == 1
    assert loop.hooks.list_hooks()[hook - 1].failures == 3


def test_a_condition_that_raises_or_answers_nonsense_is_counted_and_the_hook_does_not_act(loop):
    loop.register(HookTrigger.ON_CONDITION, condition=lambda summary: summary.missing)
    loop.register(HookTrigger.ON_CONDITION, condition=lambda summary: "yes")
    assert loop.steps(2) == []
    kinds = ["AttributeError", "ArgumentTypeError"]
    assert loop.isolation.counts == {("hook 'h': its condition", kind): 2 for kind in kinds}


def test_a_slow_callback_is_told_once(loop, caplog, monkeypatch):
    monkeypatch.setattr(acting, "SLOW_S", -1.0)
    loop.register(HookTrigger.EVERY_FORWARD, HookAction.CALLBACK, action_options={"callback": lambda event: None})
    with caplog.at_level(logging.WARNING):
        loop.steps(3)
    assert caplog.text.count("the callback of hook 'h' blocked the training") == 1


def test_a_pause_goes_on_where_nobody_can_answer(loop, monkeypatch):
    monkeypatch.setattr(sys, "stdin", io.StringIO("c\n"))
    loop.register(HookTrigger.EVERY_FORWARD, HookAction.PAUSE)
    assert loop.hooks.execute_hooks("fc", [1.0])[0].value is False


def test_what_is_disabled_does_nothing():
    loop = Loop(enabled=False)
    loop.register(HookTrigger.EVERY_FORWARD)
    assert loop.steps(2) == []


def test_a_tensor_keeps_its_graph_and_is_never_kept(loop):
    loop.register(HookTrigger.ON_CONDITION, HookAction.INSPECT_TENSOR, condition="l2_norm > 0")
    values = torch.ones(3, requires_grad=True)
    product = values * 2
    loop.hooks.execute_hooks("fc", product)
    product.sum().backward()
    assert values.grad.tolist() == [2.0, 2.0, 2.0]
    assert product.grad_fn is not None
