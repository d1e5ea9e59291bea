"""Looks at a validation that the loop tells: which layers are in training mode, and whether calls are random."""

from debuggers.instrumentation.hooks import Hooks
from debuggers.instrumentation.isolation import Isolation
from debuggers.observed_training.random_calls import RandomCalls
from debuggers.observed_training.validations import Validations
from debuggers.signals.entrances import observable
from debuggers.signals.modes import evaluates_as_in_training
from debuggers.torch_import import torch


class ToldValidation:
    """Observes the model's first call of a validation, between ``begin`` and ``end``."""

    def __init__(
        self, model: torch.nn.Module, validations: Validations, random: RandomCalls, isolation: Isolation
    ) -> None:
        """Observes nothing yet.

        Args:
            model: What is validated.
            validations: Counts validations.
            random: Takes whether calls in evaluation mode draw random numbers.
            isolation: Catches what fails inside.
        """
        self._model, self._validations, self._random, self._isolation = model, validations, random, isolation
        self._hooks = Hooks()

    def begin(self) -> None:
        """Has the modes of layers looked at when the model is first called."""
        self._validations.tell()
        if (observed := observable(self._model)) is not None:
            self._hooks.add_around_forward(observed, self._before, self._after)

    def end(self) -> None:
        """Looks no more."""
        self._hooks.remove()

    def _before(self, module: torch.nn.Module, args: object, kwargs: object) -> None:
        with self._isolation.guard("watching a validation"):
            self._validations.tell(acted=evaluates_as_in_training(module))
            if not torch.is_grad_enabled():
                self._random.call_begins(again=False)

    def _after(self, module: torch.nn.Module) -> None:
        with self._isolation.guard("watching a validation"):
            self._hooks.remove()
            self._random.call_ends()
