"""What a person sees and does in the views Compare and Run: real runs, a real server, a real browser."""

import re
import threading

import pytest
from playwright.sync_api import expect
from tracker_adapters.testing import MemorySink
from viewer_pages import NEEDS_THE_PAGE, viewer

import stepscope

pytestmark = NEEDS_THE_PAGE
RATES = {"slow": 0.0005, "middle": 0.01, "fast": 0.1}
PARTS_AT = 20


def record(folder, rate):
    with stepscope.open_run(folder, sinks=[], config={"optimizer": {"lr": rate, "name": "SGD"}, "seed": 0}) as run:
        for step in range(40):
            run.scalar("train/loss", 1 / (step + 1) + (rate * step if step >= PARTS_AT else 0), step=step)
            run.scalar("same", 1.0, step=step)


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs")
    for name, rate in RATES.items():
        record(folder / name, rate)
    about = folder / "about"
    for attempt in range(2):
        options = {
            "sinks": ["local"],
            "delivery": "thread",
            "config": {"lr": 0.5, "api_key": "hush"},
            "tags": ["night"],
        }
        with stepscope.open_run(about, resume=attempt > 0, **options) as run:
            for step in range(10):
                run.scalar("loss", 1.0, step=attempt * 10 + step)
            run.describe(environment={"packages": "numpy==2.1\ntorch==2.7"})
    with stepscope.open_run(about, sinks=[], rank=1) as run:
        run.scalar("loss", 2.0, step=0)
    return folder


@pytest.fixture(scope="module")
def served(runs, browser):
    page, _ = browser
    with viewer(runs) as url:
        listed = page.request.get(f"{url}api/runs").json()["runs"]
        yield url, {run["name"]: run["key"] for run in listed}
        page.goto("about:blank")


@pytest.fixture
def compare(served):
    """The address of Compare on the three runs of the sweep."""
    url, keys = served
    return f"{url}#/compare?runs={','.join(keys[name] for name in RATES)}"


def names(page):
    return page.locator(".runs-table tbody th").all_inner_texts()


def show(page, address):
    page.goto(address)
    expect(page.locator(".runs-table tbody tr").first).to_be_visible()


@pytest.mark.slow
def test_runs_of_one_name_are_told_apart(page, tmp_path):
    for rate in (0.1, 0.2):
        record(tmp_path / f"rate_{rate}" / "run", rate)
    with viewer(*(tmp_path / f"rate_{rate}" / "run" for rate in (0.1, 0.2))) as url:
        show(page, f"{url}#/compare")
        expect(page.locator(".runs-table tbody tr")).to_have_count(2)
        assert sorted(name.strip() for name in names(page)) == ["rate_0.1/run", "rate_0.2/run"]
        expect(page.get_by_role("button", name=re.compile("of 2 runs"))).to_contain_text("rate_0.2/run")
        page.goto("about:blank")


def test_a_column_sorts_both_ways_and_back_goes_back(page, compare):
    show(page, compare)
    expect(page.locator(".runs-table tbody tr")).to_have_count(3)
    assert [name.strip() for name in names(page)] == list(RATES)
    head = page.get_by_role("button", name="optimizer.lr")
    head.click()
    expect(page.locator("th[aria-sort=ascending]")).to_contain_text("optimizer.lr")
    assert [name.strip() for name in names(page)] == ["slow", "middle", "fast"]
    head.click()
    expect(page.locator("th[aria-sort=descending]")).to_contain_text("optimizer.lr")
    assert [name.strip() for name in names(page)] == ["fast", "middle", "slow"]
    page.go_back()
    expect(page.locator("th[aria-sort=ascending]")).to_contain_text("optimizer.lr")
    assert [name.strip() for name in names(page)] == ["slow", "middle", "fast"]


