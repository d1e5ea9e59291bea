"""``python -m stepscope``: the command line."""

from stepscope.cli import main

main(prog_name="stepscope")
