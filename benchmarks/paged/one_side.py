"""Runs one side in this process, and prints what it measured: ``python -m paged.one_side TASK``."""

import json
import sys
from pathlib import Path

import torch

from paged.sides import SIDES


def main() -> None:
    task = json.loads(sys.argv[1])
    if task["threads"]:
        torch.set_num_threads(task["threads"])
    print(json.dumps(SIDES[task["side"]](Path(task["folder"]), **task["sizes"])))


if __name__ == "__main__":
    main()
