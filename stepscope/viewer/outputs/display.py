"""``display_debug_outputs``: one datapoint's debug outputs, shown in a notebook or printed."""

import sys
from collections.abc import Mapping
from typing import Any

import numpy as np
from tracker_adapters.errors import StepscopeError

from stepscope.viewer.outputs.elements import outputs_element, text_lines, to_html

_MOST_LEVELS = 50


class OutputsError(StepscopeError, TypeError):
    """The object to display is not a mapping of debuggers to their outputs."""


class DebugOutputs:
    """One datapoint's debug outputs: HTML with everything in it in a notebook, lines of text elsewhere."""

    def __init__(self, outputs: Mapping[str, Any]) -> None:
        """``outputs`` as ``display_debug_outputs`` takes them."""
        if not isinstance(outputs, Mapping):
            raise OutputsError(
                f"outputs is {type(outputs).__name__}; expected one datapoint's {{debugger_name: outputs}}, such as "
                "load_debug_outputs(folder)[idx]"
            )
        self.outputs = plain_outputs(outputs)

    def _repr_html_(self) -> str:
        return to_html(outputs_element(self.outputs))

    def __repr__(self) -> str:
        return "\n".join(text_lines(self.outputs)) or "No debug outputs."


def display_debug_outputs(outputs: Mapping[str, Any]) -> DebugOutputs:
    """Returns one datapoint's debug outputs as an object that a notebook displays: pictures, tables, distributions.

    Feature maps are shown side by side, attention and class activation maps also over the input image where the
    datapoint was kept; numbers as tables; other arrays by their distribution. NaN and infinities have colours of their
    own and are counted. Texts are escaped, and the HTML loads nothing.

    Args:
        outputs: ``{debugger_name: outputs}``: a datapoint of ``load_debug_outputs`` or ``PageReader``, or what a
            ``SequentialDebugger`` returned. Arrays are NumPy's or torch's; of a batch's tensors, all are shown.

    Raises:
        OutputsError: For anything but a mapping.
    """
    return DebugOutputs(outputs)


def plain_outputs(value: Any, levels: int = _MOST_LEVELS) -> Any:
    """Returns nested outputs with NumPy arrays in place of torch's tensors; anything else stays as it is."""
    if isinstance(value, Mapping) and levels:
        return {key: plain_outputs(item, levels - 1) for key, item in value.items()}
    if isinstance(value, (list, tuple)) and levels:
        return [plain_outputs(item, levels - 1) for item in value]
    torch: Any = sys.modules.get("torch")  # whoever has a tensor has imported it
    if torch is None or not isinstance(value, torch.Tensor):
        return value
    from debuggers.host_arrays.readable import readable_tensor

    tensor = readable_tensor(value).cpu()
    wide = tensor.float() if tensor.is_floating_point() and tensor.dtype not in _numpy_floats(torch) else tensor
    array = wide.resolve_conj().resolve_neg().numpy()
    return array if array.ndim else np.asarray(array)[()]


def _numpy_floats(torch: Any) -> tuple[Any, ...]:
    return torch.float16, torch.float32, torch.float64
