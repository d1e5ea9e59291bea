"""Which trainings of the zoo a test runs."""

from zlib import crc32

import pytest

from examples.zoo.cases import cases

SEEDS = 5


def twins(half, part="tuned"):
    """Parametrizes with the quick cases of a half and seeds: one of each case is slow, ``make zoo`` runs all."""
    chosen = [case for case in cases(part) if not case.slow and case.half == half]
    return pytest.mark.parametrize(
        ("case", "seed"),
        [
            pytest.param(case, seed, marks=_mark(case, seed), id=f"{case.name}-{seed}")
            for case in chosen
            for seed in range(SEEDS)
        ],
    )


def _mark(case, seed):
    return pytest.mark.slow if crc32(case.name.encode()) % SEEDS == seed else pytest.mark.every_seed
