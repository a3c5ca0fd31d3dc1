"""What axe-core finds on a page, or in a part of it."""

from __future__ import annotations

from typing import Any

from axe_playwright_python.sync_playwright import Axe

RULES = {"light": ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "best-practice"], "dark": ["color-contrast"]}
# Nearly all of axe's time is contrast, and thousands of texts of a reference have a dozen looks between them. A look is
# all that contrast follows from, of an element and of whatever it stands in. Marked are the first visible text of each
# look and every form control. What is positioned may lie on anything: none has the look of another. Drawings are left
# out: axe cannot tell what a text in them lies on. Of links, which must differ from the words around them, the first of
# each look and decoration is marked, in words or by itself.
MARK_LOOKS = """(part) => {
    const properties = ['color', 'background-color', 'background-image', 'background-clip', 'opacity', 'font-size',
        'font-weight', 'text-shadow', 'filter', 'mix-blend-mode', '-webkit-text-stroke', 'transform'];
    const known = new Map(), looks = new Map(), marked = new Set(), links = new Set();
    const hasText = element =>
        [...element.childNodes].some(node => node.nodeType === Node.TEXT_NODE && node.data.trim());
    for (const element of document.querySelectorAll('*:not(svg *, mjx-math, mjx-math *)')) {
        const style = getComputedStyle(element);
        const apart = !['static', 'relative'].includes(style.position);
        const own = apart ? [known.size] : properties.map(name => style.getPropertyValue(name));
        const key = [looks.get(element.parentElement), ...own].join('|');
        if (!known.has(key)) known.set(key, known.size);
        const look = known.get(key);
        looks.set(element, look);
        const first = hasText(element) && element.closest(part) && !marked.has(look)
            && element.checkVisibility({ visibilityProperty: true });
        if (first) marked.add(look);
        element.toggleAttribute('data-marked', first || element.matches('input, select, textarea, button'));
        if (!element.matches('a[href]')) continue;
        const { parentElement: parent } = element, { textDecorationLine, borderBottom, fontStyle } = style;
        const link = [look, parent.tagName, hasText(parent), textDecorationLine, borderBottom, fontStyle].join('|');
        element.toggleAttribute('data-link', !links.has(link));
        links.add(link);
    }
    axe.configure({ rules: [{ id: 'color-contrast', selector: '[data-marked]' },
        { id: 'link-in-text-block', selector: '[data-link]' }] });
}"""
SCRIPT = Axe().axe_script


def violations(page: Any, scheme: str, part: str = "html") -> list[str]:
    """The serious and critical violations of a part of a page, each with its rule, the element and the remedy."""
    page.emulate_media(color_scheme=scheme)
    page.wait_for_function("scheme => matchMedia(`(prefers-color-scheme: ${scheme})`).matches", arg=scheme)
    page.wait_for_timeout(300)  # colours change gradually
    if page.evaluate("!window.axe"):
        page.evaluate(SCRIPT)
    page.evaluate(MARK_LOOKS, part)
    # Whether all content stands in landmarks is of moderate impact, and takes long to say.
    options = {"runOnly": RULES[scheme], "rules": {"region": {"enabled": False}}}
    options |= {"resultTypes": ["violations"], "preload": False}  # no rule asks for style sheets
    # The drawn form of a formula is hidden from screen readers and has the colour of its text. Its MathML stays.
    context = {"include": [part], "exclude": ["mjx-math"]}
    found: dict[str, Any] = page.evaluate("([context, options]) => axe.run(context, options)", [context, options])
    return [
        f"{violation['id']}: {node['html'][:120]} ({node['failureSummary']})"
        for violation in found["violations"]
        if violation["impact"] in {"serious", "critical"}
        for node in violation["nodes"]
    ]
