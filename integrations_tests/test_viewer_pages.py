"""Each view of the viewer's page: nothing serious for axe in both colour schemes, no complaint, no scroll bar below."""

import numpy as np
import pytest
import torch
from playwright.sync_api import expect
from viewer_pages import NEEDS_THE_PAGE, serious_findings, viewer, viewer_page

import stepscope

pytestmark = NEEDS_THE_PAGE


def train(folder, *, rate):
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.ReLU(), torch.nn.Linear(16, 4))
    optimizer = torch.optim.SGD(model.parameters(), lr=rate)
    with (
        stepscope.open_run(folder, sinks=[], config={"lr": rate, "model": {"width": 16}}) as run,
        stepscope.watch(model, optimizer, run=run),
    ):
        for step in range(30):
            optimizer.zero_grad()
            inputs = torch.randn(16, 8)
            loss = torch.nn.functional.cross_entropy(model(inputs), inputs[:, :4].argmax(1))
            loss.backward()
            optimizer.step()
            run.scalar("train/loss", loss.item(), step=step)
            run.histogram("logits", np.random.default_rng(step).normal(size=200), step=step)
        run.image("wrong", np.random.default_rng(0).random((16, 16, 3)), layout="HWC", value_range=(0, 1), step=10)
        run.text("note", "# Title\n\n- <b>one</b>\n", step=10)
        run.table("worst", ["index", "loss"], [[3, 1.5]], step=10)
        run.alert("note", "look at step 3", step=3)


@pytest.fixture(scope="module")
def views(tmp_path_factory):
    """The page on two runs, and the addresses of its views."""
    folder = tmp_path_factory.mktemp("runs")
    train(folder / "steady", rate=0.1)
    train(folder / "wild", rate=3.0)
    with viewer(folder) as url, viewer_page(tmp_path_factory.mktemp("browser")) as (page, complaints):
        page.goto(url)
        keys = [run["key"] for run in page.request.get(f"{url}api/runs").json()["runs"]]
        page.goto(f"{url}#/charts?runs={','.join(keys)}")
        expect(page.locator("nav a").first).to_be_visible()
        found = page.locator("nav a").evaluate_all("links => links.map((link) => link.href)")
        yield page, complaints, found
        page.goto("about:blank")


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing_serious_in_any_view(views, scheme):
    page, complaints, addresses = views
    page.emulate_media(color_scheme=scheme)
    found = {}
    for address in addresses:
        page.goto(address)
        page.locator(".view > *").first.wait_for(state="attached")
        page.wait_for_load_state("networkidle")
        if serious := serious_findings(page):
            found[address.split("#")[1].split("?")[0]] = serious
    assert not found
    assert not complaints


@pytest.mark.parametrize("width", [900, 1280])
def test_each_view_fits_a_laptop(views, width):
    page, complaints, addresses = views
    page.set_viewport_size({"width": width, "height": 800})
    too_wide = []
    for address in addresses:
        page.goto(address)
        page.locator(".view > *").first.wait_for(state="attached")
        page.wait_for_load_state("networkidle")
        if page.evaluate("document.documentElement.scrollWidth > innerWidth"):
            too_wide.append(address.split("#")[1])
    assert not too_wide
    assert not complaints
