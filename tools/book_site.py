"""A Sphinx extension of the book.

Public names lead to where they are defined, ``{claim}`C-6` `` is the badge of a row of the ledger, and the first
mention of each term in a page is a link to the glossary that says what it means (``book/_static/definitions.js`` shows
this on hover, focus and tap).
"""

from __future__ import annotations

import functools
import importlib
import re
from pathlib import Path
from typing import Any

import yaml
from docutils import nodes
from execute import PACKAGES
from finish_site import site_address
from sphinx.util.docutils import SphinxRole
from sphinx_proof.nodes import proof_node

from posym_companion.claims.rows import read_rows
from posym_companion.ledger.badges import make_badge
from posym_figures import write_plain_maths

GLOSSARY = "book/reference/glossary"
# Names of tasks: written small they are other words.
PROPER = {"Index", "Retrieval"}


def name_addresses(app: Any, config: Any) -> None:
    """Give pages their addresses, which follow from the repository that ``_config.yml`` names."""
    settings = yaml.safe_load((Path(app.srcdir) / "_config.yml").read_text(encoding="utf-8"))
    config.html_baseurl = config.ogp_site_url = site_address(settings["repository"]["url"])
    config.mathjax_path = "mathjax/startup.js"  # which loads the parts that _config.yml names, and not all of MathJax


def find_public_name(app: Any, environment: Any, node: Any, content: Any) -> Any:
    """Lead a name of a package's face, such as ``posym_profile.profile``, to its entry in the face of its room."""
    package, _, name = node.get("reftarget", "").rpartition(".")
    thing = getattr(importlib.import_module(package), name, None) if package in PACKAGES else None
    if node.get("refdomain") != "py" or not hasattr(thing, "__qualname__"):
        return None
    target = f"{thing.__module__.partition('._')[0]}.{thing.__qualname__}"
    page = node.get("refdoc", environment.docname)
    domain = environment.get_domain("py")
    return domain.resolve_xref(environment, page, app.builder, node["reftype"], target, node, content)


class ClaimRole(SphinxRole):
    """The badge of a row of the ledger, by the row's id."""

    def run(self) -> tuple[list[nodes.Node], list[nodes.system_message]]:
        try:
            (row,) = read_rows(self.text)
        except KeyError as unknown:
            message = self.inliner.reporter.error(unknown.args[0])
            return [self.inliner.problematic(self.rawtext, self.rawtext, message)], [message]
        badge = make_badge(row, f"{'../' * self.env.docname.count('/')}book/reference/ledger.html")
        return [nodes.raw("", f'<span class="posym-badges margin">{badge}</span>', format="html")], []


def name_cells(app: Any, doctree: Any, page: str) -> None:
    """Give cells that show a claim, or let a reader try one, their tags as anchors: ``shows-u25-7``, ``live-u25-7``."""
    for cell in doctree.findall(nodes.container):
        cell["ids"] += [tag[4:] for tag in cell["classes"] if tag.startswith(("tag_shows-", "tag_live-"))]


def fold_proofs(app: Any, doctree: Any, page: str) -> None:
    """Fold proofs that are dropdowns under their name: sphinx_proof gives them no title to click on."""
    for proof in list(doctree.findall(proof_node)):
        if "dropdown" in proof[0]["classes"]:
            opening = '<details class="posym-fold stay"><summary>Proof</summary>'
            before, after = (nodes.raw("", text, format="html") for text in (opening, "</details>"))
            proof.replace_self([before, *proof[0].children, after])


def pattern_of(name: str) -> str:
    """Return what finds a term at the beginning of a sentence or within one, or several of it."""
    first = name[0] if name in PROPER or not name[0].isalpha() else f"[{name[0].upper()}{name[0].lower()}]"
    return rf"(?<![\w-]){first}{re.escape(name[1:])}(?:e?s)?(?![\w-])"


@functools.cache
def list_terms(environment: Any) -> dict[str, tuple[str, str]]:
    """Return the names of the glossary's terms, longest first, with the anchor and the meaning of each."""
    found = {}
    for entry in environment.get_doctree(GLOSSARY).findall(nodes.definition_list_item):
        term, meaning = entry[0], entry[-1]
        texts = (f"\\({x}\\)" if isinstance(x.parent, nodes.math) else x for x in meaning.findall(nodes.Text))
        said = write_plain_maths(re.sub(r"\\(?:mathrm|text\w*|operatorname)\b", "", " ".join("".join(texts).split())))
        names = "".join(part.astext() for part in term if not isinstance(part, nodes.math)).split(",")
        found |= {name.strip(): (term["ids"][0], said) for name in names if name.strip()}
    return dict(sorted(found.items(), key=lambda item: -len(item[0])))


def mark_terms(app: Any, doctree: Any, page: str) -> None:
    """Make the first mention of each term in a page a link to its meaning."""
    if {"reference", "api"} & {*page.split("/")} or GLOSSARY not in app.env.all_docs:
        return
    entries, seen = list(list_terms(app.env).values()), set[str]()
    any_term = re.compile("|".join(f"(?P<term{at}>{pattern_of(name)})" for at, name in enumerate(list_terms(app.env))))
    for text in [text for paragraph in doctree.findall(nodes.paragraph) for text in paragraph.findall(nodes.Text)]:
        within = [text.parent, text.parent.parent] if isinstance(text.parent, nodes.emphasis) else [text.parent]
        pieces, end = [], 0
        for found in any_term.finditer(text) if isinstance(within[-1], nodes.paragraph) else ():
            anchor, said = entries[int(str(found.lastgroup).removeprefix("term"))]
            if anchor not in seen:
                seen.add(anchor)
                address = f"{app.builder.get_relative_uri(page, GLOSSARY)}#{anchor}"
                link = {"refuri": address, "reftitle": said, "classes": ["posym-term"], "internal": True}
                pieces += [nodes.Text(text[end : found.start()]), nodes.reference("", found[0], **link)]
                end = found.end()
        if pieces:
            text.parent.replace(text, [*pieces, nodes.Text(text[end:])])


def write_in_parallel(app: Any, environment: Any) -> None:
    """Write pages in two processes, once all are read: sphinx_proof cannot be read in parallel, which would warn."""
    app.parallel = 2


def setup(app: Any) -> dict[str, bool]:
    """Register the steps with Sphinx."""
    # Jupyter Book always sets this value, and its owner, an extension for comment services, is left out of the book.
    app.add_config_value("comments_config", {}, "html", dict)
    app.add_role("claim", ClaimRole())
    app.connect("config-inited", name_addresses)
    for change in (name_cells, mark_terms, fold_proofs):
        app.connect("doctree-resolved", change)
    app.connect("env-updated", write_in_parallel)
    app.connect("missing-reference", find_public_name)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
