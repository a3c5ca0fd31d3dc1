// What the scripts of the figures share: numbers as texts and colours, parts of drawings, and how figures start, follow
// the pointer and show their sliders. An ES module; on a page it stands in one closure with the script that uses it.

// ---- numbers --------------------------------------------------------------------------------------------------------
export const tenth = (value) => Math.round(value * 10) / 10;
export const clamp = (value, low, high) => Math.min(high, Math.max(low, value));
export const defined = Number.isFinite;
export const rangeOf = (count) => Array.from({ length: count }, (_, index) => index);

export const write = (value, decimals) => {
  if (!defined(value)) return "undefined";
  const size = Math.abs(value);
  let text;
  if (decimals !== undefined && decimals !== null) text = value.toFixed(decimals);
  else if (size !== 0 && (size < 1e-3 || size >= 1e5)) text = value.toExponential(2).replace(/\.?0+e/, "e").replace("e+", "e");
  else text = String(Number(value.toPrecision(4)));
  return /^-[0.]*$/.test(text) ? text.slice(1) : text.replace(/-/g, "−");
};

export const scale = (log, [low, high], from, to) => {
  const turn = log ? Math.log10 : (value) => value;
  const start = turn(low), size = turn(high) - start;
  return (value) => from + ((turn(value) - start) / size) * (to - from);
};

export const ticks = (log, [low, high], count) => {
  if (log) {
    const decades = Math.log10(high / low);
    const factors = decades > 2 ? [1] : decades > 0.8 ? [1, 2, 5] : [1, 1.5, 2, 3, 4, 5, 7];
    const stride = Math.max(1, Math.ceil(decades / Math.max(count, 2)));
    const all = [];
    for (let power = Math.floor(Math.log10(low)); power <= Math.log10(high) + 1e-9; power++) {
      if (power % stride) continue;
      for (const factor of factors) {
        const value = Number((factor * 10 ** power).toPrecision(6));
        if (value >= low * 0.9999 && value <= high * 1.0001) all.push(value);
      }
    }
    return all.map((value) => ({ value, text: write(value) }));
  }
  const rough = (high - low) / Math.max(count, 1);
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((factor) => factor * power).find((size) => size >= rough * 0.999);
  const decimals = Math.max(0, -Math.floor(Math.log10(step) + 1e-9));
  const all = [];
  for (let place = Math.ceil(low / step - 1e-6); place * step <= high + step * 1e-6; place++) {
    const value = place * step;
    all.push({ value, text: decimals > 5 || Math.abs(high) >= 1e6 ? write(Number(value.toPrecision(6))) : write(value, decimals) });
  }
  return all;
};

// A label for each item: where ticks in between have none and the others count, they count too.
export const everyLabel = (labels, count) => {
  const first = labels.findIndex((text) => text !== ""), start = first < 0 ? 0 : Number(labels[first]) - first;
  const counts = labels.every((text, place) => text === "" || Number(text) === start + place);
  return rangeOf(count).map((place) => labels[place] || String(counts ? start + place : place));
};

// ---- colours --------------------------------------------------------------------------------------------------------
const MAPS = {
  diverging: {
    light:
      "15508d1d5fa2266caf2f79b53885bc4291c2569fc96bacd181bad896c7dfa7d0e4b8d8e9cae1eed7e8f1e1edf3ecf2f5f7f6f6f9f0e4fbead2fde4c0fedbacfed095fdc57ffdba68f7ac52ef9e3ce78f27de8013d27510c6690cb95e08ac54069e4c07",
    dark:
      "a9dcf799d4f48acdf27ac5ef6bbeec5bb6ea4eabe0449ed33991c62e84b82377ab1c6a9b1e5d851f4f6f20425922354325292e3d3327563d206f4719875112a05b0caf6709bb7307c78005d38c03df9801e8a40dedb02bf1bc48f6c866fbd484ffdf9e",
  },
  sequential: {
    light:
      "440154470d6048186a482374472d7b4537814240863e49893b528b375b8d33638d2f6b8e2c728e297a8e26828e23898e21918c1f988b1fa08822a78528ae8032b67a3fbc734ec36b5ec96270cf5784d44b98d83eaddc30c2df23d8e219ece51bfde725",
  },
};
MAPS.sequential.dark = MAPS.sequential.light;

export const shade = (map, scheme, share) => {
  const table = MAPS[map][scheme], last = table.length / 6 - 1;
  const at = clamp(share, 0, 1) * last, lower = Math.min(Math.floor(at), last - 1);
  const channel = (stop, place) => parseInt(table.substr(stop * 6 + place * 2, 2), 16);
  return [0, 1, 2].map((place) =>
    Math.round(channel(lower, place) + (at - lower) * (channel(lower + 1, place) - channel(lower, place))));
};
export const css = (rgb) => `rgb(${rgb.join(",")})`;
export const bright = ([red, green, blue]) => 0.299 * red + 0.587 * green + 0.114 * blue > 140;

// ---- parts of drawings -----------------------------------------------------------------------------------------------
const SVG = "http://www.w3.org/2000/svg";

const filled = (made, attributes, text, parent) => {
  for (const key in attributes) if (attributes[key] !== null) made.setAttribute(key, attributes[key]);
  if (text !== undefined) made.textContent = text;
  if (parent) parent.append(made);
  return made;
};
export const node = (parent, name, attributes = {}, text) => filled(document.createElementNS(SVG, name), attributes, text, parent);
export const element = (parent, name, attributes = {}, text) => filled(document.createElement(name), attributes, text, parent);
export const canvas = (width, height) => node(null, "svg", { viewBox: `0 0 ${width} ${height}`, "aria-hidden": "true" });

