"""What looks at the viewer's page."""

from collections.abc import Iterator
from typing import Any

import pytest
from viewer_pages import viewer_page


@pytest.fixture(scope="module")
def browser() -> Iterator[tuple[Any, list[str]]]:
    """An open page, and what it complains of."""
    with viewer_page() as both:
        yield both


@pytest.fixture
def page(browser: tuple[Any, list[str]]) -> Iterator[Any]:
    """The page, empty at first, in a test in which it complains of nothing."""
    page, complaints = browser
    complaints.clear()
    page.goto("about:blank")
    yield page
    assert not complaints
