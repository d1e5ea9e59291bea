"""What one scalar costs the training loop: prints the figures of ``delivery.emit_side``."""

import json
import tempfile
from dataclasses import asdict
from pathlib import Path

from delivery.emit_side import figures, sides

OURS = "stepscope run.scalar"


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        found = figures(sides(Path(folder)))
    ours = found[OURS].median_us
    print(f"{'one call, microseconds':34}{'median':>10}{'p99':>10}{'ratio of medians':>18}")
    for name, row in found.items():
        print(f"{name:34}{row.median_us:10.2f}{row.p99_us:10.2f}{row.median_us / ours:17.1f}x")
    print(json.dumps({name: asdict(row) | {"ratio": row.median_us / ours} for name, row in found.items()}))


if __name__ == "__main__":
    main()
