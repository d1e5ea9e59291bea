"""Plants NaN in the middle of trainings, watches these in several ways, and counts what is named.

Run: ``python benchmarks/planted_nan.py``. Exactly: module, operator and pass are right. Module: that much is right, and
there cannot be more for a fault in the loss without ``replay``. Healthy trainings with legal infinities must have no
answer.
"""

import argparse
import logging
import warnings
from collections import Counter

from planted.healthy import HEALTHY
from planted.settings import SETTINGS, told, told_of_healthy, verdict
from planted.trainings import TRAININGS


def main() -> None:
    parser = argparse.ArgumentParser(description="What is named of planted NaN.")
    parser.add_argument("--settings", nargs="*", default=list(SETTINGS), choices=list(SETTINGS))
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    logging.disable(logging.ERROR)
    for setting in options.settings:
        counts: Counter[str] = Counter()
        for training in TRAININGS:
            answers = told(training, setting)
            found = verdict(training, answers)
            counts[found] += 1
            if found != "exactly":
                titles = [(step, origin and f"{origin.title} [{origin.origin}]") for step, origin in answers]
                print(f"  {setting}: {training.title}: {found}: {titles}")
        print(f"{setting:14} {len(TRAININGS)} faults: {dict(counts)}", flush=True)
        false_alarms = 0
        for healthy in HEALTHY:
            is_finite, answers = told_of_healthy(healthy, setting)
            false_alarms += bool(answers)
            if answers or not is_finite:
                print(f"  {setting}: {healthy.title}: finite {is_finite}: {[str(answer) for answer in answers]}")
        print(f"{setting:14} {len(HEALTHY)} healthy trainings: {false_alarms} false alarms", flush=True)


if __name__ == "__main__":
    main()
