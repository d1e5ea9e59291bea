"""A builder makes hooks, and names what is wrong with one."""

import pytest

from debuggers import HookAction, HookBuilder, HookTrigger
from debuggers.errors import DebuggerConfigError


def complete():
    return HookBuilder("h").trigger(HookTrigger.EVERY_FORWARD).action(HookAction.INSPECT_TENSOR)


def test_the_hook_of_the_document():
    hook = (
        HookBuilder("Layer Monitor")
        .trigger(HookTrigger.EVERY_FORWARD)
        .action(HookAction.INSPECT_TENSOR)
        .layer_patterns(["attention.*"])
        .max_executions(100)
        .build()
    )
    assert (hook.name, hook.trigger, hook.max_executions) == ("Layer Monitor", HookTrigger.EVERY_FORWARD, 100)
    assert [action.kind for action in hook.actions] == [HookAction.INSPECT_TENSOR]
    assert hook.patterns("attention_layer_1")
    assert not hook.patterns("my_attention_layer")


@pytest.mark.parametrize(
    ("pattern", "name"),
    [("attention.*", "attention.0"), ("*.linear1", "blocks.0.linear1"), ("fc[12]", "fc2"), ("fc", "fc"), ("*", "x")],
)
def test_a_pattern_is_read_as_a_regular_expression_and_as_of_fnmatch(pattern, name):
    patterns = complete().layer_patterns([pattern]).build().patterns
    assert patterns(name)
    assert pattern == "*" or not patterns("another")


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: HookBuilder(3), "the name is int 3; expected a str"),
        (lambda: HookBuilder(""), "has 0 characters"),
        (lambda: HookBuilder("h").build(), "hook 'h': it has no trigger"),
        (lambda: HookBuilder("h").trigger(HookTrigger.EVERY_FORWARD).build(), "hook 'h': it has no action"),
        (
            lambda: HookBuilder("h").trigger("sometimes"),
            "HookTrigger is 'sometimes'; expected one of",
        ),
        (lambda: HookBuilder("h").action("inspect"), "HookAction is 'inspect'; expected one of"),
        (lambda: HookBuilder("h").trigger(HookTrigger.EVERY_N_STEPS), "n is None; expected an integer of at least 1"),
        (lambda: HookBuilder("h").trigger(HookTrigger.EVERY_N_STEPS, n=0), "n is 0; expected an integer of at least 1"),
        (lambda: HookBuilder("h").trigger(HookTrigger.EVERY_FORWARD, n=3), "only EVERY_N_STEPS takes it"),
        (lambda: HookBuilder("h").trigger(HookTrigger.AT_STEPS), "AT_STEPS has no steps"),
        (lambda: HookBuilder("h").trigger(HookTrigger.AT_STEPS, steps=[1, -1]), "steps: -1"),
        (lambda: HookBuilder("h").trigger(HookTrigger.ON_FINDING, kinds=[]), "expected kinds of findings"),
        (
            lambda: HookBuilder("h").trigger(HookTrigger.ON_CONDITION).action(HookAction.ALERT).build(),
            "ON_CONDITION has no condition",
        ),
        (lambda: complete().condition("l2norm > 1"), "hook 'h': condition, column 1: unknown name 'l2norm'"),
        (lambda: complete().condition(3), "condition is 3; expected an expression or a function"),
        (lambda: complete().action(HookAction.CALLBACK), "callback is None; expected a function"),
        (lambda: complete().action(HookAction.ALERT, callback=print), "only CALLBACK takes it"),
        (lambda: complete().action(HookAction.ALERT, level="loud"), "level is 'loud'; expected 'info' or"),
        (lambda: complete().action(HookAction.SAVE_TENSOR, folder=3), "folder is 3; expected a path"),
        (lambda: complete().action(HookAction.RECORD_GRADIENT).build(), "outputs are no gradients"),
        (lambda: complete().layer_patterns("attention.*"), r"expected a list, such as \['attention"),
        (lambda: complete().layer_patterns([3]), "layer pattern 3: expected a text"),
        (lambda: complete().max_executions(0), "max_executions is 0; expected an integer of at least 1"),
        (
            lambda: (
                HookBuilder("h").trigger(HookTrigger.ON_FINDING, condition="mean > 1").action(HookAction.ALERT).build()
            ),
            "ON_FINDING concerns a step, and the condition a tensor",
        ),
    ],
)
def test_what_is_wrong_is_named(build, message):
    with pytest.raises(DebuggerConfigError, match=message):
        build()
