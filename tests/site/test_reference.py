"""The reference of the package: every public name has an entry, with a link to its lines in the repository."""

from __future__ import annotations

import importlib
import inspect
import re
from pathlib import Path
from types import SimpleNamespace

import book_site
import build_book
import pytest
import yaml
from docutils import nodes
from docutils.core import publish_doctree
from docutils.parsers.rst import roles

ROOT = Path(__file__).resolve().parents[2]
ROOMS = {
    "posym_core": ("metrics", "tasks", "encodings", "models", "store"),
    "posym_profile": ("prompts", "language_models", "capture", "planes", "scores", "interventions", "report"),
}
FACES = (*(f"{package}.{room}" for package in ROOMS for room in ROOMS[package]), "posym_figures", "posym_figures.plots")


def documented_modules() -> list[str]:
    pages = sorted((ROOT / "book" / "package" / "api").glob("*.md"))
    return [name for page in pages for name in re.findall(r"automodule:: (\S+)", page.read_text(encoding="utf-8"))]


def public_objects() -> dict[str, object]:
    """Classes and functions that faces offer, by where the reference has them; values have no entry of their own."""
    faces = {name: importlib.import_module(name) for name in FACES}
    offered = {f"{face}.{name}": getattr(module, name) for face, module in faces.items() for name in module.__all__}
    return {name: thing for name, thing in offered.items() if inspect.isclass(thing) or inspect.isfunction(thing)}


def test_the_reference_documents_faces_and_nothing_else() -> None:
    modules = documented_modules()
    assert len(set(modules)) == len(modules)
    assert set(modules) == set(FACES)
    assert all(thing.__doc__ for thing in public_objects().values())


def test_reference_pages_are_in_the_contents() -> None:
    contents = (ROOT / "_toc.yml").read_text(encoding="utf-8")
    names = re.findall(r"file: book/package/api/(\w+)", contents)
    assert sorted(names) == sorted(page.stem for page in (ROOT / "book" / "package" / "api").glob("*.md"))


def test_built_reference_has_an_anchor_for_every_public_name(continuous_integration: bool) -> None:
    if not build_book.site_is_current(ROOT):
        reason = "the site is not built from the present files; run `make book`"
        pytest.fail(reason) if continuous_integration else pytest.skip(reason)
    pages = [
        page.read_text(encoding="utf-8")
        for page in (ROOT / "_build" / "html" / "book" / "package" / "api").glob("*.html")
    ]
    anchors = {
        anchor for page in pages for anchor in re.findall(r'id="(posym_(?:core|profile|figures)\.[\w.]+)"', page)
    }
    assert public_objects().keys() <= anchors


@pytest.mark.parametrize(
    ("module", "name", "first"),
    [
        ("posym_core.metrics", "swap_scores", "def swap_scores("),
        ("posym_core.encodings", "Encoding.logits", "def logits("),
        ("posym_core.store", "UnfinishedWork.resume", "def resume("),
        ("posym_figures", "Slider.index", "def index("),
    ],
)
def test_source_links_lead_to_the_lines(module: str, name: str, first: str) -> None:
    repository = yaml.safe_load((ROOT / "_config.yml").read_text(encoding="utf-8"))["repository"]
    info = {"module": module, "fullname": name}
    address = book_site.source_address(repository["url"], repository["branch"], info)
    assert address is not None
    base, _, lines = address.partition("#")
    path = base.removeprefix(f"{repository['url']}/blob/{repository['branch']}/")
    start, end = (int(line[1:]) for line in lines.split("-"))
    shown = (ROOT / path).read_text(encoding="utf-8").splitlines()[start - 1 : end]
    assert any(first in line for line in shown[:3])


def read_role(text: str) -> nodes.document:
    """What docutils makes of a text on a page in a folder of a folder."""
    roles.register_local_role("claim", book_site.ClaimRole())
    settings = {"env": SimpleNamespace(docname="book/one_head/page"), "report_level": 5, "halt_level": 5}
    return publish_doctree(text, settings_overrides=settings)


def test_a_claim_in_a_text_is_the_badge_of_its_row() -> None:
    (badge,) = read_role("As said. :claim:`U26-4a`").findall(nodes.raw)
    assert 'href="../../book/reference/ledger.html#claim-u26-4a"' in badge.astext()
    assert "posym-badge" in badge.astext()


def test_a_claim_that_nobody_makes_is_an_error() -> None:
    document = read_role("As said. :claim:`U26-99`")
    assert not list(document.findall(nodes.raw))
    (message,) = document.findall(nodes.system_message)
    assert (message["level"], "no claim is called U26-99" in message.astext()) == (3, True)
