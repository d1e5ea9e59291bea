"""What notebooks show of runs, records, sessions and reports."""

import html
import json
import re
import urllib.request

import pytest
import torch

import stepscope

HOSTILE = "</iframe><script>alert(1)</script>"


@pytest.fixture
def folder(tmp_path):
    with stepscope.open_run(tmp_path / "run", sinks=[], name=HOSTILE) as run:
        for step in range(30):
            run.scalar("loss", 1 / (step + 1), step=step)
            run.scalar(HOSTILE, 1.0, step=step)
    return tmp_path / "run"


def page_in(frame):
    """The page inside a frame; nothing but the frame is outside of it."""
    shown = r'class="stepscope" width="100%" height="\d+" style="border: 0"'
    found = re.fullmatch(rf'<style>[^<]*</style><iframe sandbox srcdoc="([^"]*)" {shown}></iframe>', frame)
    assert found
    return html.unescape(found[1])


def test_a_record_is_a_card_with_its_charts_and_without_scripts(folder):
    with stepscope.read_run(folder) as record:
        page = page_in(record._repr_html_())
    assert "<svg" in page
    assert "<script" not in page
    assert html.escape(HOSTILE) in page
    assert "60 scalars" in page


def test_a_live_run_shows_itself(tmp_path):
    with stepscope.open_run(tmp_path / "run", sinks=[]) as run:
        run.scalar("loss", 1.0, step=0)
        run.flush_store()
        assert "running" in page_in(run._repr_html_())
    assert "finished" in page_in(run._repr_html_())


def test_a_run_that_was_deleted_is_shown_as_text(folder):
    with stepscope.read_run(folder) as record:
        (folder / "run.json").unlink()
        assert record._repr_html_() is None
        assert repr(record).startswith("<RunRecord")


def test_a_session_shows_its_report():
    model = torch.nn.Linear(2, 1)
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    with stepscope.DebugSession(model, optimizer) as session:
        loss = model(torch.ones(4, 2)).mean()
        loss.backward()
        session.step(loss)
        optimizer.step()
        assert "Verdict" in page_in(session._repr_html_())
    assert "<script" not in page_in(session.report()._repr_html_())


def test_the_page_is_served_by_this_process_once(folder, tmp_path):
    with stepscope.open_run(tmp_path / "other", sinks=[]) as run:
        second = run.view(height=300)
    with stepscope.read_run(folder) as record:
        first = record.view()
    assert first.url.split("#")[0] == second.url.split("#")[0]
    assert first.url.startswith("http://127.0.0.1:")
    assert 'height="300"' in second._repr_html_()
    assert first.url in repr(first)
    key = first.url.partition("runs=")[2]
    with urllib.request.urlopen(f"{first.url.split('#')[0]}api/run?run={key}", timeout=30) as answer:
        assert json.load(answer)["name"] == HOSTILE


@pytest.mark.slow
def test_a_kernel_sends_html_with_text_beside_it(folder, tmp_path):
    nbformat = pytest.importorskip("nbformat")
    nbclient = pytest.importorskip("nbclient")
    pytest.importorskip("ipykernel")
    cells = [f"import stepscope; record = stepscope.read_run({str(folder)!r}); record", "record.view()"]
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell) for cell in cells])
    nbclient.NotebookClient(notebook, timeout=60, kernel_name="python3").execute()
    for cell, expected in zip(notebook.cells, ("<iframe sandbox ", '<iframe src="http://127.0.0.1:'), strict=True):
        [output] = cell.outputs
        assert expected in output.data["text/html"]
        assert output.data["text/plain"]
