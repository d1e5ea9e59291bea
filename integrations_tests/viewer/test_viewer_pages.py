"""Each view of the viewer's page: nothing serious for axe in both colour schemes, no complaint, no scroll bar below."""

import io

import numpy as np
import pytest
import torch
from PIL import Image
from playwright.sync_api import expect
from viewer_pages import NEEDS_THE_PAGE, serious_findings, viewer, viewer_page
from waiting import until

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
    with viewer(folder) as url, viewer_page() as (page, complaints):
        page.goto(url)
        keys = [run["key"] for run in page.request.get(f"{url}api/runs").json()["runs"]]
        page.goto(f"{url}#/charts?runs={','.join(keys)}")
        expect(page.locator("nav a").first).to_be_visible()
        found = page.locator("nav a").evaluate_all("links => links.map((link) => link.href)")
        yield page, complaints, found
        page.goto("about:blank")


@pytest.mark.parametrize("scheme", ["light", pytest.param("dark", marks=pytest.mark.slow)])
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


@pytest.mark.parametrize("width", [900, pytest.param(1280, marks=pytest.mark.slow)])
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


@pytest.mark.parametrize(("width", "is_below"), [(390, True), (640, True), (641, False)])
def test_on_a_phone_a_text_stands_below_the_names_with_the_whole_width(views, width, is_below):
    page, complaints, addresses = views
    page.set_viewport_size({"width": width, "height": 844})
    page.goto(next(address for address in addresses if "#/texts" in address))
    names, text = page.locator(".name-list"), page.locator(".detail")
    expect(text).to_contain_text("steady")
    above, below = names.bounding_box(), text.bounding_box()
    assert (below["y"] >= above["y"] + above["height"]) is is_below
    assert (below["width"] > 0.9 * width) is is_below
    expect(names.get_by_role("option").first).to_be_visible()
    assert not complaints


FOCUSED = """() => {
  const one = document.activeElement;
  if (!one || one === document.body) return null;
  const { left, right, top, bottom } = one.getBoundingClientRect();
  const style = getComputedStyle(one);
  const labels = [...(one.labels ?? [])].map((label) => label.textContent);
  const said = [one.getAttribute("aria-label"), one.textContent, ...labels];
  const text = said.map((words) => (words ?? "").trim()).find((words) => words) ?? "";
  return {
    tag: one.tagName, text: text.slice(0, 60),
    outline: style.outlineStyle !== "none" && parseFloat(style.outlineWidth) > 0,
    seen: right > 0 && left < innerWidth && bottom > 0 && top < innerHeight,
    place: [one.tagName, [...document.querySelectorAll("*")].indexOf(one)].join(" "),
  };
}"""


def walk(page, most):
    """What Tab reaches one after the other, until it leaves the page or comes round."""
    found = {}
    for _ in range(most):
        page.keyboard.press("Tab")
        now = page.evaluate(FOCUSED)
        if now is None or now["place"] in found:
            break
        found[now["place"]] = now
    return list(found.values())


def settled_walk(page, *, has_fields):
    """A walk that is like the one before it: a view gets and loses fields while its answers come."""
    walks = [[]]

    def is_settled():
        page.locator("main").focus()
        walks.append(walk(page, 25))
        before, now = ([one["place"] for one in found] for found in walks[-2:])
        return before == now and (len(now) > 1 or not has_fields)

    until(is_settled)
    return walks[-1]