def test_conditions_filter_and_a_link_shows_the_same(page, compare):
    show(page, compare)
    page.keyboard.press("/")
    page.keyboard.type("lr >= 0.01, status = finished")
    expect(page.locator(".runs-table tbody tr")).to_have_count(2)
    page.get_by_role("button", name="train/loss").click()
    page.get_by_role("checkbox", name="columns that are equal").check()
    expect(page.get_by_role("button", name="seed")).to_be_visible()
    link = page.url
    page.goto("about:blank")
    show(page, link)
    expect(page.locator(".runs-table tbody tr")).to_have_count(2)
    expect(page.get_by_role("searchbox", name="filter runs")).to_have_value("lr >= 0.01, status = finished")
    expect(page.locator("th[aria-sort=ascending]")).to_contain_text("train/loss")
    expect(page.get_by_role("button", name="seed")).to_be_visible()
    page.get_by_role("searchbox", name="filter runs").fill("width > 3")
    expect(page.get_by_role("status").filter(has_text="of 3")).to_contain_text("no column is called width")


def test_an_axis_keeps_the_runs_that_are_dragged_over(page, compare):
    show(page, compare)
    lines = page.locator("svg.parallel polyline")
    expect(lines).to_have_count(3)
    axis = page.locator("svg.parallel .axis", has_text="optimizer.lr").locator(".grip")
    axis.hover()  # scrolls to it, and again where it is drawn anew meanwhile
    box = axis.bounding_box()
    x = box["x"] + box["width"] / 2
    page.mouse.move(x, box["y"] + 2)
    page.mouse.down()
    page.mouse.move(x, box["y"] + box["height"] * 0.6, steps=3)
    page.mouse.up()
    expect(page.locator(".runs-table tbody tr")).to_have_count(2)
    assert [name.strip() for name in names(page)] == ["middle", "fast"]
    expect(page.locator("svg.parallel polyline.away")).to_have_count(1)
    page.locator("svg.parallel .axis", has_text="optimizer.lr").locator(".grip").click(position={"x": 14, "y": 20})
    expect(page.locator(".runs-table tbody tr")).to_have_count(3)


@pytest.mark.slow
def test_no_label_of_an_axis_lies_over_another(page, tmp_path):
    for place, size in enumerate((1.0234e-5, 1.0)):
        config = {f"setting_{number}": size * (number + 1.2345) for number in range(10)}
        with stepscope.open_run(tmp_path / f"run_{place}", sinks=[], config=config) as run:
            run.scalar("loss", size, step=0)
    overlaps = """texts => {
        const boxes = texts.map((text) => text.getBoundingClientRect());
        const meets = (a, b) => a.left < b.right && b.left < a.right && a.top < b.bottom && b.top < a.bottom;
        return boxes.filter((one, place) => boxes.some((other, at) => at > place && meets(one, other))).length;
    }"""
    with viewer(tmp_path) as url:
        keys = [run["key"] for run in page.request.get(f"{url}api/runs").json()["runs"]]
        for width, axes in ((900, 8), (1280, 9)):
            page.set_viewport_size({"width": width, "height": 800})
            show(page, f"{url}#/compare?runs={','.join(keys)}")
            page.reload()
            expect(page.locator("svg.parallel .axis")).to_have_count(axes)
            assert page.locator("svg.parallel text").evaluate_all(overlaps) == 0
        page.goto("about:blank")


