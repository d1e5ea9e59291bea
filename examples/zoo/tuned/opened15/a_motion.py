"""Simple physics for trainings on motion: pendulums that swing freely, and carts that are pushed."""

from collections.abc import Callable

import torch


def swing(states: torch.Tensor, steps: int, pause: float = 0.1) -> torch.Tensor:
    """Returns the states (N, steps + 1, 2) of damped pendulums: their angles and speeds, the given ones first."""
    angle, speed = states.unbind(1)
    found = [states]
    for _ in range(steps):
        speed = speed - pause * (2 * torch.sin(angle) + 0.1 * speed)
        angle = angle + pause * speed
        found.append(torch.stack([angle, speed], 1))
    return torch.stack(found, 1)


def released(seed: int, count: int) -> torch.Tensor:
    """Returns angles up to 2.5 and speeds up to 1.5 at which pendulums begin."""
    draw = torch.Generator().manual_seed(500 + seed)
    return (2 * torch.rand(count, 2, generator=draw) - 1) * torch.tensor([2.5, 1.5])


class Carts:
    """Carts on a line, each to be brought to its middle; ``states`` (N, 2) are their places and speeds."""

    def __init__(self, count: int, draw: torch.Generator | None = None) -> None:
        self.states = torch.randn(count, 2, generator=draw) * torch.tensor([1.0, 0.5])

    def push(self, force: torch.Tensor) -> torch.Tensor:
        """Pushes each of them (N,) with a force of at most 2, and returns the rewards (N,)."""
        place, speed = self.states.unbind(1)
        speed = 0.95 * speed + 0.2 * force.clamp(-2, 2)
        place = place + 0.2 * speed
        self.states = torch.stack([place, speed], 1)
        return -place.square() - 0.01 * force.square()


@torch.no_grad()
def spared(policy: Callable[[torch.Tensor], torch.Tensor], steps: int = 25) -> float:
    """Returns which share of the costs without a force a policy (states to forces) spares; -1 at least."""
    pushed, left = (Carts(300, torch.Generator().manual_seed(7)) for _ in range(2))
    costs = [(-pushed.push(policy(pushed.states)), -left.push(torch.zeros(300))) for _ in range(steps)]
    with_policy, without = (torch.stack(column).mean() for column in zip(*costs, strict=True))
    return (1 - with_policy / without).clamp(min=-1).item()


def discounted(rewards: torch.Tensor, discount: float) -> torch.Tensor:
    """Returns what is still to come at each time of the rewards (time, N)."""
    found, later = [], torch.zeros_like(rewards[0])
    for now in reversed(rewards):
        later = now + discount * later
        found.append(later)
    return torch.stack(found[::-1])
