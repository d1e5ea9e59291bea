"""Warns, once each, about outputs that an activation monitor cannot measure."""

import logging

_log = logging.getLogger(__name__)
_NO_OUTPUT = (
    "no output was recorded: none of the chosen modules was called as a module in the step, in the mode of the model. "
    "Compiled code (torch.compile, model.compile(), torch.jit) and code that uses weights alone show no calls; to see "
    'outputs run some steps uncompiled, such as under torch.compiler.set_stance("force_eager"). Outputs that are meta, '
    "sparse or nested tensors are not measured"
)
_NO_GRADIENT = (
    "activation gradients were requested, but no output requires one: the forward pass ran under no_grad or "
    "inference_mode, or all parameters are frozen"
)


class CoverageWarnings:
    """Logs each warning once."""

    def __init__(self) -> None:
        self._said: set[str] = set()

    def warn_about_missing(self, *, any_output: bool, no_gradient: bool = False) -> None:
        """Warns when a step had no output, or outputs without the gradients that were asked for."""
        if not any_output:
            self._say(_NO_OUTPUT)
        elif no_gradient:
            self._say(_NO_GRADIENT)

    def _say(self, message: str) -> None:
        if message not in self._said:
            self._said.add(message)
            _log.warning("%s", message)