@pytest.mark.slow
def test_a_run_that_cannot_be_read_is_named_and_not_waited_for(browser, tmp_path):
    page, complaints = browser
    names = [f"{name}-{'x' * 40}" for name in ("sound", "other", "broken")]
    for name in names:
        record(tmp_path / name, 0.1)
    (segment,) = (tmp_path / names[2] / "store").rglob("segment*.db")
    segment.write_bytes(segment.read_bytes()[: segment.stat().st_size // 2])
    with viewer(tmp_path) as url:
        keys = [run["key"] for run in page.request.get(f"{url}api/runs").json()["runs"]]
        page.goto(f"{url}#/compare?runs={','.join(keys)}&equal=1")
        expect(page.get_by_role("status").filter(has_text="of 3")).to_have_text("2 runs of 3, 1 cannot be read")
        expect(page.get_by_role("list", name="runs that cannot be read")).to_contain_text(
            "segment_000000.db is damaged"
        )
        # Where it is one of the two that are compared, too.
        expect(page.locator("p.unreadable")).to_contain_text("segment_000000.db is damaged")
        expect(page.get_by_text("Comparing…")).to_have_count(0)
        # What no session has looked at is not said to have no causes.
        expect(page.locator(".runs-table tbody td", has_text="not observed")).to_have_count(2)
        # The button counts what it has no room for.
        chips = page.locator(".chooser .chips")
        expect(page.locator(".chooser")).to_contain_text(f"+{3 - chips.locator('.chip').count()}")
        assert chips.evaluate("chips => chips.scrollWidth <= chips.clientWidth")
        page.goto("about:blank")
    complaints.clear()


def test_it_says_where_two_runs_part_and_leads_to_the_chart(page, compare, served):
    _, keys = served
    show(page, compare)
    page.get_by_role("combobox", name="second run").select_option(label="fast")
    parting = page.get_by_role("region", name="where two runs part")
    expect(parting).to_contain_text("optimizer.lr")
    row = parting.locator("tbody tr", has_text="train/loss")
    expect(row).to_contain_text(str(PARTS_AT))
    expect(parting.locator("tbody tr", has_text="same")).to_have_count(0)
    row.get_by_role("link").click()
    page.wait_for_url(re.compile(f"#/charts.runs={keys['slow']},{keys['fast']}&search=train(/|%2F)loss"))
    expect(page.locator('.board .card[data-name="train/loss"] canvas')).to_have_count(1)
    page.go_back()
    expect(page.get_by_role("combobox", name="second run")).to_have_value(keys["fast"])
    expect(row).to_be_visible()


def test_run_shows_what_the_run_is_and_what_became_of_it(page, served, runs):
    url, keys = served
    page.goto(f"{url}#/run?runs={keys['about']},{keys['slow']}")
    card = page.get_by_role("article", name="run about")
    titles = ("Run", "Damage", "Configuration", "Environment", "Delivery", "Attempts", "Ranks", "What is recorded")
    headings = {name: page.get_by_role("heading", name=name, exact=True) for name in titles}
    sections = {name: card.locator("section", has=heading) for name, heading in headings.items()}
    for expected in (str(runs / "about"), "finished", "night", re.compile(r"store \d")):
        expect(sections["Run"]).to_contain_text(expected)
    expect(sections["Damage"]).to_contain_text("None found.")
    expect(sections["Configuration"]).to_contain_text("lr")
    expect(sections["Configuration"]).to_contain_text("***")
    expect(page.locator("body")).not_to_contain_text("hush")
    expect(sections["Environment"]).to_contain_text("python")
    packages = sections["Environment"].locator("details", has_text="2 entries")
    expect(packages.get_by_text("torch==2.7")).to_be_hidden()
    packages.locator("summary").click()
    expect(packages.get_by_text("torch==2.7")).to_be_visible()
    delivered = sections["Delivery"].get_by_role("row", name=re.compile("local"))
    expect(delivered).to_contain_text("20")
    expect(delivered).to_contain_text("done")
    attempts = sections["Attempts"].locator("tbody tr")
    expect(attempts).to_have_count(3)
    expect(attempts.nth(0)).to_contain_text("followed by another")
    expect(attempts.nth(1)).to_contain_text("finished")
    expect(sections["Ranks"].locator("tbody tr")).to_have_count(2)
    expect(sections["What is recorded"]).to_contain_text("scalar")
    expect(page.get_by_role("article", name="run slow")).to_contain_text("the run has no sinks")


class GatedSink(MemorySink):
    """A tracker that takes nothing until it is told to."""

    def __init__(self):
        super().__init__()
        self.opened = threading.Event()

    def write(self, batch):
        assert self.opened.wait(60)
        return super().write(batch)


@pytest.mark.slow
def test_run_shows_how_a_delivery_goes_on_when_nothing_is_recorded_any_more(page, tmp_path):
    sink = GatedSink()
    with stepscope.open_run(tmp_path / "delivering", sinks=[sink], delivery="thread") as run:
        for step in range(7):
            run.scalar("loss", 1.0, step=step)
        run.flush_store()
        with viewer(tmp_path) as url:
            page.goto(f"{url}#/run")
            delivered = page.locator("section", has=page.get_by_role("heading", name="Delivery")).locator("tbody td")
            expect(delivered.nth(3)).to_have_text("7")
            sink.opened.set()
            expect(delivered.nth(2)).to_have_text("7")
            expect(delivered.nth(3)).to_have_text("0")
            page.goto("about:blank")