// A text beside a place: its look is a list of classes, its anchor the end that stands at the place.
export const putText = (parent, x, y, text, { look = "posym-soft", anchor = null, ...more } = {}) =>
  node(parent, "text", { x: tenth(x), y: tenth(y), class: `posym-text ${look}`.trim(), "text-anchor": anchor, ...more }, text);
export const putLine = (parent, x1, y1, x2, y2, look) =>
  node(parent, "line", { x1: tenth(x1), y1: tenth(y1), x2: tenth(x2), y2: tenth(y2), class: look });
// A horizontal line across the drawing at a tick of the upright axis, with its number at the left.
export const level = (parent, left, right, y, text, look = "posym-grid") => {
  putLine(parent, left, y, right, y, look);
  putText(parent, left - 7, y + 4, text, { anchor: "end" });
};

// Widths of texts in the figure's font, kept until the font changes.
export const ruler = (figure) => {
  const context = document.createElement("canvas").getContext("2d"), widths = new Map();
  const measure = (text, weight = "") => {
    const key = weight + text;
    if (!widths.has(key)) {
      context.font = `${weight} 12px ${getComputedStyle(figure).fontFamily}`;
      widths.set(key, context.measureText(text).width);
    }
    return widths.get(key);
  };
  return { measure, forget: () => widths.clear() };
};

// Fonts that arrive late, and styles that hold only once the page is read to its end, change the widths of labels.
export const whenFontsChange = (act) => {
  if (document.fonts) document.fonts.ready.then(act);
  if (document.readyState === "loading") document.addEventListener("DOMContentLoaded", act, { once: true });
};

// ---- figures ---------------------------------------------------------------------------------------------------------
// Rows of label and value. They are made once and only changed cells are written, so that a screen reader says what is new.
export const fillTable = (box, rows) =>
  rows.forEach(([name, text], place) => {
    if (!box.children[place]) {
      const row = element(box, "div", { role: "row" });
      element(row, "span", { role: "rowheader" }, name);
      element(row, "span", { role: "cell" });
    }
    const cell = box.children[place].lastChild;
    if (cell.textContent === text) return;
    cell.textContent = text;
    cell.className = text === "undefined" ? "posym-undefined" : "posym-defined";
  });

// A slider's setting as the reader sees and hears it, or a text for what lies between settings; a list shows its own.
export const showSetting = (input, between) => {
  if (!input.dataset.texts) return;
  const text = between ?? JSON.parse(input.dataset.texts)[Number(input.value)];
  const shown = input.closest(".posym-slider").querySelector(".posym-value");
  if (shown) shown.textContent = text;
  input.setAttribute("aria-valuetext", text);
  input.style.setProperty("--posym-done", `${(100 * input.value) / Math.max(1, input.max)}%`);
};

// A drawing says beside the pointer what stands there: hint(x, y, event) is a text or null. A finger, which scrolls the
// page where it moves, is answered only where it taps and `touch` says so.
export const hover = (box, hint, { touch = false } = {}) => {
  const tip = element(box.parentNode, "div", { class: "posym-tip" });
  tip.hidden = true;
  const say = (event) => {
    const edge = box.getBoundingClientRect();
    const [x, y] = [event.clientX - edge.left, event.clientY - edge.top];
    const text = event.pointerType === "touch" && event.type !== "click" ? null : hint(x, y, event);
    tip.hidden = !text;
    if (!text) return;
    tip.textContent = text;
    tip.style.left = `${clamp(x + box.offsetLeft, 0, Math.max(0, box.offsetLeft + box.clientWidth - tip.offsetWidth))}px`;
    tip.style.top = `${box.offsetTop + y + (y > 40 ? -34 : 18)}px`;
  };
  box.addEventListener("pointermove", say);
  if (touch) box.addEventListener("click", say);
  box.addEventListener("pointerleave", () => (tip.hidden = true));
};

export const schemeOf = (figure) => getComputedStyle(figure).getPropertyValue("--posym-scheme").trim() || "light";

// Notebook programs have addresses of their own; only a page carries the state of its figures in its address.
export const linkable = (figure) =>
  figure.dataset.host !== "colab" && !document.body.dataset.jpThemeLight && !/vscode-/.test(document.body.className);

// Calls start(figure, data) for each figure of the page or frame that has come in whole and has not started.
export const startAll = (kind, start) => {
  const root = document.currentScript ? document.currentScript.getRootNode() : document;
  root.querySelectorAll(`figure.posym-figure:not([data-ready])`).forEach((figure) => {
    const data = figure.querySelector(`script.${kind}`);
    if (!data) return;
    figure.dataset.ready = "true";
    if (window.google && window.google.colab) figure.dataset.host = "colab";
    const begin = () => start(figure, JSON.parse(data.textContent));
    if (data.dataset.from) whenNear(figure, () => (element(figure, "script", { src: data.dataset.from }).onload = begin));
    else begin();
  });
};

// Acts once a part of the page is within two screens, or once the address asks for something on the page.
const whenNear = (part, act) => {
  let waits = true;
  const once = (near) => near && waits && ((waits = false), act());
  window.addEventListener("hashchange", () => once(true));
  new IntersectionObserver((seen) => once(seen.some((one) => one.isIntersecting)), { rootMargin: "200%" }).observe(part);
  once(location.hash);
};
