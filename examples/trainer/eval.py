"""Evaluates what a configuration describes: ``python eval.py --config-filepath configs/digits_evaluation.py``."""

from base_evaluator import BaseEvaluator
from config_file import config_of_command_line

from debuggers.failed_datapoints import failures


def main() -> None:
    config = config_of_command_line(__doc__)
    scores = BaseEvaluator(config).evaluate()
    print(f"evaluation: {scores}; saved in {config['work_dir']}")
    if config.get("debugger"):
        found = failures(config["work_dir"], limit=5)
        print(f"{found.wrong} of {found.wrong + found.right} were wrong; the worst:")
        for failure in found:
            print(f"  {failure.datapoint}: a {failure.label} taken for a {failure.prediction}, loss {failure.loss:.3g}")


if __name__ == "__main__":
    main()
