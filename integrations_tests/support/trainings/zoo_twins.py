"""Which trainings of the zoo a test runs."""

from zlib import crc32

import pytest

from examples.zoo.cases import cases

SEEDS = 5
_SHARE = 16
"""Without ``--every-seed``, every sixteenth case is trained."""


def parametrize_twins(metafunc: pytest.Metafunc, half: str, part: str = "tuned") -> None:
    """Parametrizes with quick cases of a half: a sixteenth with a seed each, or all with all for ``--every-seed``.

    Whether a repaired twin is better depends on its file and on torch alone, not on what watches it.
    Which sixteenth and which seed depend on the case's name.
    """
    chosen = [case for case in cases(part) if not case.slow and case.half == half]
    seeds = (lambda name: range(SEEDS)) if metafunc.config.getoption("--every-seed") else _few_seeds
    metafunc.parametrize(
        ("case", "seed"),
        [pytest.param(case, seed, id=f"{case.name}-{seed}") for case in chosen for seed in seeds(case.name)],
    )


def _few_seeds(name: str) -> list[int]:
    number = crc32(name.encode())
    return [number // _SHARE % SEEDS] if number % _SHARE == 0 else []
