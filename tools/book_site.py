"""A Sphinx extension of the book.

Objects of the reference link to their lines in the repository, public names lead to where they are defined, and
``{claim}`C-6` `` is the badge of a row of the ledger.
"""

from __future__ import annotations

import importlib
import inspect
from operator import attrgetter
from pathlib import Path
from typing import Any

import yaml
from docutils import nodes
from execute import PACKAGES, ROOT
from finish_site import site_address
from sphinx.util.docutils import SphinxRole
from sphinx_proof.nodes import proof_node

from posym_companion.claims.rows import read_rows
from posym_companion.ledger.badges import make_badge


def source_address(repository: str, branch: str, info: dict[str, str]) -> str | None:
    """Return where a class or function of the packages stands in the public repository, down to its lines."""
    try:
        thing: Any = attrgetter(info["fullname"])(importlib.import_module(info["module"]))
        thing = inspect.unwrap(thing.fget if isinstance(thing, property) else thing)
        lines, first = inspect.getsourcelines(thing)
    except (AttributeError, TypeError):  # a value, which has no lines
        return None
    file = Path(inspect.getsourcefile(thing) or "")
    if not file.is_relative_to(ROOT):
        return None
    return f"{repository}/blob/{branch}/{file.relative_to(ROOT).as_posix()}#L{first}-L{first + len(lines) - 1}"


def name_addresses(app: Any, config: Any) -> None:
    """Give objects the addresses of their lines in the repository that ``_config.yml`` names, and pages their own."""
    settings = yaml.safe_load((Path(app.srcdir) / "_config.yml").read_text(encoding="utf-8"))["repository"]

    def resolve(domain: str, info: dict[str, str]) -> str | None:
        known = domain == "py" and info["module"]
        return source_address(settings["url"], settings["branch"], info) if known else None

    config.linkcode_resolve = resolve
    config.mathjax_path = "mathjax/startup.js"  # which loads the parts that _config.yml names, and not all of MathJax
    config.html_baseurl = config.ogp_site_url = site_address(settings["url"])


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


def fold_proofs(app: Any, doctree: Any, page: str) -> None:
    """Fold proofs that are dropdowns under their name: sphinx_proof gives them no title to click on."""
    for proof in list(doctree.findall(proof_node)):
        if "dropdown" in proof[0]["classes"]:
            opening = '<details class="posym-fold stay"><summary>Proof</summary>'
            before, after = (nodes.raw("", text, format="html") for text in (opening, "</details>"))
            proof.replace_self([before, *proof[0].children, after])


def write_in_parallel(app: Any, environment: Any) -> None:
    """Write pages in two processes, once all are read: sphinx_proof cannot be read in parallel, which would warn."""
    app.parallel = 2


def setup(app: Any) -> dict[str, bool]:
    """Register the steps with Sphinx."""
    # Jupyter Book always sets this value, and its owner, an extension for comment services, is left out of the book.
    app.add_config_value("comments_config", {}, "html", dict)
    app.add_role("claim", ClaimRole())
    app.connect("config-inited", name_addresses)
    app.connect("doctree-resolved", fold_proofs)
    app.connect("env-updated", write_in_parallel)
    app.connect("missing-reference", find_public_name)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
