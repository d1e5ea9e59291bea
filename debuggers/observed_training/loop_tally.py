"""Counts what the steps of a loop have in common, of which the facts of a training tell the usual."""

from dataclasses import dataclass

_FEW_DROPPED = 5
"""Backward passes that no step follows, of which nothing is said: those of skipped steps and of a probe."""
_OFTEN = 10
"""At more than one in so many steps another model's passes are part of the training: a critic takes several a time."""


@dataclass(slots=True)
class LoopTally:
    """Numbers of steps, but for ``dropped``.

    Attributes:
        steps: All of them.
        clipped: Those before which gradients were clipped.
        joined: Those with more than two calls of the model for each backward pass.
        others: Those between which other backward passes than theirs come, as of another model.
        dropped: Backward passes that no step followed.
    """

    steps: int = 0
    clipped: int = 0
    joined: int = 0
    others: int = 0
    dropped: int = 0

    @property
    def clips(self) -> bool:
        """Whether most steps are clipped."""
        return 2 * self.clipped > self.steps

    @property
    def joins_calls(self) -> bool:
        """Whether the calls of most steps share a backward pass."""
        return 2 * self.joined > self.steps

    @property
    def trains_with_others(self) -> bool:
        """Whether the training takes turns with others."""
        return _OFTEN * self.others > self.steps

    def not_judged(self) -> list[str]:
        """What other backward passes than those of the steps keep from being judged."""
        if self.trains_with_others:
            return ["the course of the loss was not judged, as other backward passes come between the steps"]
        if self.dropped > max(_FEW_DROPPED, self.steps / _OFTEN):
            return [f"no step followed {self.dropped:,} backward passes (another optimizer?)"]
        return []
