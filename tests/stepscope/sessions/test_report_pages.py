"""A running session's report as a page."""

import torch

import stepscope


def test_a_sessions_report_is_a_page_with_its_curves():
    model = torch.nn.Linear(4, 2)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with stepscope.watch(model, optimizer) as session:
        for _ in range(12):
            optimizer.zero_grad()
            model(torch.randn(8, 4)).square().mean().backward()
            optimizer.step()
    report = session.report()

    page = report.to_html("my run")

    assert "<h1>my run</h1>" in page and 'aria-label="total_norm/gradients' in page
    assert str(report.verdict)[:20] in report.to_markdown()
    assert "my run" in report.to_markdown("my run")
