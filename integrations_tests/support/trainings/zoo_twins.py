"""Which trainings of the zoo a test runs."""

from zlib import crc32

import pytest

from examples.zoo.cases import cases

SEEDS = 5


def parametrize_twins(metafunc: pytest.Metafunc, half: str, part: str = "tuned") -> None:
    """Parametrizes with the quick cases of a half, each with one seed, or with all of them for ``--every-seed``."""
    chosen = [case for case in cases(part) if not case.slow and case.half == half]
    seeds = (lambda name: range(SEEDS)) if metafunc.config.getoption("--every-seed") else _one_seed
    metafunc.parametrize(
        ("case", "seed"),
        [pytest.param(case, seed, id=f"{case.name}-{seed}") for case in chosen for seed in seeds(case.name)],
    )


def _one_seed(name: str) -> list[int]:
    return [crc32(name.encode()) % SEEDS]
