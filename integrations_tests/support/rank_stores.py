"""Writes the stores of several ranks as sessions do, in one process."""

import time

import numpy as np

import stepscope
from debuggers.diagnosis.rank_facts import RANK_NAME, Placed, RankFacts, encode_rank


def shard(rank, ranks, **elements):
    """Parameters of which each rank has a part."""
    return Placed(placements=("Shard(0)",), mesh_shape=(ranks,), place=(rank,), elements=elements)


def whole(**elements):
    """Parameters of which each rank has a copy."""
    return Placed(elements=elements)


def write(
    path,
    rank,
    *,
    placed=(),
    ranks=2,
    strategy="ddp",
    series=(),
    histograms=(),
    texts=(),
    status="finished",
    clock_s=0.0,
    resume=False,
):
    """Writes one rank's store.

    Args:
        path: The run.
        rank: The rank.
        placed: How its parameters lie; none writes nothing about the rank.
        ranks: How many there are.
        strategy: Of the parallelism.
        series: Values of scalars by name: a list by step, or a mapping.
        histograms: Arrays at step 0 by name.
        texts: Texts at step 0 by name.
        status: How the run ends.
        clock_s: By how much the rank's clock is ahead.
        resume: Whether the run goes on, as a new attempt; the first rank starts one otherwise.
    """
    run = stepscope.open_run(path, sinks=[], rank=rank, resume=resume or rank > 0)
    if placed:
        facts = RankFacts(rank=rank, world_size=ranks, strategy=strategy, placed=tuple(placed))
        run.text(RANK_NAME, encode_rank(facts), step=0)
    for name, values in dict(series).items():
        for step, value in values.items() if isinstance(values, dict) else enumerate(values):
            run.scalars([name], [value], step=step, time_ns=time.time_ns() + int(clock_s * 1e9))
    for name, array in dict(histograms).items():
        run.histogram(name, np.asarray(array), step=0)
    for name, text in dict(texts).items():
        run.text(name, text, step=0)
    run.finish(status)
