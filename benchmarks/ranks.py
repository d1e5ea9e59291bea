"""Stores of many ranks, made and merged for real: time of a processor, memory, files and bytes.

Run: ``python benchmarks/ranks.py --ranks 1000 --points 10000``. Each rank has its loss and the norm of its shard of one
gradient at every step, and a histogram of the shard. Merging is measured in a process of its own. ``--checksums``
measures the checksums of the transformer's weights and gradients against its step, in pairs.
"""

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median

import numpy as np

import stepscope
from debuggers.diagnosis.rank_facts import RANK_NAME, Placed, RankFacts, encode_rank

NORM, HISTOGRAM, ELEMENTS = "gradient_norm/w", "gradients/w", 4096
MEBIBYTE = 2**20


def make(folder: Path, ranks: int, points: int) -> None:
    """Writes the stores, one after the other, through open runs."""
    for rank in range(ranks):
        random = np.random.default_rng(rank)
        values = random.normal(1.0, 0.1, points).tolist()
        placed = Placed(placements=("Shard(0)",), mesh_shape=(ranks,), place=(rank,), elements={"w": ELEMENTS})
        facts = RankFacts(rank=rank, world_size=ranks, strategy="fsdp", placed=(placed,))
        with stepscope.open_run(folder, sinks=[], rank=rank, resume=rank > 0, system_metrics=False) as run:
            run.text(RANK_NAME, encode_rank(facts), step=0)
            run.histogram(HISTOGRAM, random.normal(size=ELEMENTS).astype(np.float32), step=0)
            for step, value in enumerate(values):
                run.scalars(("loss", NORM), (value, value), step=step)


def read(folder: Path) -> dict[str, float]:
    """Merges what the stores hold; returns seconds of this process's processor, wall seconds, and megabytes."""
    found: dict[str, float] = {}
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with stepscope.read_run(folder) as record:
        merged = stepscope.MergedRanks(record)
        for what, action in {
            "spread": lambda: len(merged.scalars("loss")),
            "norm": lambda: len(merged.scalars(NORM)),
            "histogram": lambda: merged.histogram(HISTOGRAM, 0).count,
        }.items():
            began, cpu = time.perf_counter(), time.process_time()
            found[f"{what}_points"] = action()
            found[f"{what}_cpu_s"] = time.process_time() - cpu
            found[f"{what}_s"] = time.perf_counter() - began
    found["added_mb"] = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024
    found["peak_mb"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return found


def checksums(steps: int) -> dict[str, float]:
    """Returns the median share that a check takes of ten steps of the transformer, and of both the milliseconds."""
    import torch
    from watched.models import BATCH, LENGTH, VOCABULARY, Transformer

    from debuggers.ranks.checksums import Checksums, together

    torch.set_num_threads(1)
    model = Transformer()
    optimizer = torch.optim.AdamW(model.parameters())
    step_ms, check_ms = [], []
    for _ in range(steps):
        tokens = torch.randint(VOCABULARY, (BATCH, LENGTH))
        began = time.process_time()
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(model(tokens).flatten(0, 1), tokens.flatten()).backward()
        optimizer.step()
        ended = time.process_time()
        parameters = list(model.parameters())
        for tensors in (parameters, [parameter.grad for parameter in parameters]):
            together(Checksums(tensors).resolve())
        check_ms.append((time.process_time() - ended) * 1e3)
        step_ms.append((ended - began) * 1e3)
    share = median(check / step for check, step in zip(check_ms, step_ms, strict=True)) / 10
    return {"step_cpu_ms": median(step_ms), "check_cpu_ms": median(check_ms), "share_of_every_tenth_step": share}


def main() -> None:
    """Measures, and prints a line of JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--ranks", type=int, default=1000)
    parser.add_argument("--points", type=int, default=10_000)
    parser.add_argument("--read", type=Path, default=None, help="only merge the stores in this folder")
    parser.add_argument("--checksums", type=int, default=0, metavar="STEPS", help="measure checksums in so many steps")
    given = parser.parse_args()
    if given.read is not None:
        print(json.dumps(read(given.read)))
        return
    if given.checksums:
        print(json.dumps(checksums(given.checksums)))
        return
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place) / "run"
        cpu = time.process_time()
        make(folder, given.ranks, given.points)
        found: dict[str, float] = {"ranks": given.ranks, "points": given.points}
        found["made_cpu_s"] = time.process_time() - cpu
        files = [path for path in folder.rglob("*") if path.is_file()]
        found |= {"files": len(files), "mb": sum(path.stat().st_size for path in files) / MEBIBYTE}
        done = subprocess.run(
            [sys.executable, __file__, "--read", str(folder)], check=True, capture_output=True, text=True
        )
        print(json.dumps(found | json.loads(done.stdout)))


if __name__ == "__main__":
    main()
