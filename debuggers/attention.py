"""Captures a layer's attention weights, head by head, and their statistics."""

import threading
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from functools import partial
from typing import Any

from tracker_adapters.values.checked_values import at_least, check_value

from debuggers.attention_weights.captures import AttentionCaptures
from debuggers.attention_weights.multihead import is_multihead_attention, module_weights
from debuggers.attention_weights.outputs import output_weights, returned_weights
from debuggers.attention_weights.picture import attention_picture
from debuggers.attention_weights.watch import AttentionWatch, obstacle
from debuggers.attention_weights.weights import GivenWeights
from debuggers.base_debugger import Picture
from debuggers.errors import DebuggerConfigError
from debuggers.forward_debugger import ForwardDebugger, is_recomputation
from debuggers.instrumentation.isolation import describe
from debuggers.instrumentation.module_selection import Selector
from debuggers.instrumentation.quiet_computation import quiet_computation
from debuggers.torch_import import torch

MAX_ELEMENTS = 2**22
"""16 MB in float32."""


@dataclass(frozen=True, slots=True)
class _Call:
    """What was seen of one call of a layer; ``obstacle`` says why it was not watched."""

    keywords: Mapping[str, Any]
    captures: AttentionCaptures
    obstacle: str


class AttentionDebugger(ForwardDebugger):
    """Captures ``attention_map``, ``attention_stats``, ``layer_name`` and ``source``.

    The weights are the first of these that there are; ``source`` says which:

    - ``multihead_attention``: the layer is a ``torch.nn.MultiheadAttention``. One map a head is computed from its
      queries and keys, also with ``need_weights=False``. Maps that it returns head by head are ``returned``.
    - ``returned``: the layer returned them beside its result, see ``attention_outputs.returned_weights``.
    - ``scaled_dot_product_attention``: something inside the layer called this function of
      ``torch.nn.functional``. The weights are computed from its arguments, without dropout. A
      ``MultiheadAttention`` inside the layer is seen too, as ``multihead_attention``.
    - ``output``: the layer's output is a tensor, which is taken to be the weights. On the host negative values
      are refused; ``mean_row_sum`` tells whether it was a softmax.

    The map is (B, heads, queries, keys), without the dimensions that the layer's tensors lack: three dimensions
    are (B, queries, keys), or (heads, queries, keys) of a MultiheadAttention without batch; two are (queries,
    keys), one becomes (1, keys). Dimensions before these four count as batch. It is in float32 or wider; a
    returned map shows its dropout. For ``attention_stats`` see ``AttentionMeasurement``.

    ``max_elements`` limits the kept maps. A larger one is None, with the reason under ``left_out``, and is
    measured in blocks of queries that are no larger.

    When one call of the layer shows several sets of weights, they lie under ``calls``, by name or number. Where
    no weights are found the capture is ``{"error": reason}``.

    The layer computes the same bits with and without this. So a layer is not watched inside when torch may run
    it by one fused kernel (in eval mode, ``TransformerEncoderLayer`` and what holds a ``MultiheadAttention``), or
    when parts of it are compiled: name the attention layer itself.
    """

    draws_random_numbers = False

    def __init__(self, layer_name: Selector, missing_ok: bool = False, max_elements: int = MAX_ELEMENTS) -> None:
        """Makes a debugger for a layer's attention.

        Args:
            layer_name: See ``ForwardDebugger``.
            missing_ok: See ``ForwardDebugger``.
            max_elements: How many weights all kept maps of one call of the layer may have together.

        Raises:
            DebuggerConfigError: When ``max_elements`` is no int from 0 on.
        """
        check_value("max_elements", max_elements, at_least(0), DebuggerConfigError)
        super().__init__(layer_name, missing_ok)
        self.max_elements = max_elements
        # By thread; an entry lives from the end of a layer's forward to the hook that follows.
        self._calls: dict[int, _Call] = {}

    def around_forward(
        self, module: torch.nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> AbstractContextManager[Any] | None:
        """Returns a context for the layer's forward, in which its attention is watched."""
        if is_recomputation() or torch.compiler.is_compiling():
            return None
        return self._watching(module, kwargs)

    def process_forward(self, module: torch.nn.Module, input: Any, output: Any) -> dict[str, Any]:
        """See the class. Without the context of ``around_forward``, only the output is searched."""
        call = self._calls.pop(threading.get_ident(), None)
        try:
            with quiet_computation("cpu"):
                captures = self._captures(module, input, output, call)
        except Exception as error:  # a user-defined output may raise anything when it is searched
            return {"error": f"the output could not be searched for attention weights: {describe(error)}"}
        if not captures:
            return {"error": _nothing_found(module, call)}
        if len(captures) > 1:
            return {"calls": captures, "layer_name": self.layer_name}
        (capture,) = captures.values()
        return capture if "error" in capture else {**capture, "layer_name": self.layer_name}

    def pictures(self, outputs: Any, datapoint: dict[str, Any]) -> Iterator[Picture]:
        """Yields the maps of the first datapoint, head beside head, for each set of weights."""
        for name, capture in outputs.get("calls", {"": outputs}).items():
            attention_map = capture.get("attention_map")
            if attention_map is not None and attention_map.numel():
                picture = attention_picture(attention_map, "entropy_per_head" in capture["attention_stats"])
                yield Picture(f"attention_map_{name}" if name else "attention_map", picture)

    @contextmanager
    def _watching(self, module: torch.nn.Module, keywords: Mapping[str, Any]) -> Iterator[None]:
        captures = AttentionCaptures(self.max_elements)
        # Of a MultiheadAttention the arguments say everything.
        reason = "" if is_multihead_attention(module) else obstacle(module)
        watch = nullcontext() if reason or is_multihead_attention(module) else AttentionWatch(captures)
        with watch:
            yield
        self._calls[threading.get_ident()] = _Call(keywords, captures, reason)

    def _captures(
        self, module: torch.nn.Module, input: Any, output: Any, call: _Call | None
    ) -> dict[str, dict[str, Any]]:
        captures = AttentionCaptures(self.max_elements)
        if call is not None and is_multihead_attention(module):
            weights = partial(module_weights, module, input, call.keywords, output)
            captures.add("0", weights, *input, *call.keywords.values())
            return captures.by_name
        for name, values in returned_weights(output, training=module.training).items():
            captures.add(name, partial(GivenWeights, values), values)
        if captures.by_name:
            return captures.by_name
        if call is not None and (call.captures.by_name or call.obstacle):
            return call.captures.by_name
        if isinstance(output, torch.Tensor):
            captures.add("output", partial(output_weights, output), output)
        return captures.by_name


def _nothing_found(module: torch.nn.Module, call: _Call | None) -> str:
    if call is None:
        reason = "its forward was not watched"
    elif call.obstacle:
        reason = f"its forward was not watched: {call.obstacle}"
    else:
        reason = "called no scaled_dot_product_attention of torch.nn.functional"
    return f"no attention weights: the {type(module).__name__} returned none, and {reason}"
