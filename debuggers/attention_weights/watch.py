"""Watches the calls of torch's attention functions inside a layer's forward, where that changes nothing."""

from collections.abc import Callable, Sequence
from typing import Any

from debuggers.attention_weights.captures import AttentionCaptures
from debuggers.attention_weights.multihead import functional_weights, is_multihead_attention, may_take_fast_path
from debuggers.attention_weights.weights import AttentionWeights, scaled_dot_product
from debuggers.instrumentation.call_observers import is_compiled_in_place
from debuggers.torch_import import torch
from debuggers.torch_internals.modules import is_compiled

_WATCHED: dict[Callable[..., Any], Callable[..., AttentionWeights]] = {
    torch.nn.functional.scaled_dot_product_attention: scaled_dot_product,
    torch.nn.functional.multi_head_attention_forward: functional_weights,
}


class AttentionWatch(torch.overrides.TorchFunctionMode):
    """While active, adds a capture for each call of torch's attention functions, named by its number: ``0``, ``1``.

    The functions are ``scaled_dot_product_attention`` and ``multi_head_attention_forward`` of
    ``torch.nn.functional``; the second hides its call of the first.
    """

    def __init__(self, captures: AttentionCaptures) -> None:
        super().__init__()
        self._captures = captures

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: Sequence[Any] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        """Called by torch instead of ``func``: calls it, then measures the attention that it computed."""
        keywords = kwargs or {}
        result = func(*args, **keywords)
        weights = _WATCHED.get(func)
        if weights is not None:
            name = str(len(self._captures.by_name))
            self._captures.add(name, lambda: weights(*args, **keywords), *args, *keywords.values())
        return result


def obstacle(module: torch.nn.Module) -> str:
    """Returns why a layer cannot be watched without changing what it computes, or ``""``."""
    parts = dict(module.named_modules())
    if any(may_take_fast_path(part) for part in parts.values()):
        names = ", ".join(repr(name) for name, part in parts.items() if is_multihead_attention(part))
        return f"torch may run it by a fused kernel, which shows no weights; watch its MultiheadAttention ({names})"
    if any(is_compiled(part) or is_compiled_in_place(part) for part in parts.values()):
        return "a part of it is compiled, and watching would compile it anew"
    return ""
