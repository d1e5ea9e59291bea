"""Text from a run does nothing to a terminal: neither in errors, nor in logs, nor in what commands print.

What is said on standard error stops nothing where there is none.
"""

import io
import logging
import re

import pytest
import torch
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st
from tracker_adapters.errors import NotARunError
from tracker_adapters.redaction import RedactingStream
from tracker_adapters.terminal_text import in_one_line, printable, printable_line, say

import stepscope
from stepscope.cli import main

HOSTILE = "x\x1b]0;owned\x07\x1b[2J\x9b31m\u202egnp.\r\x7f"
CLOSED = io.StringIO()
CLOSED.close()
OBEYED = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")


@given(st.text())
def test_only_what_a_terminal_obeys_is_changed(text):
    shown = printable(text)
    assert not OBEYED.search(shown)
    shown.encode()
    assert shown == text or re.search(r"\\(x|u|r)", shown)
    assert printable(shown) == shown
    assert len(printable_line(text).splitlines()) <= 1


def test_ordinary_text_of_any_language_stays():
    for text in ("loss\tµ\n", "損失 ошибка", "a\\x1b", "🙂"):
        assert printable(text) == text


def test_errors_and_the_logs_of_delivery_are_safe():
    assert not OBEYED.search(str(NotARunError(HOSTILE)))
    kept = io.StringIO()
    stream = RedactingStream(kept)
    stream.write(HOSTILE + "\n")
    assert not OBEYED.search(kept.getvalue())


def test_what_is_said_and_a_sessions_summary_are_safe(capsys):
    say(HOSTILE)
    model = torch.nn.Sequential()
    model.add_module(HOSTILE.replace(".", ""), torch.nn.Linear(2, 2))
    model.add_module("last", torch.nn.Linear(2, 1))
    optimizer = torch.optim.SGD(model.last.parameters())
    with stepscope.watch(model, optimizer) as session:
        for _ in range(30):
            model(torch.ones(4, 2)).sum().backward()
            optimizer.step()
    told = session.report().summary()
    assert "x\\x1b]0;owned" in told
    assert not OBEYED.search(told + capsys.readouterr().err)


@pytest.fixture
def hostile_run(tmp_path):
    with stepscope.open_run(tmp_path / "run", sinks=[], name=HOSTILE, tags=[HOSTILE], config={HOSTILE: HOSTILE}) as run:
        run.scalar(HOSTILE, 1.0, step=0)
        run.text(HOSTILE + "t", HOSTILE, step=0)
        run.alert(HOSTILE + "a", HOSTILE, step=0)
    return tmp_path / "run"


@pytest.mark.parametrize(
    "arguments",
    [
        ("ls", "{run}"),
        ("ls", "{above}"),
        ("query", "{run}", "select * from scalars"),
        ("query", "{run}", "select * from no_table_\x1b[2J"),
        ("sync", "{run}", "--to", "local"),
        ("gc", "{run}", "--max-bytes", "1", "--dry-run"),
        ("export", "{run}", "--output", "{above}/out"),
        ("export", "{run}", "--names", HOSTILE + "?", "--output", "{above}/out2"),
        ("ls", "{above}/\x1b[2Jnot"),
    ],
)
def test_no_command_prints_what_a_terminal_obeys(hostile_run, arguments):
    words = [word.format(run=hostile_run, above=hostile_run.parent) for word in arguments]
    result = CliRunner().invoke(main, words)
    assert result.exception is None or isinstance(result.exception, SystemExit)
    assert result.output
    assert not OBEYED.search(result.output)


class Unheard:
    """What stands in the place of standard error and takes nothing."""

    def write(self, text):
        raise BrokenPipeError(text)


def test_a_line_is_said_on_standard_error_after_the_name_and_the_rank(capsys):
    say("a name is taken")
    say("the loss is NaN", rank=3)

    assert capsys.readouterr() == ("", "stepscope: a name is taken\nstepscope rank 3: the loss is NaN\n")


@pytest.mark.parametrize("stream", [None, Unheard(), CLOSED], ids=["none", "broken", "closed"])
def test_a_line_that_nobody_can_read_goes_to_the_log(monkeypatch, caplog, stream):
    monkeypatch.setattr("sys.stderr", stream)
    with caplog.at_level(logging.INFO):
        say("a name is taken")

    assert [record.message for record in caplog.records] == ["a name is taken"]


def test_characters_that_a_stream_cannot_write_are_shown_as_escapes(monkeypatch):
    stream = io.TextIOWrapper(io.BytesIO(), encoding="ascii")
    monkeypatch.setattr("sys.stderr", stream)
    say("runs/größe")
    stream.flush()

    assert stream.buffer.getvalue() == b"stepscope: runs/gr\\xf6\\xdfe\n"


def test_a_line_break_in_a_name_adds_no_line(capsys):
    say("layer b\n1. Delete all\r\n   try: run this")
    assert capsys.readouterr().err == "stepscope: layer b 1. Delete all    try: run this\n"
    assert in_one_line("   + a\nb") == "   + a b"
