// What a reader can keep of a figure: its drawings as SVG and the numbers shown as CSV; of a slider figure also its state
// in the page's address, and the whole figure as a page that stands alone.
import { defined, element, everyLabel, linkable, node, rangeOf, tenth } from "./core.js";

// ---- the address: #name:slider=value&slider=value;other-name:... ----------------------------------------------------
const parts = (hash = location.hash) => hash.slice(1).split(";").filter((part) => part.includes(":"));
const written = (name, state) =>
  `${name}:${Object.entries(state).map(([key, value]) => `${encodeURIComponent(key)}=${encodeURIComponent(value)}`).join("&")}`;

// Keeps the figure's state in the page's address and follows it; returns what to call when the state has changed.
export const addressOf = (figure, name, { sliders, named, put }) => {
  const twins = [...document.querySelectorAll("figure[data-name]")].filter((other) => other.dataset.title === name).length;
  Object.assign(figure.dataset, { title: name, name: twins ? `${name}-${twins + 1}` : name });
  if (!linkable(figure) || !sliders.length) return () => {};
  const own = figure.dataset.name, first = named();
  const ours = (part) => part.startsWith(`${own}:`);
  let waiting = 0;
  const settle = () => {
    clearTimeout(waiting);
    waiting = 0;
    const state = named(), moved = sliders.some((slider) => state[slider.name] !== first[slider.name]);
    const hash = [...parts().filter((part) => !ours(part)), ...(moved ? [written(own, state)] : [])].join(";");
    try {
      history.replaceState(history.state, "", hash ? `#${hash}` : location.pathname + location.search);
    } catch {
      // A page without an address, such as a frame of its own, keeps its state to itself.
    }
  };
  const take = (part) => {
    const given = new URLSearchParams(part.slice(own.length + 1)), state = {};
    for (const { name: key, keys, numeric } of sliders) {
      const text = given.get(key);
      if (text === null) continue;
      const near = (best, one) => (Math.abs(one - text) < Math.abs(best - text) ? one : best);
      if (numeric && text && defined(Number(text))) state[key] = keys.reduce(near);
      else if (keys.includes(text)) state[key] = text;
    }
    delete figure.dataset.asks;
    for (let fold = figure.closest("details"); fold; fold = fold.parentNode.closest("details")) fold.open = true;
    put(state);
  };
  const follow = () => {
    const part = parts().find(ours);
    if (!part) return;
    take(part);
    const { top } = figure.getBoundingClientRect();
    if (parts()[0] === part && (top < 0 || top > window.innerHeight * 0.4)) figure.scrollIntoView();
  };
  // Words of the page set the figure: it comes into view only if less than a third of it is seen, and nothing else moves.
  const obey = (event) => {
    const link = event.target.closest("a[href^='#']"), part = link && parts(link.hash).find(ours);
    if (!part || event.ctrlKey || event.metaKey || event.shiftKey) return;
    event.preventDefault();
    take(part);
    settle();
    const { top, bottom, height } = figure.getBoundingClientRect(), seen = Math.min(bottom, innerHeight) - Math.max(top, 0);
    const calm = window.matchMedia("(prefers-reduced-motion: reduce)").matches;
    if (seen < Math.min(height, innerHeight) / 3) figure.scrollIntoView({ block: "nearest", behavior: calm ? "auto" : "smooth" });
  };
  document.addEventListener("click", obey);
  window.addEventListener("hashchange", follow);
  window.addEventListener("pagehide", () => waiting && settle());
  follow();
  // Browsers refuse addresses that change many times a second, as a moving slider would.
  return () => {
    clearTimeout(waiting);
    waiting = setTimeout(settle, 120);
  };
};

