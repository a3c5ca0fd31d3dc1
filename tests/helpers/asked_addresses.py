"""What a page could make a browser ask for."""

from __future__ import annotations

from html.parser import HTMLParser


class Addresses(HTMLParser):
    """Everything in a page that could make a browser ask for something, and whether images are described."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.asked: list[str] = []
        self.undescribed = 0
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = dict(attrs)
        self.asked += [str(values[name]) for name in ("src", "href", "srcset", "action", "data") if name in values]
        self.undescribed += tag == "img" and not values.get("alt")
        assert tag not in ("iframe", "object", "embed", "base", "form")
