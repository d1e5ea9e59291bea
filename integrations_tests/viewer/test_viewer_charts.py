"""What a person sees and does in the viewer's charts: real runs, a real server, a real browser."""

import csv
import itertools
import math
import re
import shutil
import time
from contextlib import ExitStack, contextmanager
from itertools import pairwise

import pytest
from playwright.sync_api import expect
from viewer_pages import NEEDS_THE_PAGE, serious_findings, viewer
from waiting import until

import stepscope

pytestmark = NEEDS_THE_PAGE
HOSTILE = "<img src=x onerror=alert(1)>/\"&'"
LONG = "layers." + "x" * 993
LIVE_WITHIN_S = 2.0


def record(folder, *, steps=300, names=()):
    with stepscope.open_run(folder, sinks=[]) as run:
        for step in range(steps):
            loss = {50: math.nan, 60: math.inf}.get(step, 1 / (step + 1))
            run.log({"train/loss": loss, "train/accuracy": step / steps, "lr": 0.1}, step=step)
            run.scalar("clipped_norm", 1 - step * 1e-9, step=step)
        for name in (*names, HOSTILE, LONG):
            run.scalar(name, 1.0, step=0)
        run.alert("nan", "train/loss is NaN", step=50, level="error")


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs")
    record(folder / "first")
    record(folder / "second", steps=200)
    return folder


@pytest.fixture(scope="module")
def served(runs):
    with viewer(runs) as url:
        yield url


@pytest.fixture
def page(browser):
    page, complaints = browser
    page.goto("about:blank")
    complaints.clear()
    yield page
    assert not complaints


@contextmanager
def viewer_of(page, *folders):
    """A viewer that the page leaves before it ends: it asks for what is new all the time."""
    with viewer(*folders) as url:
        yield url
        page.goto("about:blank")


def chart(page, name):
    return page.locator(f'.board .card[data-name="{name}"]')


def keys_of(page, url):
    listed = page.request.get(f"{url}api/runs").json()["runs"]
    return {run["name"]: run["key"] for run in listed}


def drawn(page, name):
    expect(chart(page, name).locator("canvas")).to_have_count(1)
    expect(chart(page, name).locator(".legend")).to_contain_text("step")
    return chart(page, name)


def test_the_runs_are_asked_for_once_and_before_the_script_is_there(page, served):
    asked = []
    page.on("request", lambda request: asked.append(request.url.removeprefix(served)))
    with page.expect_request("**/api/runs"):
        page.route("**/page.js", lambda route: None)
        page.goto(f"{served}#/charts", wait_until="commit")
    page.unroute("**/page.js")
    page.goto("about:blank")
    asked.clear()
    page.goto(f"{served}#/charts")
    drawn(page, "train/loss")
    assert asked.count("api/runs") == 1


def test_values_that_hardly_differ_are_one_line(page, served):
    page.goto(f"{served}#/charts?search=clipped_norm")
    drawn(page, "clipped_norm")


@pytest.mark.slow
def test_what_the_machine_was_busy_with_is_over_time_and_stays_whole_where_steps_are_zoomed(page, tmp_path):
    with stepscope.open_run(tmp_path / "run", sinks=[]) as run:
        for step in range(300):
            run.scalar("loss", 1 / (step + 1), step=step)
        for second in (10, 20, 3600):
            run.scalar("system/cpu_percent", 50, step=second, time_ns=run.info.created_ns + second * 10**9)
    with viewer_of(page, tmp_path / "run") as url:
        page.goto(f"{url}#/charts?zoom=100,150")
        drawn(page, "loss")
        machine = chart(page, "system/cpu_percent")
        expect(machine.locator(".legend")).to_contain_text("1 h")
        machine.locator(".u-over").dblclick()
        machine.press("+")
        page.mouse.move(0, 0)
        expect(machine.locator(".legend")).to_contain_text("1 h")
        assert page.url.endswith("zoom=100,150")


def test_all_series_show_by_group_and_names_are_text(page, served):
    page.goto(f"{served}#/charts")
    drawn(page, "train/loss")
    groups = page.locator("h2.group").all_text_contents()
    assert [text.split()[1].rstrip("0123456789") for text in groups] == ["general", "<img", "train"]
    assert page.locator(".board img").count() == 0
    long = page.locator(f'.name[title="{LONG}"]')
    assert "…" in long.text_content()
    assert len(long.text_content()) < 50
    words = drawn(page, "train/loss").locator(".offscreen").text_content()
    assert "last 0.0033333, lowest 0.0033333, highest 1, up to step 299, 2 not finite" in words or "step 199" in words
    assert "1 alerts about it" in words


