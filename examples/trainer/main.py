"""Trains what a configuration describes: ``python main.py --config-filepath configs/digits.py``."""

from argparse import ArgumentParser
from pathlib import Path

from base_trainer import BaseTrainer
from config_file import load_config


def main() -> None:
    parser = ArgumentParser(description=__doc__)
    parser.add_argument(
        "--config-filepath", type=Path, required=True, help="a Python file that defines config; it is run"
    )
    config = load_config(parser.parse_args().config_filepath)
    scores = BaseTrainer(config).train()
    print(f"validation: {scores}; saved in {config['work_dir']}")


if __name__ == "__main__":
    main()
