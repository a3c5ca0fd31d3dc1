"""A Sphinx extension of the book.

The list of references has the labels of the text (``citations.py``), objects of the reference link to their lines in
the repository, public names lead to where they are defined, and ``{claim}`C-6` `` to a row of the ledger.
"""

from __future__ import annotations

import importlib
import inspect
from pathlib import Path
from typing import Any

import yaml
from citations import register_styles
from docutils import nodes
from execute import PACKAGES, ROOT
from finish_site import site_address
from sphinx.util.docutils import SphinxRole
from sphinx_proof.nodes import proof_node

from posym_companion.claims.rows import read_rows


def source_address(repository: str, branch: str, root: Path, info: dict[str, str]) -> str | None:
    """Where an object of the package stands in the public repository, down to its lines."""
    thing: Any = importlib.import_module(info["module"])
    for name in info["fullname"].split("."):
        thing = getattr(thing, name, None)
    thing = inspect.unwrap(thing.fget if isinstance(thing, property) else thing) if thing is not None else None
    try:
        file = inspect.getsourcefile(thing)
        lines, first = inspect.getsourcelines(thing)
    except TypeError:  # a value: only classes and functions have lines
        return None
    if file is None or not Path(file).is_relative_to(root):
        return None
    return f"{repository}/blob/{branch}/{Path(file).relative_to(root).as_posix()}#L{first}-L{first + len(lines) - 1}"


def name_addresses(app: Any, config: Any) -> None:
    """Give objects the addresses of their lines in the repository that ``_config.yml`` names, and pages their own."""
    settings = yaml.safe_load((Path(app.srcdir) / "_config.yml").read_text(encoding="utf-8"))["repository"]

    def resolve(domain: str, info: dict[str, str]) -> str | None:
        known = domain == "py" and info["module"]
        return source_address(settings["url"], settings["branch"], ROOT, info) if known else None

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
    """A row of the ledger by its id, as a link that ``finish_site.py`` makes a badge."""

    def run(self) -> tuple[list[nodes.Node], list[nodes.system_message]]:
        if self.text not in {row.id for row in read_rows()}:
            message = self.inliner.reporter.error(f"no claim is called {self.text!r}; posym claims lists all")
            return [self.inliner.problematic(self.rawtext, self.rawtext, message)], [message]
        address = f"{'../' * self.env.docname.count('/')}book/reference/ledger.html#claim-{self.text.lower()}"
        return [nodes.reference(self.rawtext, self.text, refuri=address, internal=True, classes=["posym-claim"])], []


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
    register_styles()
    # Jupyter Book always sets this value, and its owner, an extension for comment services, is left out of the book.
    app.add_config_value("comments_config", {}, "html", dict)
    app.add_role("claim", ClaimRole())
    app.connect("config-inited", name_addresses)
    app.connect("doctree-resolved", fold_proofs)
    app.connect("env-updated", write_in_parallel)
    app.connect("missing-reference", find_public_name)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
