"""The command ``stepscope``, as a file: what ``WarmPython.run_stepscope`` runs."""

from stepscope.cli import main

main(prog_name="stepscope")