@pytest.mark.slow
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing_serious(page, served, scheme):
    page.emulate_media(color_scheme=scheme)
    page.goto(f"{served}#/charts")
    drawn(page, "train/loss")
    assert serious_findings(page) == []
    page.keyboard.press("r")
    expect(page.locator(".runs li")).to_have_count(2)
    assert serious_findings(page) == []
    page.keyboard.press("Escape")
    chart(page, "train/loss").press("Enter")
    expect(page.locator("dialog.large canvas")).to_have_count(1)
    assert serious_findings(page) == []


def test_a_link_shows_the_same_and_back_goes_back(page, served):
    keys = keys_of(page, served)
    link = f"{served}#/charts?runs={keys['second']},{keys['first']}&search=loss&x=relative&smooth=0.6&log=1"
    page.goto(link)
    legend = drawn(page, "train/loss").locator(".legend")
    assert "second" in legend.text_content()
    assert "first" in legend.text_content()
    assert page.locator(".board .card").count() == 1
    assert page.locator(".toolbar output").text_content() == "0.60"
    expect(page.get_by_role("button", name="Time")).to_have_attribute("aria-pressed", "true")
    expect(page.get_by_role("button", name="Log y")).to_have_attribute("aria-pressed", "true")
    page.get_by_role("button", name="Clock").click()
    assert "x=wall" in page.url
    page.go_back()
    expect(page.get_by_role("button", name="Time")).to_have_attribute("aria-pressed", "true")
    page.reload()
    drawn(page, "train/loss")
    assert page.url == link


def test_a_selection_zooms_all_charts_and_asks_for_that_part(page, served):
    page.goto(f"{served}#/charts")
    over = drawn(page, "train/loss").locator(".u-over")
    over.scroll_into_view_if_needed()
    box = over.bounding_box()
    middle = box["y"] + box["height"] / 2
    page.mouse.move(box["x"] + box["width"] * 0.25, middle)
    page.mouse.down()
    page.mouse.move(box["x"] + box["width"] * 0.5, middle, steps=4)
    page.mouse.up()
    page.wait_for_url("**zoom=*")
    low, high = (float(part) for part in page.url.split("zoom=")[1].split("&")[0].split(","))
    assert low == pytest.approx(0.25 * 299, rel=0.1) or low == pytest.approx(0.25 * 199, rel=0.1)
    assert high == pytest.approx(2 * low, rel=0.1)
    page.mouse.move(box["x"] + box["width"] / 2, middle)
    centre = round((low + high) / 2)
    near = re.compile("|".join(f"step {step}" for step in (centre - 1, centre, centre + 1)))
    expect(drawn(page, "train/accuracy").locator(".legend")).to_contain_text(near)
    page.get_by_role("button", name="Whole range").click()
    expect(page.get_by_role("button", name="Whole range")).to_be_hidden()


def test_the_keyboard_reaches_everything(page, served):
    page.goto(f"{served}#/charts")
    drawn(page, "train/loss")
    page.keyboard.press("?")
    expect(page.locator("dialog.keys")).to_contain_text("search in the view")
    expect(page.locator("dialog.keys")).to_contain_text("pin, large")
    page.keyboard.press("Escape")
    page.keyboard.press("/")
    page.keyboard.type("/acc|LOSS$/")
    expect(page.locator(".board .card")).to_have_count(2)
    page.keyboard.press("Escape")
    drawn(page, "train/loss").focus()
    page.keyboard.press("+")
    expect(page.get_by_role("button", name="Whole range")).to_be_visible()
    page.keyboard.press("0")
    expect(page.get_by_role("button", name="Whole range")).to_be_hidden()
    page.keyboard.press("p")
    expect(page.locator("h2.group").first).to_contain_text("Pinned")
    chart(page, "train/loss").first.focus()
    page.keyboard.press("Enter")
    expect(page.locator("dialog.large")).to_be_visible()
    page.keyboard.press("Escape")
    expect(page.locator("dialog.large")).to_be_hidden()
    expect(page).not_to_have_url(re.compile("large"))


