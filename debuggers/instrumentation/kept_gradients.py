"""The gradients that optimizers have stepped with, kept until the step of the training ends."""

from __future__ import annotations

from collections.abc import Sequence

from tracker_adapters.values.tensors import local_part

from debuggers.host_arrays.readable import may_be_cloned
from debuggers.torch_import import torch
from debuggers.torch_internals.tensors import version_of

MOST_HELD = 1 << 28
"""Bytes of gradients that are kept at most beside those that the training itself still has."""
_COPIED = 1 << 22
"""Elements up to which gradients are copied in the first round, before it is known whether something changes them."""


class KeptGradients:
    """Keeps the gradients of each member of joined optimizers, by its place, from its step until the round ends.

    Kept is the tensor, or a copy if it was changed in an earlier round before that ended. A loop may free gradients
    before the round ends, as one does whose optimizers step inside of the backward pass to save memory. What is kept
    of such, and copies, take at most 256 MiB: a member with more keeps none, from then on, and is in ``left_out``.
    """

    def __init__(self) -> None:
        self.left_out: set[int] = set()
        """The members whose gradients are not kept."""
        self._kept: dict[int, _Kept] = {}
        self._members: dict[int, list[tuple[torch.Tensor, _Kept]]] = {}
        self._sizes: dict[int, int] = {}
        """Bytes that only this object holds, by member."""
        self._held = 0
        self._copied: set[int] = set()
        """Members whose gradients were changed before a round had ended."""

    def keep(self, place: int, parameters: Sequence[torch.Tensor], *, is_first: bool) -> None:
        """Takes the gradients of a member that steps; ``is_first`` where it never did before."""
        parameters = [one for one in parameters if one.grad is not None]
        if place in self.left_out:
            return
        copies = place in self._copied
        if copies and not self._fits(place, parameters):
            self.left_out.add(place)
            return
        if is_first and sum(one.numel() for one in parameters) <= _COPIED:
            copies = self._fits(place, parameters)
        for parameter in parameters:
            assert parameter.grad is not None
            self._add(place, parameter, _Kept(parameter.grad, copies=copies, watches=is_first or not copies))
        if copies:
            self.weigh(place)

    def keep_unscaled(
        self, place: int, parameters: Sequence[torch.Tensor], scale: torch.Tensor, *, is_last: bool
    ) -> None:
        """Takes copies of the gradients of a member that steps, without a scale; of the last one in any case."""
        parameters = [one for one in parameters if one.grad is not None]
        if not is_last and (place in self.left_out or not self._fits(place, parameters)):
            self.left_out.add(place)
            return
        try:
            with torch.no_grad():
                gradients = [one.grad / scale.to(one.grad.device) for one in parameters if one.grad is not None]
        except Exception:  # what is there holds the scale
            self.left_out.add(place)
            raise
        for parameter, gradient in zip(parameters, gradients, strict=True):
            self._add(place, parameter, _Kept(gradient))
        if not is_last:
            self.weigh(place)

    def weigh(self, place: int) -> None:
        """Looks at which gradients of a member only this object holds, and lets all of them go if they are too many."""
        size = sum(kept.own_bytes(parameter) for parameter, kept in self._members.get(place, ()))
        self._held += size - self._sizes.get(place, 0)
        self._sizes[place] = size
        if self._held > MOST_HELD:
            self.left_out.add(place)
            for parameter, _ in self._members.pop(place):
                self._kept.pop(id(parameter), None)
            self._held -= self._sizes.pop(place)

    def weigh_all(self) -> None:
        """Looks at those of all members; call it before something needs memory."""
        for place in list(self._members):
            self.weigh(place)

    def __contains__(self, parameter: torch.Tensor) -> bool:
        return id(parameter) in self._kept

    def gradient_of(self, parameter: torch.Tensor) -> torch.Tensor | None:
        """Returns the gradient of a parameter as it was; None where it is not kept, or was changed meanwhile."""
        kept = self._kept.get(id(parameter))
        return kept.gradient if kept is not None and kept.is_unchanged else None

    def clear(self) -> None:
        """Lets all of them go, without having learnt from them."""
        self._kept, self._members, self._sizes, self._held = {}, {}, {}, 0

    def learn(self) -> None:
        """Notes whose gradients were changed since they were kept."""
        for place, members in self._members.items():
            if any(kept.was_changed for _, kept in members):
                self._copied.add(place)

    def _add(self, place: int, parameter: torch.Tensor, kept: _Kept) -> None:
        self._kept[id(parameter)] = kept
        self._members.setdefault(place, []).append((parameter, kept))

    def _fits(self, place: int, parameters: Sequence[torch.Tensor]) -> bool:
        """Whether there is room for copies of gradients."""
        size = sum(_bytes(one.grad) for one in parameters if one.grad is not None)
        return self._held - self._sizes.get(place, 0) + size <= MOST_HELD


class _Kept:
    """The gradient of a parameter as it was at a moment."""

    __slots__ = ("_version", "_was_changed", "_watched", "gradient")

    def __init__(self, gradient: torch.Tensor, *, copies: bool = False, watches: bool = False) -> None:
        """Takes it, or a copy; if it ``watches``, it tells later whether the gradient itself was changed."""
        self._watched = gradient if watches else None
        self._version, self._was_changed = _version(gradient), False
        self.gradient = gradient.detach().clone() if copies and may_be_cloned(gradient) else gradient

    @property
    def was_changed(self) -> bool:
        """Whether the gradient was changed in place since."""
        return self._was_changed or (self._watched is not None and _version(self._watched) != self._version)

    @property
    def is_unchanged(self) -> bool:
        """Whether what is kept is what it was."""
        return self.gradient is not self._watched or not self.was_changed

    def own_bytes(self, parameter: torch.Tensor) -> int:
        """Returns how much memory only this holds of a parameter's gradient; lets go what it need not hold."""
        if self.gradient is parameter.grad:
            return 0
        if self._watched is not self.gradient and self._watched is not parameter.grad:
            self._was_changed, self._watched = self.was_changed, None
        return _bytes(self.gradient)


def _bytes(gradient: torch.Tensor) -> int:
    """The memory of a gradient; sparse ones, which hold a few rows, count nothing."""
    if gradient.layout is not torch.strided or gradient.is_nested:
        return 0
    values: torch.Tensor = local_part(gradient)
    return values.numel() * values.element_size()


def _version(gradient: torch.Tensor) -> int:
    return 0 if gradient.is_inference() else version_of(gradient)
