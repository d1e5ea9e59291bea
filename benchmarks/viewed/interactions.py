"""What a person does with our page, measured in the browser: until a frame is painted, and frames while panning."""

from itertools import pairwise
from typing import Any

PANNED_FRAMES = 90
_TO_PAINT = """(act) => new Promise((done) => {
  const start = performance.now();
  act();
  const wait = () => requestAnimationFrame(() => {
    const channel = new MessageChannel();  // its message comes after the frame is painted
    channel.port1.onmessage = () => done(performance.now() - start);
    channel.port2.postMessage(0);
  });
  setTimeout(wait);
})"""
_FRAMES = """() => {
  window.measuredFrames = [];
  window.measuring = true;
  const next = (time) => {
    window.measuredFrames.push(time);
    if (window.measuring) requestAnimationFrame(next);
  };
  requestAnimationFrame(next);
}"""


def interactions(page: Any) -> dict[str, float]:
    """Returns the milliseconds to the painted answer of each interaction, and the frames a second of panning."""
    search = "const field = document.querySelector('.toolbar input[type=search]');"
    slide = "const slider = document.querySelector('.toolbar input[type=range]');"
    found = {
        "search_ms": _painted(page, f"{search} field.value = 'blocks.1'; {_told('field')}"),
        "search_all_ms": _painted(page, f"{search} field.value = ''; {_told('field')}"),
        "smoothing_ms": _painted(page, f"{slide} slider.value = '0.8'; {_told('slider')}"),
        "log_axis_ms": _painted(page, "[...document.querySelectorAll('.toolbar button')].at(-2).click();"),
        "scheme_ms": _painted(page, "document.querySelector('header button.icon').click();"),
        "scroll_ms": _painted(page, "scrollBy(0, 900);"),
    }
    page.evaluate("scrollTo(0, 0)")
    page.locator(".board .card:has(canvas) .legend b").first.wait_for()
    return found | {"panning_fps": _panning(page)}


def _told(field: str) -> str:
    return f"{field}.dispatchEvent(new Event('input'));"


def _painted(page: Any, act: str) -> float:
    page.wait_for_load_state("networkidle")
    page.locator(".board .card:not(:has(canvas))").first.wait_for(state="detached")  # all charts are drawn
    return float(page.evaluate(f"({_TO_PAINT})(() => {{ {act} }})"))


def _panning(page: Any) -> float:
    """Frames a second of the slowest tenth while a zoomed chart is dragged."""
    box = page.locator(".board .card .u-over").first.bounding_box()
    x, y = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
    page.mouse.move(x - 60, y)
    page.mouse.down()
    page.mouse.move(x + 60, y, steps=3)
    page.mouse.up()
    page.wait_for_load_state("networkidle")
    page.keyboard.down("Shift")
    page.mouse.move(x, y)
    page.mouse.down()
    page.evaluate(_FRAMES)
    for frame in range(PANNED_FRAMES):
        page.mouse.move(x + 2 * (frame % 40), y)
    times = page.evaluate("(window.measuring = false, window.measuredFrames)")
    page.mouse.up()
    page.keyboard.up("Shift")
    gaps = sorted(after - before for before, after in pairwise(times))
    return 1000 / gaps[int(0.9 * len(gaps))]
