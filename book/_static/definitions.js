// Says what a term, a citation or a badge means where the pointer, the keyboard or a finger comes to it. Escape closes.
(() => {
  document.querySelectorAll(".bd-article a:is(.posym-term, .posym-badge, [href*='#id'])[title]").forEach((link) => {
    link.dataset.said = link.title;
    link.removeAttribute("title");
  });
  const tip = Object.assign(document.createElement("div"), { id: "posym-definition", hidden: true });
  tip.setAttribute("role", "tooltip");
  document.body.append(tip);
  let shown = null, before = null, touch = false, leaving = 0;
  const hide = () => {
    shown?.removeAttribute("aria-describedby");
    shown = null;
    tip.hidden = true;
  };
  const place = () => {
    const edge = shown.getBoundingClientRect(), above = edge.top - tip.offsetHeight - 6;
    tip.style.left = `${Math.max(8, Math.min(edge.left, document.documentElement.clientWidth - tip.offsetWidth - 8))}px`;
    tip.style.top = `${above > 8 ? above : edge.bottom + 6}px`;
  };
  const show = (link) => {
    if (shown === link) return;
    hide();
    shown = link;
    link.setAttribute("aria-describedby", tip.id);
    tip.textContent = link.dataset.said;
    tip.hidden = false;
    place();
  };
  const linkOf = ({ target }) => target.closest?.("a[data-said]");
  document.addEventListener("pointerdown", (event) => ((touch = event.pointerType === "touch"), (before = shown)));
  document.addEventListener("pointerover", (event) => {
    const link = linkOf(event);
    clearTimeout(leaving);
    if (link && event.pointerType !== "touch") show(link);
    else if (shown && shown !== document.activeElement && !tip.contains(event.target)) leaving = setTimeout(hide, 250);
  });
  document.addEventListener("focusin", (event) => (linkOf(event) ? show(linkOf(event)) : hide()));
  document.addEventListener("focusout", hide);
  document.addEventListener("click", (event) => {
    const link = linkOf(event);
    if (!link) return hide();
    if (!touch || before === link) return; // a second tap follows the link
    event.preventDefault();
    show(link);
  });
  document.addEventListener("keydown", ({ key }) => key === "Escape" && hide());
  const follow = () => (shown && shown === document.activeElement ? place() : touch || hide());
  window.addEventListener("scroll", follow, { passive: true });
})();
