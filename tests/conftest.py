"""What all tests share."""

import os

# Which code measures must not depend on when a process beside the tests has compiled it.
os.environ.setdefault("STEPSCOPE_COMPILE", "wait")