@pytest.mark.slow
def test_the_keyboard_alone_goes_through_all_views(views):
    page, complaints, addresses = views
    complaints.clear()
    page.set_viewport_size({"width": 1280, "height": 800})
    page.goto("about:blank")
    page.goto(addresses[0])
    expect(page.locator(".view > *").first).to_be_visible()
    page.keyboard.press("Tab")
    assert page.evaluate(FOCUSED)["text"] == "Skip to the view"
    page.keyboard.press("Enter")
    expect(page.locator("main")).to_be_focused()
    page.keyboard.press("?")
    keys = page.locator("dialog.keys kbd").all_inner_texts()
    page.keyboard.press("Escape")
    expect(page.locator("dialog.keys")).to_be_hidden()
    shown = {}
    for key in (key for key in keys if key.startswith("g ")):
        page.keyboard.press("Escape")  # leaves the field
        for letter in key.split():
            page.keyboard.press(letter)
        view = page.locator("nav a[aria-current]").inner_text()
        expect(page.locator("main")).to_have_attribute("aria-label", view)
        page.locator(".view > *").first.wait_for(state="attached")
        page.wait_for_load_state("networkidle")
        if view == "Datapoints":  # its fields go when it is known that there are none
            expect(page.get_by_text("have no pages of debug outputs")).to_be_visible()
        shown[view] = settled_walk(page, has_fields=view != "Datapoints")  # these runs have none
    assert list(shown) == page.locator("nav a").all_inner_texts()
    reached = [(view, one) for view, found in shown.items() for one in found]
    assert [one for one in reached if not (one[1]["seen"] and one[1]["outline"] and one[1]["text"])] == []
    assert len(shown["Datapoints"]) < 2
    assert not complaints


@pytest.mark.slow
@pytest.mark.parametrize(
    ("view", "control", "keys", "shows"),
    [
        ("charts", ".board .card", "+", "button:has-text('Whole range'):visible"),
        ("histograms", "label.slide input", "ArrowLeft", ".card:has-text('step 19')"),
        ("compare", ".runs-table thead button", "Enter", "th[aria-sort=ascending]"),
        ("texts", "[role=tab] >> nth=0", "ArrowRight", "[role=tab][aria-selected=true]:has-text('Tables')"),
    ],
)
def test_keys_do_in_a_view_what_the_mouse_does(views, view, control, keys, shows):
    page, complaints, addresses = views
    complaints.clear()
    page.goto("about:blank")
    page.goto(next(address for address in addresses if f"#/{view}" in address))
    page.locator(control).first.wait_for(state="visible")
    page.wait_for_load_state("networkidle")
    page.locator(control).first.focus()
    page.keyboard.press(keys)
    expect(page.locator(shows).first).to_be_visible()
    assert not complaints


def brightness(page):
    return page.evaluate(
        "getComputedStyle(document.body).backgroundColor.match(/\\d+/g).slice(0, 3).reduce((a, b) => a + +b, 0)"
    )


def test_the_page_follows_the_system_unless_the_reader_chose(views):
    page, complaints, addresses = views
    complaints.clear()
    page.set_viewport_size({"width": 1280, "height": 800})
    page.emulate_media(color_scheme="light")
    page.goto("about:blank")
    page.goto(addresses[1])
    root = page.locator("html")
    expect(root).to_have_attribute("data-scheme", "light")
    assert brightness(page) > 700
    page.emulate_media(color_scheme="dark")
    expect(root).to_have_attribute("data-scheme", "dark")
    assert brightness(page) < 100
    page.keyboard.press("t")
    expect(root).to_have_attribute("data-scheme", "light")
    page.emulate_media(color_scheme="light")
    page.emulate_media(color_scheme="dark")
    expect(root).to_have_attribute("data-scheme", "light")
    page.reload()
    expect(root).to_have_attribute("data-scheme", "light")
    page.evaluate("localStorage.clear()")
    page.reload()
    expect(root).to_have_attribute("data-scheme", "dark")
    assert not complaints


@pytest.mark.slow
def test_nothing_white_flashes_in_the_dark(views):
    page, complaints, addresses = views
    page.emulate_media(color_scheme="dark")
    page.goto("about:blank")
    held = []

    def hold(route):  # the script is late
        held.append(route)

    page.route("**/page.js", hold)
    page.goto(addresses[1], wait_until="commit")
    expect(page.locator("link[rel=stylesheet]")).to_have_count(1)
    first = page.screenshot(type="png")
    held[0].continue_()
    page.unroute("**/page.js")
    assert max(np.asarray(Image.open(io.BytesIO(first)).convert("L")).flat) < 100
    expect(page.locator("nav a").first).to_be_visible()
    assert not complaints
