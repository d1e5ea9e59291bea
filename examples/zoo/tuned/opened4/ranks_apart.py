"""Two ranks that average gradients."""

import torch
from torch import distributed
from torch.nn import functional

from examples.zoo.cases import Watch, sick
from examples.zoo.datasets import digits
from examples.zoo.loops import accuracy
from examples.zoo.tuned.opened4.material import mlp
from examples.zoo.two_ranks import RANKS, on_two_ranks


def on_its_shard(watch: Watch, rank: int, seed: int, sick: bool) -> float:
    data = digits(seed)
    shard = data.targets.argsort(stable=True).chunk(RANKS)[rank]
    model = mlp(64, 48, 32, 10)  # the same on both: a seed is set before
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    torch.manual_seed(seed + 100 * rank)
    session = watch(model, optimizer)
    for _ in range(120):
        rows = shard[torch.randint(len(shard), (32,))]
        optimizer.zero_grad()
        logits = model(data.inputs[rows])
        loss = functional.cross_entropy(logits, data.targets[rows])
        loss.backward()
        if not sick:
            for parameter in model.parameters():
                distributed.all_reduce(parameter.grad)
                parameter.grad /= RANKS
        session.step(loss, inputs=data.inputs[rows], outputs=logits, targets=data.targets[rows])
        optimizer.step()
    return accuracy(model, data)


@sick("rank_desync", slow=True)
def ranks_that_never_average(watch: Watch, *, seed, sick):
    """The folders of the digits are shared out between two ranks, and the line that averages gradients is missing."""
    return on_two_ranks(on_its_shard, watch, seed=seed, sick=sick)
