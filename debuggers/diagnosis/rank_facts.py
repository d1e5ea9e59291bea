"""What one rank of a training on several says of itself: which part of each parameter lies on it.

Stored in its own run store as JSON, so that a reader of all stores needs no communication between the ranks.
"""

from typing import Any

import msgspec

RANK_NAME = "stepscope/rank"
"""The name of the text in a run that holds it; the last one counts."""
HEARTBEAT_NAME = "stepscope/heartbeat"
"""The scalar by which a rank says that it lives: at its last step, how many collectives it has begun; -1 if unknown."""
STACK_NAME = "stepscope/stack"
"""The text that a rank stores when no step has ended for a while: where its threads are."""

_REPLICATED = "R"


class Placed(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Parameters that lie on a rank in the same way.

    Attributes:
        placements: One for each dimension of the mesh, such as ``Shard(dim=0)``; empty for plain tensors, of which each
            rank has its own whole.
        mesh_names: Names of the mesh's dimensions; may be empty.
        mesh_shape: Ranks along each dimension of the mesh.
        place: Where this rank is in the mesh.
        elements: How many elements of each parameter lie here, by its name.
    """

    placements: tuple[str, ...] = ()
    mesh_names: tuple[str, ...] = ()
    mesh_shape: tuple[int, ...] = ()
    place: tuple[int, ...] = ()
    elements: dict[str, int] = {}

    @property
    def part(self) -> str:
        """Which part of a tensor lies here, equal on ranks that hold copies of it; ``""`` for the whole."""
        names = self.mesh_names or tuple(map(str, range(len(self.mesh_shape))))
        rows = zip(self.placements, names, self.place, self.mesh_shape, strict=False)
        return ", ".join(
            f"{placement} over {name}, part {place + 1} of {size}"
            for placement, name, place, size in rows
            if not placement.startswith(_REPLICATED) and size > 1
        )

    @property
    def parts(self) -> int:
        """In how many parts the tensors are cut."""
        total = 1
        for placement, size in zip(self.placements, self.mesh_shape, strict=False):
            total *= 1 if placement.startswith(_REPLICATED) else size
        return total

    @property
    def has_copies(self) -> bool:
        """Whether other ranks should hold the same values: of plain tensors, and along replicated dimensions."""
        rows = zip(self.placements, self.mesh_shape, strict=False)
        return not self.placements or any(name.startswith(_REPLICATED) and size > 1 for name, size in rows)


class RankFacts(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One rank.

    Attributes:
        rank: Its number.
        world_size: How many there are.
        strategy: ``ddp`` (DistributedDataParallel), ``fsdp`` (``fully_shard`` or FullyShardedDataParallel), ``dtensor``
            for other sharded parameters, as of tensor parallelism; ``""`` where the model shows none.
        placed: The parameters, by how they lie here.
    """

    rank: int = 0
    world_size: int = 1
    strategy: str = ""
    placed: tuple[Placed, ...] = ()

    def of(self, parameter: str) -> Placed | None:
        """Returns how a parameter lies on this rank; None where it has none of that name."""
        return next((one for one in self.placed if parameter in one.elements), None)

    @property
    def parameters(self) -> dict[str, int]:
        """How many elements of each parameter lie here."""
        return {name: size for one in self.placed for name, size in one.elements.items()}


def decode_rank(text: str) -> RankFacts | None:
    """Returns what a rank has stored; None for what is none."""
    try:
        return msgspec.json.decode(text, type=RankFacts)
    except (msgspec.DecodeError, msgspec.ValidationError, UnicodeError, RecursionError):
        return None


def encode_rank(facts: RankFacts) -> str:
    """Returns it as JSON."""
    encoded: Any = msgspec.json.encode(facts)
    return str(encoded, "utf-8")
