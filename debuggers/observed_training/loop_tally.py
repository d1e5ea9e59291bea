"""Counts what the steps of a loop have in common, of which the facts of a training tell the usual."""

from dataclasses import dataclass, field

from tracker_adapters.wording import share_of

_FEW = 5
"""What nothing is said of: passes that no step follows, and steps that are not taken, as those that are skipped."""
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
        untaken: Those that the loop told, and told another one before the optimizer took a step.
    """

    steps: int = 0
    clipped: int = 0
    joined: int = 0
    others: int = 0
    dropped: int = 0
    untaken: int = 0
    _waiting: int = field(default=0, init=False)

    def begin(self) -> None:
        """Counts a step."""
        self.steps += 1
        self._waiting += 1

    def end(self) -> None:
        """Takes that the optimizer has stepped."""
        self.untaken += max(0, self._waiting - 1)
        self._waiting = 0

    @property
    def waits_again(self) -> bool:
        """Whether the last step, too, was told with no step of the optimizer since the one before it."""
        return self._waiting > 1

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
        """What keeps from being judged: steps that are none, and other backward passes than those of the steps."""
        if self.untaken > max(_FEW, self.steps / _OFTEN):
            untaken = share_of(self.untaken, self.steps, "steps")
            return [
                f"{untaken} were told before the optimizer had taken the one before (expected one session.step() for "
                "each optimizer.step())"
            ]
        if self.trains_with_others:
            return ["the course of the loss was not judged, as other backward passes come between the steps"]
        if self.dropped > max(_FEW, self.steps / _OFTEN):
            return [f"no step followed {self.dropped:,} backward passes (another optimizer?)"]
        return []
