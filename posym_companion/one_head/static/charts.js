// Small charts of lines that are drawn again while numbers come in.
import { canvas, css, level, node, putLine, putText, scale, shade, tenth, ticks } from "../../../posym_figures/static/core.js";

const pathOf = (points, x, y) =>
  points.map(([px, py], place) => `${place && Number.isFinite(points[place - 1][1]) ? "L" : "M"}${tenth(x(px))} ${tenth(y(py))}`).join("");

// Lines over a common axis. series: [{ points: [[x, y], ...], colour, dashed, thin, dots, label }], bands: [{ low, high, colour }]
// with points as well, marks: [{ at, label }], upright dotted lines. Labels stand above the drawing, each in its colour.
// The first of xLimits is the left end, the greater number or the lesser. The box knows what it shows, for numbers as CSV;
// a series without a label has a name there.
export const chart = (box, measure, { series, bands = [], marks = [], xLog = false, xLimits, yLimits, xLabel, note = "" }) => {
  const width = box.clientWidth || 320, height = box.clientHeight || 200;
  const svg = canvas(width, height), bottom = height - 38;
  const upright = ticks(false, yLimits, (bottom - 24) / 36);
  const left = Math.ceil(Math.max(...upright.map(({ text }) => measure(text)))) + 9, right = width - 18;
  // Labels go on in a second line where one is too short.
  let from = left, line = 0;
  const labels = [...series, ...marks.map(({ label }) => ({ label: `┊ ${label}` }))].filter(({ label }) => label).map(({ label, colour }) => {
    const wide = measure(label, "600 ");
    if (from > left && from + wide > right) (from = left), line++;
    from += wide + 14;
    return { text: label, colour, x: from - wide - 14, y: 12 + 15 * line };
  });
  const top = 24 + 15 * line;
  const x = scale(xLog, xLimits, left, right), y = scale(false, yLimits, bottom, top);
  for (const { value, text } of upright) level(svg, left, right, y(value), text);
  for (const { value, text } of ticks(xLog, [Math.min(...xLimits), Math.max(...xLimits)], (right - left) / 60)) {
    putLine(svg, x(value), bottom, x(value), bottom + 4, "posym-axis");
    putText(svg, x(value), bottom + 17, text, { anchor: "middle" });
  }
  putLine(svg, left, bottom, right, bottom, "posym-axis");
  putText(svg, right + 10, height - 4, xLabel, { anchor: "end" });
  for (const { low, high, colour } of bands)
    node(svg, "path", { d: `${pathOf(low, x, y)}${pathOf([...high].reverse(), x, y).replace("M", "L")}Z`, class: `posym-band posym-c${colour}` });
  for (const { at } of marks) putLine(svg, x(at), top, x(at), bottom, "posym-marker");
  for (const { text, colour, x: at, y: height } of labels) putText(svg, at, height, text, { look: colour === undefined ? "" : `posym-ink posym-c${colour}` });
  for (const { points, colour, dashed, thin, dots } of series) {
    const drawn = points.filter(([, value]) => Number.isFinite(value));
    if (dots) for (const [px, py] of drawn) node(svg, "circle", { cx: tenth(x(px)), cy: tenth(y(py)), r: dots, class: `posym-fill posym-dot posym-c${colour}` });
    else if (drawn.length)
      node(svg, "path", {
        d: pathOf(drawn, x, y), class: `posym-line posym-c${colour}`,
        style: `${dashed ? "stroke-dasharray:4 4;" : ""}${thin ? "stroke-width:1.2;" : ""}` || null,
      });
  }
  if (note) putText(svg, left + 6, top + 16, note);
  box.replaceChildren(svg);
  shown.set(box, { series, bands });
};

const shown = new WeakMap();
// What a chart shows, a row for each number: series, x, y, and for a band its lower and upper end.
export const rowsOf = (box) => {
  const { series = [], bands = [] } = shown.get(box) || {};
  return [
    ...series.flatMap(({ points, label, name }) => points.map(([x, y]) => [label || name || "", x, y])),
    ...bands.flatMap(({ low, high }) => low.map(([x, lower], place) => ["lowest to highest seed", x, "", lower, high[place][1]])),
  ];
};

// Keys as dots and queries as rings in the unit circle of one plane, shaded in order.
export const arrowPlane = (box, scheme, { keys, queries, title }) => {
  const size = 150, svg = node(box, "svg", { viewBox: `0 0 ${size} ${size + 20}`, "aria-hidden": "true", class: "posym-live-plane" });
  const middle = size / 2, reach = size / 2 - 8;
  putText(svg, middle, 12, title, { anchor: "middle" });
  const place = (value) => tenth(middle + value * reach), down = (value) => tenth(middle + 18 - value * reach);
  node(svg, "circle", { cx: middle, cy: middle + 18, r: reach, class: "posym-guide" });
  putLine(svg, middle, 26, middle, size + 10, "posym-grid");
  putLine(svg, 8, middle + 18, size - 8, middle + 18, "posym-grid");
  const longest = (points) => Math.max(1e-9, ...points.map(([x, y]) => Math.hypot(x, y)));
  for (const [points, hollow] of [[queries, true], [keys, false]]) {
    const most = longest(points);
    points.forEach(([px, py], number) => {
      // The dark end of the colours is left out where the page is dark.
      const order = points.length > 1 ? number / (points.length - 1) : 0, dark = scheme === "dark" ? 0.25 : 0;
      const paint = css(shade("sequential", scheme, dark + (1 - dark) * order));
      const look = hollow ? { fill: "none", stroke: paint, "stroke-width": 1.6, r: 4.2 } : { fill: paint, r: 3, class: "posym-dot" };
      node(svg, "circle", { cx: place(px / most), cy: down(py / most), ...look });
    });
  }
};
