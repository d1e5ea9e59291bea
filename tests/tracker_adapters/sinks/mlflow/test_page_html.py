"""The HTML document that MLflow shows for a page."""

import base64
from html.parser import HTMLParser

import numpy as np
import pytest
from tracker_adapters.artifacts import Page, PageEntry
from tracker_adapters.errors import ArtifactError
from tracker_adapters.sinks.mlflow.page_html import page_html
from tracker_adapters.values.png import encode

PNG = encode(np.eye(8, dtype=np.uint8))
HOSTILE = "<script>alert(1)</script><img src=x onerror='alert(2)'>"


class Elements(HTMLParser):
    """Collects the elements with their attributes, and the text."""

    def __init__(self, document):
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self.feed(document)

    def handle_starttag(self, tag, attrs):
        self.found.append((tag, dict(attrs)))

    def handle_data(self, data):
        self.text += data


def page(tmp_path, *entries, name="page_0"):
    path = tmp_path / "page_0.pkl"
    path.write_bytes(b"page")
    return Page(name=name, path=path, contents=entries, step=1)


def test_pictures_lie_in_the_document_and_what_the_page_says_is_text(tmp_path):
    entry = PageEntry(datapoint=7, debugger=HOSTILE, summary=HOSTILE, picture=PNG)
    seen = Elements(page_html(page(tmp_path, entry, PageEntry(datapoint=8, debugger="b", summary="c"), name=HOSTILE)))
    pictures = [attributes["src"] for tag, attributes in seen.found if tag == "img"]
    assert pictures == ["data:image/png;base64," + base64.b64encode(PNG).decode()]
    assert not {"script", "iframe", "object", "link"} & {tag for tag, _ in seen.found}
    assert not [key for _, attributes in seen.found for key in attributes if key.startswith("on")]
    assert seen.text.count(HOSTILE) == 4  # title, heading, debugger, values
    policy = next(attributes["content"] for tag, attributes in seen.found if "http-equiv" in attributes)
    assert policy == "default-src 'none'; img-src data:; style-src 'unsafe-inline'"


def test_a_long_page_is_cut_and_says_so(tmp_path):
    entries = [PageEntry(datapoint=number, debugger="maps", summary="s") for number in range(3500)]
    seen = Elements(page_html(page(tmp_path, *entries)))
    assert [tag for tag, _ in seen.found].count("tr") == 2001
    assert "and 1,500 more" in seen.text


@pytest.mark.parametrize("picture", [b"GIF89a", PNG + bytes(70_000), "text"], ids=["no PNG", "too large", "text"])
def test_only_a_small_png_is_a_picture(picture):
    with pytest.raises(ArtifactError, match="expected a PNG file of at most 65536 bytes"):
        PageEntry(datapoint=1, debugger="a", summary="b", picture=picture)