@pytest.mark.slow
def test_the_list_of_runs_keeps_the_focus_of_who_chooses_by_keyboard(page, served):
    page.goto(f"{served}#/charts")
    page.keyboard.press("r")
    for name in ("second", "first"):
        only = page.get_by_role("button", name=f"only {name}")
        only.focus()
        page.keyboard.press("Enter")
        expect(page.locator(".chooser .chip")).to_have_text(re.compile(name))
        expect(only).to_be_focused()
    page.keyboard.press("Escape")
    expect(page.get_by_role("dialog", name="runs")).to_be_hidden()
    expect(page.locator(".chooser")).to_be_focused()


def test_a_run_of_a_newer_version_is_named_where_there_is_no_other(page, tmp_path):
    record(tmp_path / "newer", steps=1)
    manifest = tmp_path / "newer" / "run.json"
    manifest.write_text(re.sub(r'"schema_version": ?\d+', '"schema_version": 999', manifest.read_text()))
    with viewer(tmp_path) as url:
        page.goto(url)
        expect(page.get_by_role("heading", name="No run can be read")).to_be_visible()
        expect(page.locator(".empty li")).to_contain_text("newer/run.json has schema version 999")
        page.goto("about:blank")


def test_a_chart_is_saved_with_all_its_points(page, served, tmp_path):
    keys = keys_of(page, served)
    page.goto(f"{served}#/charts?runs={keys['first']}&search=loss")
    card = drawn(page, "train/loss")
    with page.expect_download() as saving:
        card.get_by_role("button", name="save as CSV").click()
    saving.value.save_as(tmp_path / "loss.csv")
    rows = list(csv.DictReader((tmp_path / "loss.csv").open()))
    assert [float(row["value"]) for row in rows[:2]] == [1.0, 0.5]
    assert [row["value"] for row in rows if row["step"] in {"50", "60"}] == ["nan", "inf"]
    assert len(rows) == 300
    with page.expect_download() as saving:
        card.get_by_role("button", name="save as PNG").click()
    saving.value.save_as(tmp_path / "loss.png")
    assert (tmp_path / "loss.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.slow
def test_values_whose_range_overflows_are_drawn(page, tmp_path):
    with stepscope.open_run(tmp_path / "huge", sinks=[]) as run:
        for step in range(20):
            run.scalar("loss", (-1) ** step * 1e308, step=step)
    with viewer_of(page, tmp_path) as url:
        page.goto(url + "#/charts")
        canvas = drawn(page, "loss").locator("canvas")
        height = """canvas => {
            const { data, width } = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
            const rows = new Set();
            for (let at = 0; at < data.length; at += 4) {
                if (data[at + 3] > 200 && data[at + 2] - data[at] > 100) rows.add(Math.floor(at / 4 / width));
            }
            return rows.size / canvas.height;
        }"""
        until(lambda: canvas.evaluate(height) > 0.5)  # the line's blue goes from its lowest to its highest value


@pytest.mark.slow
def test_a_value_between_two_that_are_not_drawn_is_a_point(page, tmp_path):
    with stepscope.open_run(tmp_path / "run", sinks=[]) as run:
        for step in range(300):
            run.scalar("turns", (-1) ** step * (step + 1.0), step=step)
    colours = """canvas => {
        const { width, height } = canvas;
        const { data } = canvas.getContext("2d").getImageData(width / 4, height / 8, width / 2, height / 2);
        return data.filter((_, place) => place % 4 === 2 && data[place] > data[place - 2] + 40).length;
    }"""
    with viewer_of(page, tmp_path / "run") as url:
        page.goto(f"{url}#/charts?log=1")
        assert drawn(page, "turns").locator("canvas").evaluate(colours) > 100


@pytest.mark.slow
def test_no_label_of_an_axis_is_cut_off(page, tmp_path):
    with stepscope.open_run(tmp_path / "run", sinks=[]) as run:
        for part in range(5):
            run.scalar("tokens", part * 0.5e16, step=part * 500_000)
            run.scalar("nan", math.nan, step=(part + 2) * 500_000)
    room = """over => {
        const pen = document.createElement("canvas").getContext("2d");
        pen.font = "11px system-ui, sans-serif";
        const [inner, outer] = [over.getBoundingClientRect(), over.parentElement.getBoundingClientRect()];
        const wide = (text) => pen.measureText(text).width;
        const [left, right] = [inner.left - outer.left, outer.right - inner.right];
        return [left - wide("1.5e16"), left - wide("1,000,000") / 2, right - wide("2,000,000") / 2];
    }"""
    with viewer_of(page, tmp_path / "run") as url:
        page.goto(f"{url}#/charts")
        left, _, right = drawn(page, "tokens").locator(".u-over").evaluate(room)
        _, without_heights, _ = drawn(page, "nan").locator(".u-over").evaluate(room)
    assert left >= 15  # the ticks, and what is between them and the labels
    assert min(without_heights, right) >= 0


@pytest.mark.slow
def test_what_browsers_tell_of_observers_of_sizes_is_no_error(browser, tmp_path):
    page, _ = browser
    with stepscope.open_run(tmp_path / "run", sinks=[]) as run:
        run.scalar("loss", 1.0, step=0)
    told = """() => new Promise((resolve) => {
        addEventListener("error", ({ message }) => resolve(message), { once: true });
        const box = document.body.appendChild(document.createElement("div"));
        new ResizeObserver(() => (box.style.height = `${box.offsetHeight + 1}px`)).observe(box);
        setTimeout(() => resolve("nothing"), 10_000);
    })"""
    with viewer_of(page, tmp_path / "run") as url:
        page.goto(f"{url}#/charts")
        drawn(page, "loss")
        assert page.evaluate(told).startswith("ResizeObserver loop")
        page.evaluate("() => void setTimeout(() => { throw new Error('a defect'); })")
        expect(page.locator(".errors p")).to_have_count(1)
        expect(page.locator(".errors p")).to_contain_text("a defect")


@pytest.mark.slow
def test_a_single_value_has_its_time_on_the_clock_axis(page, tmp_path):
    with stepscope.open_run(tmp_path / "run", sinks=[]) as run:
        run.scalar("loss", 1.0, step=5)
    listen = """() => {
        const { clearRect, fillText } = CanvasRenderingContext2D.prototype;
        window.written = [];
        CanvasRenderingContext2D.prototype.clearRect = function (...where) {
            window.written = [];
            clearRect.call(this, ...where);
        };
        CanvasRenderingContext2D.prototype.fillText = function (text, ...where) {
            window.written.push(text);
            fillText.call(this, text, ...where);
        };
    }"""
    with viewer_of(page, tmp_path / "run") as url:
        page.goto(f"{url}#/charts")
        drawn(page, "loss")
        page.evaluate(listen)
        page.get_by_role("button", name="Clock", exact=True).click()
        expect(page).to_have_url(re.compile("x=wall"))
        until(lambda: any(re.fullmatch(r"\d\d:\d\d:\d\d\.\d+", text) for text in page.evaluate("() => window.written")))
        times = [text for text in page.evaluate("() => window.written") if ":" in text]
        assert len(set(times)) == len(times) > 1


@pytest.mark.slow
def test_a_long_series_is_saved_with_all_its_points_too(page, tmp_path):
    with stepscope.open_run(tmp_path / "long", sinks=[]) as run:
        for step in range(45_000):
            run.scalar("loss", step / 3, step=step)
    with viewer_of(page, tmp_path) as url:
        page.goto(url + "#/charts")
        card = drawn(page, "loss")
        with page.expect_download() as saving:
            card.get_by_role("button", name="save as CSV").click()
        assert saving.value.suggested_filename == "loss.csv"
        saving.value.save_as(tmp_path / "loss.csv")
    rows = list(csv.DictReader((tmp_path / "loss.csv").open()))
    assert [float(row["value"]) for row in rows] == [step / 3 for step in range(45_000)]


def test_new_points_show_while_the_training_writes(page, tmp_path):
    with stepscope.open_run(tmp_path / "live", sinks=[]) as run, viewer_of(page, tmp_path) as url:
        run.scalar("loss", 1.0, step=0)
        run.flush_store()
        page.goto(f"{url}#/charts")
        expect(drawn(page, "loss").locator(".legend")).to_contain_text("step 0")
        expect(page.locator(".chooser")).to_contain_text("live")
        steps = itertools.count(1)

        def shows_after():
            step = next(steps)
            run.scalar("loss", 1.0, step=step)
            run.flush_store()
            start = time.monotonic()
            expect(chart(page, "loss").locator(".legend")).to_contain_text(f"step {step}")
            return time.monotonic() - start

        # What else runs on the machine only adds to a round.
        until(lambda: max(shows_after() for _ in range(3)) < LIVE_WITHIN_S, 120)
        run.scalar("val/loss", 2.0, step=next(steps))
        expect(chart(page, "val/loss").locator("canvas")).to_have_count(1)


@pytest.mark.slow
def test_below_a_part_is_what_is_last_in_it_and_all_that_was_loaded_is_followed(page, tmp_path):
    with stepscope.open_run(tmp_path / "live", sinks=[]) as run, viewer_of(page, tmp_path / "live") as url:
        for step in range(20):
            run.scalar("loss", 1.0 / (step + 1), step=step)
        run.flush_store()
        page.goto(f"{url}#/charts?zoom=4,8")
        legend = drawn(page, "loss").locator(".legend")
        words = chart(page, "loss").locator(".offscreen")
        expect(legend).to_contain_text("0.11111step 8")
        expect(words).to_contain_text("last 0.11111, lowest 0.11111, highest 0.2, up to step 8")
        page.get_by_role("button", name="Whole range").click()
        expect(legend).to_contain_text("step 19")
        chart(page, "loss").press("+")
        run.scalar("loss", 0.5, step=50)
        run.flush_store()
        expect(legend).to_contain_text("step 14")
        with page.expect_response(re.compile("api/series")):
            run.scalar("loss", 0.5, step=51)
            run.flush_store()
        chart(page, "loss").press("0")
        expect(words).to_contain_text("up to step 51")


@pytest.mark.slow
def test_of_thousands_of_series_only_the_visible_exist(page, tmp_path):
    with stepscope.open_run(tmp_path / "many", sinks=[]) as run:
        for step in range(3):
            run.log({f"grad/layers.{layer}.norm": layer + step for layer in range(2000)}, step=step)
    with viewer_of(page, tmp_path) as url:
        page.goto(f"{url}#/charts")
        drawn(page, "grad/layers.0.norm")
        assert page.locator(".board .card").count() < 20
        page.keyboard.press("End")
        drawn(page, "grad/layers.1999.norm")
        assert page.locator(".board .card").count() < 20
        page.get_by_role("searchbox", name="search series").fill("layers.77.")
        drawn(page, "grad/layers.77.norm")
        expect(page.locator(".board .card")).to_have_count(1)


PICTURES = "cards => cards.map(card => card.querySelector('canvas').toDataURL())"
BELOW = "cards => cards.filter(card => card.getBoundingClientRect().top >= innerHeight).length"


FRAMES = """async () => {
  const field = document.querySelector('.toolbar input[type=search]');
  field.value = '';
  field.dispatchEvent(new Event('input'));
  const drawn = [];
  while (drawn.at(-1) !== 12 && drawn.length < 600) {
    await new Promise(requestAnimationFrame);
    drawn.push(document.querySelectorAll('.board .card:has(canvas)').length);
  }
  return drawn;
}"""


@pytest.mark.slow
def test_charts_that_come_back_are_drawn_one_a_frame(page, tmp_path):
    with stepscope.open_run(tmp_path / "run", sinks=[]) as run:
        for step in range(20):
            run.log({f"series {number:02d}": step % 7 for number in range(12)}, step=step)
    with viewer_of(page, tmp_path) as url:
        page.goto(f"{url}#/charts")
        cards = page.locator(".board .card")
        expect(cards).to_have_count(12)
        expect(page.locator(".board .card:has(canvas)")).to_have_count(12)
        page.wait_for_load_state("networkidle")
        page.get_by_role("searchbox", name="search series").fill("series 03")
        expect(cards).to_have_count(1)
        page.route("**/api/series*", lambda route: None)  # what is drawn again is known; no answer draws it
        drawn = page.evaluate(FRAMES)
        page.unroute("**/api/series*")
        assert drawn[-1] == 12
        assert max(after - before for before, after in pairwise([1, *drawn])) == 1


@pytest.mark.slow
def test_charts_below_the_screen_follow_those_on_it(page, tmp_path):
    with stepscope.open_run(tmp_path / "run", sinks=[]) as run:
        for step in range(20):
            run.log({f"series {number:02d}": 10.0 ** (step % 7) for number in range(40)}, step=step)
    with viewer_of(page, tmp_path) as url:
        page.goto(f"{url}#/charts")
        cards = page.locator(".board .card")
        drawn(page, "series 00")
        expect(page.locator(".board .card:not(:has(canvas))")).to_have_count(0)
        assert cards.evaluate_all(BELOW) > 0
        for change in (
            lambda: page.get_by_role("button", name="Log y").click(),
            lambda: page.get_by_role("slider", name="smoothing").fill("0.5"),
            lambda: chart(page, "series 00").press("+"),
        ):
            before = cards.evaluate_all(PICTURES)
            change()
            until(lambda before=before: not set(before) & set(cards.evaluate_all(PICTURES)))
        page.wait_for_url("**zoom=*")
        assert "smooth=0.5" in page.url and "log=1" in page.url
        page.get_by_role("searchbox", name="search series").fill("/series 3/")
        expect(cards).to_have_count(10)
        page.get_by_role("button", name="Log y").click()  # before what was typed has come into the address
        expect(cards).to_have_count(10)
        page.wait_for_url(re.compile(r"search=/series\+3/"))


@pytest.mark.slow
def test_a_chart_that_is_drawn_otherwise_looks_as_one_that_is_made_so(page, tmp_path):
    with stepscope.open_run(tmp_path / "run", sinks=[]) as run:
        for step in range(200):
            loss = {50: math.nan, 60: math.inf}.get(step, 1 / (step + 1))
            # Both kinds of axis show the second one from 40 to 100.
            run.log({"loss": loss, "near": 45 + step % 11 * 5}, step=step)
    with viewer_of(page, tmp_path) as url:
        page.emulate_media(color_scheme="light")
        page.goto(f"{url}#/charts")
        drawn(page, "loss")
        drawn(page, "near")
        cards = page.locator(".board .card")
        made = page.evaluate_handle("() => [...document.querySelectorAll('.board canvas')]")
        log, smoothing = page.get_by_role("button", name="Log y"), page.get_by_role("slider", name="smoothing")
        scheme = page.get_by_role("button", name="switch between light and dark")
        for change, address in (
            (log.click, "charts?log=1"),
            (lambda: smoothing.fill("0.9"), "charts?log=1&smooth=0.9"),
            (scheme.click, "charts?log=1&smooth=0.9"),
            (log.click, "charts?smooth=0.9"),
            (lambda: smoothing.fill("0"), "charts"),
            (scheme.click, "charts"),
        ):
            before = cards.evaluate_all(PICTURES)
            change()
            page.wait_for_url(lambda now, address=address: now.endswith(address))
            until(lambda before=before: not set(before) & set(cards.evaluate_all(PICTURES)))
            other = page.context.new_page()
            other.emulate_media(color_scheme="light")
            other.set_viewport_size(page.viewport_size)
            other.goto(page.url)
            expect(other.locator(".board .card:has(canvas)")).to_have_count(2)
            shown = cards.evaluate_all(PICTURES)
            until(lambda other=other, shown=shown: other.locator(".board .card").evaluate_all(PICTURES) == shown)
            other.close()
        assert made.evaluate("all => all.every(canvas => canvas.isConnected)")  # none was made anew


@pytest.mark.slow
def test_a_deleted_run_is_said_and_what_was_read_stays(browser, tmp_path):
    page, complaints = browser
    record(tmp_path / "gone", steps=20)
    with viewer(tmp_path) as url:
        page.goto(f"{url}#/charts")
        drawn(page, "train/loss")
        shutil.rmtree(tmp_path / "gone")
        expect(page.locator(".errors")).to_contain_text("gone cannot be read")
        assert chart(page, "train/loss").locator("canvas").count() == 1
        for _ in range(3):  # a tab may be open for a day
            page.wait_for_event("response", lambda response: "/api/positions" in response.url)
        assert sum("gone cannot be read" in complaint for complaint in complaints) == 1
        page.goto("about:blank")
    complaints.clear()


@pytest.mark.slow
def test_beside_a_deleted_run_more_of_the_others_is_loaded(browser, tmp_path):
    page, complaints = browser
    for name in ("gone", "kept"):
        record(tmp_path / name, steps=20)
    with viewer(tmp_path) as url:
        keys = keys_of(page, url)
        page.goto(f"{url}#/charts?runs={keys['gone']},{keys['kept']}&search=loss")
        drawn(page, "train/loss")
        shutil.rmtree(tmp_path / "gone")
        expect(page.locator(".errors")).to_contain_text("gone cannot be read")
        page.get_by_role("searchbox", name="search series").fill("accuracy")
        expect(drawn(page, "train/accuracy").locator(".legend")).to_contain_text("step 19")
        expect(page.locator(".errors p")).to_have_count(1)
        page.goto("about:blank")
    complaints.clear()


@pytest.mark.slow
def test_another_run_in_the_folder_of_a_deleted_one_is_shown_anew(browser, tmp_path):
    page, complaints = browser
    record(tmp_path / "run", steps=200)
    with viewer(tmp_path) as url:
        page.goto(f"{url}#/charts?runs={keys_of(page, url)['run']}")
        expect(drawn(page, "train/loss").locator(".legend")).to_contain_text("step 199")
        shutil.rmtree(tmp_path / "run")
        with stepscope.open_run(tmp_path / "run", sinks=[]) as run:
            run.scalar("another", 1.0, step=7)
        expect(drawn(page, "another").locator(".legend")).to_contain_text("step 7")
        expect(chart(page, "train/loss")).to_have_count(0)
        page.goto("about:blank")
    complaints.clear()  # the moment without a run is said


def test_a_viewer_that_ended_is_said_once_and_what_was_read_stays(browser, runs):
    page, complaints = browser
    with viewer(runs) as url:
        page.goto(f"{url}#/charts")
        drawn(page, "train/loss")
    expect(page.locator(".errors p")).to_have_text("the viewer does not answer: is stepscope view still running?×")
    assert chart(page, "train/loss").locator("canvas").count() == 1
    page.goto("about:blank")
    complaints.clear()


@pytest.mark.slow
def test_an_error_goes_when_answers_come_again(browser, tmp_path):
    page, complaints = browser
    record(tmp_path / "runs" / "kept", steps=20)
    errors = page.locator(".errors p")
    with viewer(tmp_path / "runs") as url:
        page.goto(f"{url}#/charts?search=loss")
        drawn(page, "train/loss")
        (tmp_path / "runs" / "kept").rename(tmp_path / "away")
        expect(errors).to_contain_text("kept cannot be read")
        (tmp_path / "away").rename(tmp_path / "runs" / "kept")
        expect(errors).to_have_count(0)
    expect(errors.filter(has_text="the viewer does not answer")).to_have_count(1)  # beside what it said as it ended
    page.get_by_role("searchbox", name="search series").fill("accuracy")
    expect(chart(page, "train/accuracy")).to_have_count(1)
    with viewer(tmp_path / "runs", port=int(url.rstrip("/").rpartition(":")[2])):
        expect(errors).to_have_count(0)
        drawn(page, "train/accuracy")
        page.goto("about:blank")
    complaints.clear()


@pytest.mark.slow
@pytest.mark.parametrize("mended", ["here", "elsewhere"])
def test_an_error_of_a_view_goes_with_its_cause_and_with_the_view(browser, served, mended):
    page, complaints = browser
    page.goto(f"{served}#/compare?statistic=at&at=-5")
    expect(page.locator(".errors p")).to_contain_text("at is '-5'")
    if mended == "here":
        page.get_by_role("spinbutton", name="step of the values").fill("5")
        page.keyboard.press("Tab")
    else:
        page.keyboard.press("g")
        page.keyboard.press("c")
        drawn(page, "train/loss")
    expect(page.locator(".errors p")).to_have_count(0)
    complaints.clear()


@pytest.mark.slow
def test_without_a_run_it_says_what_to_do_and_shows_the_first_by_itself(page, tmp_path):
    with viewer_of(page, tmp_path) as url:
        page.goto(f"{url}#/charts")
        expect(page.locator(".empty")).to_contain_text("stepscope.open_run")
        record(tmp_path / "new", steps=5)
        drawn(page, "train/loss")


@pytest.mark.slow
def test_a_run_that_begins_later_shows_where_a_link_names_it_and_nowhere_else(page, tmp_path):
    record(tmp_path / "early", names=["early"], steps=5)
    with viewer(tmp_path) as url:
        page.goto(f"{url}#/charts")
        drawn(page, "early")
        record(tmp_path / "late", names=["late"], steps=5)
        until(lambda: "late" in keys_of(page, url))
        page.goto(f"{url}#/charts?runs={keys_of(page, url)['late']}")
        drawn(page, "late")
        page.go_back()
        drawn(page, "early")
        page.goto("about:blank")


@pytest.mark.slow
def test_runs_that_were_given_one_by_one_are_shown_at_once(page, tmp_path):
    for name in ("one", "two", "three"):
        with stepscope.open_run(tmp_path / name, sinks=[]) as run:
            run.scalar("loss", 1.0, step=0)
    with viewer_of(page, tmp_path / "two", tmp_path / "one") as url:
        page.goto(f"{url}#/charts")
        values = page.locator(".card[data-name=loss] .value")
        expect(values).to_have_count(2)
        expect(values.first).to_contain_text("two")
    with viewer_of(page, tmp_path) as url:
        page.goto(f"{url}#/charts")
        drawn(page, "loss")
        expect(page.get_by_role("button", name="three")).to_be_visible()
        expect(values).to_have_count(1)


@pytest.mark.slow
def test_of_runs_without_rank_0_the_lowest_ones_are_shown_and_others_can_be_chosen(page, tmp_path):
    for name, rank in (("one", 1), ("one", 2), ("two", 2)):
        with stepscope.open_run(tmp_path / name, sinks=[], rank=rank) as run:
            for step in range(5):
                run.scalar(f"train/{name}-{rank}", step, step=step)
                run.histogram(f"train/{name}-{rank}", [step], step=step)
    with viewer_of(page, tmp_path) as url:
        runs = ",".join(keys_of(page, url).values())
        for view, item in (("charts", ".board .card"), ("histograms", ".histogram-card")):
            page.goto(f"{url}#/{view}?runs={runs}")
            expect(page.locator(item)).to_have_count(2)
            page.get_by_label("rank").select_option("2")
            expect(page.locator(item).first).to_contain_text("one-2")
            expect(page.locator(item).last).to_contain_text("two-2")
            page.get_by_label("rank").select_option("lowest rank")
            expect(page.locator(item).first).to_contain_text("one-1")


@pytest.mark.slow
def test_all_ranks_are_shown_over_each_other_while_they_train(page, tmp_path):
    with ExitStack() as stack:
        ranks = [
            stack.enter_context(stepscope.open_run(tmp_path / "exp1", sinks=[], rank=rank, resume=rank > 0))
            for rank in range(3)
        ]
        for rank, run in enumerate(ranks):
            run.scalar("loss", rank + 0.25, step=0)
            assert run.flush_store()
        url = stack.enter_context(viewer_of(page, tmp_path))
        page.goto(f"{url}#/charts")
        page.get_by_label("rank").select_option("all ranks")
        values = page.locator(".card[data-name=loss] .value")
        expect(values).to_have_count(3)
        for rank in range(3):
            expect(values.nth(rank)).to_contain_text(f"rank {rank} of exp1{rank}.25")
        assert len({value.locator(".swatch").get_attribute("class") for value in values.all()}) == 3
        ranks[2].scalar("loss", 9.5, step=1)
        assert ranks[2].flush_store()
        expect(values.nth(2)).to_contain_text("9.5")
        expect(values.nth(1)).to_contain_text("1.25")
        page.reload()
        expect(values.nth(2)).to_contain_text("9.5")
        with page.expect_download() as saved:
            page.get_by_role("button", name="save as CSV: loss").click()
        rows = saved.value.path().read_text(encoding="utf-8").splitlines()
        assert [row.partition(",loss,")[0] for row in rows[1:]] == [
            "rank 0 of exp1",
            "rank 1 of exp1",
            *["rank 2 of exp1"] * 2,
        ]


@pytest.mark.slow
def test_a_rank_that_begins_later_can_be_chosen_without_a_reload(page, tmp_path):
    with stepscope.open_run(tmp_path / "run", sinks=[], rank=0) as first, viewer_of(page, tmp_path) as url:
        first.scalar("loss", 1.0, step=0)
        first.flush_store()
        page.goto(f"{url}#/charts")
        drawn(page, "loss")
        rank = page.get_by_label("rank", exact=True)
        expect(rank).to_be_hidden()
        with stepscope.open_run(tmp_path / "run", sinks=[], rank=1) as second:
            second.scalar("loss", 2.0, step=0)
        expect(rank).to_be_visible(timeout=30_000)
        rank.select_option("1")
        expect(chart(page, "loss").locator(".legend b")).to_have_text("2")


@pytest.mark.slow
def test_of_many_ranks_as_many_are_over_each_other_as_lines_can_be_told_apart(page, tmp_path):
    for rank in range(33):
        with stepscope.open_run(tmp_path / "exp1", sinks=[], rank=rank, resume=rank > 0) as run:
            run.scalar("loss", rank + 0.25, step=0)
    with viewer_of(page, tmp_path) as url:
        page.goto(f"{url}#/charts")
        page.get_by_label("rank").select_option("the first 32 ranks")
        values = page.locator(".card[data-name=loss] .value")
        expect(values).to_have_count(32)
        expect(values.last).to_contain_text("rank 31 of exp131.25")
        page.get_by_label("rank").select_option("rank 32")
        expect(values).to_have_count(1)
        expect(values).to_contain_text("32.25")