// ---- numbers as CSV: one row for each number that is drawn -----------------------------------------------------------
const ROWS = {
  heatmap: ({ rows, columns, frames, row_labels, column_labels }, at) => {
    const [values, down, across] = [at(frames), everyLabel(at(row_labels), rows), everyLabel(at(column_labels), columns)];
    return rangeOf(rows * columns).map((cell) => {
      const [row, column] = [Math.floor(cell / columns), cell % columns];
      return [down[row], across[column], values[cell]];
    });
  },
  lines: (panel, at) => ofSeries(panel, at, panel.x.v),
  bars: (panel, at) => ofSeries(panel, at, everyLabel(at(panel.labels), panel.bars)),
  points: ({ points, labels, groups, group_labels, frames }, at) =>
    rangeOf(points).map((point) => [labels[point] || group_labels[at(groups)[point]], ...at(frames).slice(2 * point, 2 * point + 2)]),
  readout: ({ rows }, at) => rows.map((row) => [row.label, "", at(row)[0]]),
};
const ofSeries = (panel, at, axis) => {
  const [values, lower, upper] = [at(panel.frames), at(panel.lower), at(panel.upper)];
  return panel.series.flatMap((name, series) => axis.map((x, place) => {
    const index = series * axis.length + place;
    return [name, x, values[index], ...(lower ? [lower[index], upper[index]] : [])];
  }));
};
const quoted = (value) => {
  const text = String(value ?? "");
  return /[",\n\r]/.test(text) ? `"${text.replace(/"/g, '""')}"` : text;
};
// The state, a title -> value mapping, stands in every row; rows are [panel, series, x, y, lower, upper], cut short at will.
export const csvOf = (state, rows) => {
  const body = rows.map((row) => [...Object.values(state), ...row]);
  const head = [...Object.keys(state), "panel", "series", "x", "y", "lower", "upper"];
  return [head, ...body].map((row) => rangeOf(head.length).map((place) => quoted(row[place])).join(",")).join("\r\n") + "\r\n";
};

// ---- drawings as one SVG: as on the page, with their looks written into them -----------------------------------------
const LOOKS = [
  "fill", "stroke", "stroke-width", "stroke-dasharray", "stroke-linecap", "stroke-linejoin", "opacity", "font-size",
  "font-weight", "font-family", "paint-order", "text-anchor", "image-rendering",
];
const looks = (one, names) => {
  const style = getComputedStyle(one);
  return names.map((name) => `${name}:${style.getPropertyValue(name)}`).join(";");
};
const WRITTEN = [
  ".posym-label", ".posym-value", ".posym-number", ".posym-slider select", ".posym-title", ".posym-readout span",
  ".posym-live-form select", ".posym-live-form input[type=text]", ".posym-live-form textarea", ".posym-hop-row > :is(span, button)",
].join(", ");
export const svgOf = (figure) => {
  const edge = figure.getBoundingClientRect(), place = (one) => {
    const { left, top, width, height } = one.getBoundingClientRect();
    return { x: tenth(left - edge.left), y: tenth(top - edge.top), width: tenth(width), height: tenth(height) };
  };
  const below = place(figure.querySelector(".posym-panels, .posym-live-panels")), size = [tenth(edge.width), below.y + below.height + 12];
  const svg = node(null, "svg", { xmlns: "http://www.w3.org/2000/svg", viewBox: `0 0 ${size.join(" ")}`, width: size[0], height: size[1] });
  node(svg, "desc", {}, figure.querySelector("figcaption").textContent.trim());
  node(svg, "rect", { width: size[0], height: size[1], fill: getComputedStyle(figure).borderTopColor });
  for (const one of figure.querySelectorAll(WRITTEN)) {
    const { x, y, height } = place(one), text = one.selectedOptions ? one.selectedOptions[0].text : one.value ?? one.textContent;
    const style = `${looks(one, ["font-size", "font-weight", "font-family"])};fill:${getComputedStyle(one).color}`;
    node(svg, "text", { x, y: tenth(y + height / 2 + 5), style }, text);
  }
  for (const drawn of figure.querySelectorAll(".posym-drawing > svg, .posym-live-plane")) {
    const copy = drawn.cloneNode(true), [from, to] = [drawn, copy].map((root) => [...root.querySelectorAll("*")]);
    from.forEach((one, index) => (to[index].removeAttribute("class"), to[index].setAttribute("style", looks(one, LOOKS))));
    for (const [key, value] of Object.entries(place(drawn))) copy.setAttribute(key, value);
    copy.removeAttribute("class");
    copy.setAttribute("overflow", "visible");
    svg.append(copy);
  }
  return new XMLSerializer().serializeToString(svg);
};

// ---- the figure as a page of its own ---------------------------------------------------------------------------------
const pageOf = (figure, model) => {
  const copy = figure.cloneNode(true), own = [...figure.querySelectorAll(".posym-sliders input, .posym-sliders select")];
  copy.querySelectorAll(".posym-sliders input").forEach((input) => input.setAttribute("value", input.value));
  copy.querySelectorAll(".posym-sliders select").forEach((list) => {
    const chosen = own.find((one) => one.name === list.name).value;
    for (const option of list.options) option.toggleAttribute("selected", option.value === chosen);
  });
  copy.querySelectorAll(".posym-keep, .posym-tip").forEach((one) => one.remove());
  copy.querySelectorAll(".posym-drawing").forEach((one) => one.replaceChildren());
  for (const name of ["ready", "name", "title", "asks"]) delete copy.dataset[name];
  copy.querySelector("figcaption").textContent = model.get("data").caption;
  model.alone(copy);
  const head = '<meta charset="utf-8">\n<meta name="viewport" content="width=device-width, initial-scale=1">';
  const title = element(null, "title", {}, document.title).outerHTML;
  return `<!doctype html>\n<html lang="en">\n<head>\n${head}\n${title}\n</head>\n<body>\n${copy.outerHTML}\n</body>\n</html>\n`;
};

const PAGE_PATIENCE = 10_000; // milliseconds without the page after which no kernel is thought to be there
const download = (name, type, text) => {
  const link = element(null, "a", { href: URL.createObjectURL(new Blob([text], { type })), download: name });
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
};

// A fold under the caption: what adds a button to it, what downloads a file, and where it says what it did.
export const keepFold = (figure, name) => {
  const fold = element(figure, "details", { class: "posym-keep mathjax_ignore" });
  element(fold, "summary", {}, "Keep this figure");
  const row = element(fold, "p"), said = element(fold, "p", { class: "posym-said", role: "status" });
  const add = (label, title, act) =>
    element(row, "button", { type: "button", title }, label).addEventListener("click", async () => {
      said.textContent = await act();
    });
  const keep = (kind, type, text) => (download(`${name}.${kind}`, type, text), `${name}.${kind} is with your downloads.`);
  return { add, keep, said };
};
export const addDrawings = ({ add, keep }, svg, csv) => {
  add("SVG", "Save the drawings as they stand", () => keep("svg", "image/svg+xml", svg()));
  add("CSV", "Save the numbers that are shown", () => keep("csv", "text/csv", csv()));
};

// A field of any text in the address, beside sliders.
export const fieldOf = (name) => ({ name, keys: { includes: () => true } });

// Copies the address of a figure whose state `named()` tells.
export const addLink = ({ add }, figure, named) =>
  linkable(figure) && add("Link", "Copy the address of this figure as it stands", async () => {
    const address = `${location.href.split("#")[0]}#${written(figure.dataset.name, named())}`;
    history.replaceState(history.state, "", address);
    try {
      await navigator.clipboard.writeText(address);
      return "The link is copied, and stands in the address bar.";
    } catch {
      return "The link stands in the address bar.";
    }
  });

// The fold of a slider figure, with all that can be kept of it.
export const addTools = (figure, model, { name, sliders, settled, panels }) => {
  const tools = keepFold(figure, name), { add, keep, said } = tools;
  if (!model.send && sliders.length) addLink(tools, figure, settled);
  const rows = () => panels().flatMap(([panel, at]) => ROWS[panel.kind](panel, at).map((row) => [panel.title, ...row]));
  addDrawings(tools, () => (settled(), svgOf(figure)), () => csvOf(settled(), rows()));
  let late = 0;
  const arrived = (page) => (clearTimeout(late), (said.textContent = keep("html", "text/html", page)));
  if (model.send) model.on("msg:custom", ({ page }) => page && arrived(page));
  add("Page", "Save the figure as a page that stands alone, to embed or to show", () => {
    if (!model.send) return keep("html", "text/html", pageOf(figure, model));
    clearTimeout(late);
    late = setTimeout(() => (said.textContent = `The kernel does not answer, so there is no ${name}.html.`), PAGE_PATIENCE);
    model.send({ wanted: "page" });
    return `The kernel is asked for ${name}.html.`;
  });
};
