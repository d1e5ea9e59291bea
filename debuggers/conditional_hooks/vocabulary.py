"""When a hook acts, and what it does then."""

from enum import StrEnum


class HookTrigger(StrEnum):
    """When a hook acts.

    The first five look at tensors of layers: outputs in the forward pass, or gradients with respect to them in the
    backward pass. Where a trigger leaves the pass open, it is the backward pass if ``RECORD_GRADIENT`` is among the
    actions, else the forward pass. The last two look at steps, when ``session.step`` is called.
    """

    EVERY_FORWARD = "every_forward"
    """At every forward call of a matching layer, also without gradients; not at those that checkpointing repeats."""
    EVERY_BACKWARD = "every_backward"
    """Whenever the gradient with respect to an output of a matching layer is complete."""
    EVERY_N_STEPS = "every_n_steps"
    """At the steps 0, n, 2n and so on."""
    AT_STEPS = "at_steps"
    """At the given steps."""
    ON_CONDITION = "on_condition"
    """Whenever the condition holds."""
    ON_FINDING = "on_finding"
    """When findings begin, of the given kinds or level; by default any that is a problem. Findings of one kind that
    begin at one step, such as those of all layers, are one event."""
    ON_LOSS_SPIKE = "on_loss_spike"
    """When the loss given to ``session.step`` rises above its limit; see ``LossSpikes``."""


class HookAction(StrEnum):
    """What a hook does. Actions run in the order in which they were added."""

    INSPECT_TENSOR = "inspect_tensor"
    """Passes the tensor to the session's tensor inspector; the result is its id."""
    RECORD_GRADIENT = "record_gradient"
    """Passes the gradient to the session's gradient debugger."""
    SAVE_TENSOR = "save_tensor"
    """Saves the tensor as a page of its own; the result is the page's path."""
    SNAPSHOT = "snapshot"
    """Emits a table with statistics of all parameters and their gradients."""
    CALLBACK = "callback"
    """Calls a function with the ``HookEvent``; the result is what it returns."""
    ALERT = "alert"
    """Emits an alert, or logs it where there is no run; the result is its message."""
    LOG = "log"
    """Logs a sentence about the event; the result is the sentence."""
    NOTIFY = "notify"
    """Emits the finding as JSON, which the run's ``webhook`` sinks post; only with ``ON_FINDING``."""
    STOP = "stop"
    """Sets ``session.should_stop``, which the loop asks for."""
    RAISE = "raise"
    """Raises an exception in the loop when its step is taken: from ``session.step``, or ``optimizer.step``."""
    MEASURE = "measure"
    """Has the session measure the coming steps in full, whatever its schedule and its limit of the overhead say."""
    PAUSE = "pause"
    """Starts pdb if standard input and output are a terminal and this is the main thread; otherwise goes on."""


TENSOR_TRIGGERS = frozenset(
    {
        HookTrigger.EVERY_FORWARD,
        HookTrigger.EVERY_BACKWARD,
        HookTrigger.EVERY_N_STEPS,
        HookTrigger.AT_STEPS,
        HookTrigger.ON_CONDITION,
    }
)
"""Those that look at tensors of layers."""
