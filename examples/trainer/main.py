"""Trains what a configuration describes: ``python main.py --config-filepath configs/digits.py``."""

from base_trainer import BaseTrainer
from config_file import config_of_command_line


def main() -> None:
    config = config_of_command_line(__doc__)
    scores = BaseTrainer(config).train()
    print(f"validation: {scores}; saved in {config['work_dir']}")


if __name__ == "__main__":
    main()
