"""What the tools of a session know stands in its report: where the time goes, and what the model is made of."""

import json
import re

import torch

import stepscope
from debuggers import ModelPerformanceMetrics


def train(prepare, steps=12, **options):
    torch.manual_seed(0)
    model = torch.nn.Sequential(
        torch.nn.Linear(64, 256), torch.nn.ReLU(), torch.nn.Linear(256, 8), torch.nn.Linear(8, 64)
    )
    model[3].bias.requires_grad_(False)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    with stepscope.watch(model, optimizer, **options) as session:
        prepare(session)
        for _ in range(steps):
            optimizer.zero_grad()
            model(torch.randn(16, 64)).square().mean().backward()
            optimizer.step()
    return session.report()


def test_a_report_has_the_architecture_and_the_wait_for_data_unasked():
    report = train(lambda session: None)

    text = report.summary()
    assert "Architecture: 19,272 parameters, 19,208 of them trained, 0.0735 MiB, 4 layers, nested 1 deep.\n" in text
    assert "Architecture: Most parameters: 0 (86%), 2 (11%), 3 (3%).\n" in text
    assert "Architecture: Narrower than a quarter of both neighbours: 2.\n" in text
    assert text.count("Time: ") == 1 and "passes before its forward pass, for example in loading data.\n" in text
    assert json.loads(report.to_json())["tools"]["architecture"]["total_parameters"] == 19_272


def test_what_the_loop_had_measured_is_in_the_report_its_page_and_its_json():
    def prepare(session):
        session.profiler.measure_steps(5)
        for step in range(3):
            with session.profiler.timer(f"<load {step}>"):
                pass
        for step in range(10):
            metrics = ModelPerformanceMetrics(training_step=step, loss=1.0 + step % 2)
            session.model_diagnostics.record_performance(metrics)

    report = train(prepare)

    text, page, known = report.summary(), report.to_html(), json.loads(report.to_json())["tools"]
    times = r"Time: 0 \(Linear\): \d+% of the layers' time, forward \S+ ms, backward \S+ ms a call; 0.0156 MiB."
    assert re.search(times, text)
    assert "Time: Timer '<load 1>': " in text
    assert "Recorded metrics: health score 0." in text and "Recorded metrics: the loss jumps by " in text
    assert page.index("Where the time goes") < page.index("&lt;load 1&gt;") < page.index("<h2>Architecture</h2>")
    assert "Where the time goes" in report.to_markdown()
    assert {layer["count"] for layer in known["layers"]} == {5} and known["layers"][0]["total_s"] > 0
    assert set(known["timers"]) == {"<load 0>", "<load 1>", "<load 2>"}


def test_a_session_without_a_model_or_disabled_has_none_of_it(monkeypatch):
    with stepscope.debug_session() as session:
        session.tensor_inspector.inspect_tensor([1.0], "one")
    assert "Architecture" not in session.report().summary() and "Time: " not in session.report().summary()

    monkeypatch.setenv("STEPSCOPE_DISABLED", "1")
    assert train(lambda session: session.profiler.measure_steps(2)).tools.layers == ()


def test_the_page_is_written_beside_the_other_reports(tmp_path):
    with stepscope.open_run(tmp_path / "digits", sinks=[]) as run:
        train(lambda session: None, run=run, output_dir=tmp_path / "out")

    page = (tmp_path / "out" / "report.html").read_text(encoding="utf-8")
    assert "<h1>digits</h1>" in page and "Where the time goes" in page
    assert {path.name for path in (tmp_path / "out").iterdir()} == {"report.html", "report.json", "report.txt"}
