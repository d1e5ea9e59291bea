"""What the commands print on a terminal of some width."""

import fcntl
import os
import struct
import subprocess
import sys
import termios

import stepscope

TEXT = "\n".join([
    "1. The weights start at a wrong scale, since step 0",
    "   + outputs grow from 0.72 (read) to 2.3e+03",
    "   try: clip_grad_norm_(model.parameters(), max_norm=4.2e+06)",
    "", "short",
])  # fmt: skip
PRINTS = "import sys; from stepscope.commands.common import echo_prose; echo_prose(sys.argv[1])"


def printed(columns, command=(sys.executable, "-c", PRINTS, TEXT)):
    """What a terminal of that width is given; that of a pipe for None."""
    environment = {name: value for name, value in os.environ.items() if name not in ("COLUMNS", "LINES")}
    if columns is None:
        return subprocess.run(command, stdout=subprocess.PIPE, check=True, env=environment, timeout=60).stdout.decode()
    ours, theirs = os.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    # The size is that of the process's own terminal, which is its first standard stream.
    subprocess.run(command, stdin=theirs, stdout=theirs, stderr=theirs, check=True, env=environment, timeout=60)
    os.close(theirs)
    with os.fdopen(ours, "rb") as terminal:
        return terminal.read1(10_000).decode().replace("\r\n", "\n")


def test_lines_are_broken_between_words_at_the_width_of_a_terminal():
    assert printed(43).splitlines() == [
        "1. The weights start at a wrong scale,",
        "   since step 0",
        "   + outputs grow from 0.72 (read) to",
        "     2.3e+03",
        "   try: clip_grad_norm_(model.parameters(),",
        "        max_norm=4.2e+06)",
        "",
        "short",
    ]  # fmt: skip


def test_a_pipe_gets_whole_lines():
    assert printed(None) == TEXT + "\n"


def test_a_comparison_of_two_runs_fits_the_terminal(tmp_path):
    runs = [tmp_path / name for name in ("first", "second")]
    for scale, folder in enumerate(runs, start=1):
        with stepscope.open_run(folder, sinks=[]) as run:
            for step in range(30):
                run.scalar("loss", 1 / (step + scale), step=step)
                run.scalar("diagnosis/parameter_update_ratio/encoder.layers.0.weight", 1e-3 * scale, step=step)
    lines = printed(80, (sys.executable, "-m", "stepscope", "report", *map(str, runs))).splitlines()
    assert "encoder.layers.0.weight" in "".join(lines)
    assert max(map(len, lines)) <= 80
