"""torchrun with ranks that are forks of this process, and need not import again what it has imported.

``forked_ranks.py RANKS PROGRAM ARGUMENT…``
"""

import runpy
import sys

from torch.distributed.launcher.api import LaunchConfig, elastic_launch


def run_rank(*command: str) -> None:
    """Runs the program as a rank."""
    sys.argv[:] = command
    runpy.run_path(command[0], run_name="__main__")


if __name__ == "__main__":
    config = LaunchConfig(
        min_nodes=1, max_nodes=1, nproc_per_node=int(sys.argv[1]),
        run_id="ranks", rdzv_backend="c10d", rdzv_endpoint="127.0.0.1:0", start_method="fork", max_restarts=0,
    )  # fmt: skip
    elastic_launch(config, run_rank)(*sys.argv[2:])
