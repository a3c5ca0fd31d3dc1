// How each kind of panel is drawn. Every number comes prepared; these functions only place and colour it.
import {
  bright, clamp, css, defined, everyLabel, level, node, putLine, putText, rangeOf, scale, shade, tenth, ticks, write,
} from "./core.js";

const strideOf = (least) => [1, 2, 5, 10, 20, 50, 100].find((stride) => stride >= least) || Math.ceil(least);
const shorter = (text, length) => (text.length > length ? text.slice(0, length - 1) + "…" : text);

// A text in lines that fit a width, broken between words.
const broken = (text, width, measure) =>
  text.split(" ").reduce((lines, word) => {
    const longer = lines.length ? `${lines[lines.length - 1]} ${word}` : word;
    return lines.length && measure(longer) <= width ? [...lines.slice(0, -1), longer] : [...lines, word];
  }, []);

// Labels beside curve ends: pushed apart so that none covers another.
const spread = (places, gap, low, high) => {
  const order = places.map((place, index) => ({ place: clamp(place, low, high), index })).sort((a, b) => a.place - b.place);
  for (let i = 1; i < order.length; i++) order[i].place = Math.max(order[i].place, order[i - 1].place + gap);
  for (let i = order.length - 1, top = high; i >= 0; i--, top = order[i + 1].place - gap)
    order[i].place = Math.min(order[i].place, top);
  const result = [];
  for (const { place, index } of order) result[index] = place;
  return result;
};

const hatch = (parent, x, y, width, height) => {
  node(parent, "rect", { x: tenth(x), y: tenth(y), width: tenth(width), height: tenth(height), class: "posym-void" });
  let path = "";
  for (let at = -height + 5; at < width; at += 6) {
    const left = Math.max(at, 0), right = Math.min(at + height, width);
    if (right > left) path += `M${tenth(x + left)} ${tenth(y + height - (left - at))}L${tenth(x + right)} ${tenth(y + height - (right - at))}`;
  }
  node(parent, "path", { d: path, class: "posym-hatch" });
};

const legend = (pen, names, colours, y) => {
  let x = 0, row = y;
  names.forEach((name, index) => {
    const width = pen.measure(name) + 30;
    if (x && x + width - 12 > pen.width) (x = 0), (row += 18);
    node(pen.svg, "rect", { x, y: row + 1, width: 11, height: 11, rx: 2, class: `posym-fill posym-c${colours[index]}` });
    putText(pen.svg, x + 16, row + 11, name, { look: "" });
    x += width;
  });
  return row + 22;
};

// Axes with light horizontal lines; returns the scales and the area.
const axes = (pen, panel, area, options = {}) => {
  const { svg } = pen, { left, right, top, bottom } = area;
  const y = scale(panel.y_log, panel.y_limits, bottom, top);
  for (const tick of area.yTicks) level(svg, left, right, y(tick.value), tick.text);
  if (panel.y_label) putText(svg, area.labelX || 0, area.labelY, panel.y_label);
  if (panel.x_label) putText(svg, (left + right) / 2, pen.height - 4, panel.x_label, { anchor: "middle" });
  let x = null;
  if (panel.x_limits) {
    x = scale(panel.x_log, panel.x_limits, left, right);
    let end = -Infinity;
    for (const tick of ticks(panel.x_log, panel.x_limits, Math.max(2, (right - left) / 70))) {
      const at = tenth(x(tick.value)), half = pen.measure(tick.text) / 2;
      putLine(svg, at, bottom, at, bottom + 4, "posym-axis");
      if (at - half < end + 6) continue;
      putText(svg, at, bottom + 17, tick.text, { anchor: "middle" });
      end = at + half;
    }
  }
  const zero = !panel.y_log && panel.y_limits[0] < 0 && panel.y_limits[1] > 0;
  const base = options.baseAtZero && zero ? tenth(y(0)) : bottom;
  putLine(svg, left, base, right, base, "posym-axis");
  return { x, y };
};

const plotArea = (pen, panel, top, right) => {
  const bottom = pen.height - (panel.x_label ? 40 : 24);
  let labelY = 0;
  if (panel.y_label) (labelY = top + 11), (top += 24);
  else top += 8;
  const yTicks = ticks(panel.y_log, panel.y_limits, Math.max(2, (bottom - top) / 38));
  const left = Math.ceil(Math.max(...yTicks.map((tick) => pen.measure(tick.text)), 8)) + 9;
  return { left, right: pen.width - right, top, bottom, yTicks, labelY };
};

// ---- one drawing for each kind of panel: (panel, at, pen) -> what a point of the drawing says ------------------------
function heatmap(panel, at, pen) {
  const { svg, measure } = pen, { rows, columns, limits } = panel;
  const values = at(panel.frames), outlined = at(panel.outlined);
  const rowLabels = at(panel.row_labels), columnLabels = at(panel.column_labels);
  const bar = panel.colour_bar ? Math.max(...barTicks(limits).map(([value]) => measure(write(value)))) + 30 : 0;
  let left = rowLabels.length ? Math.max(...rowLabels.map((text) => measure(shorter(text, 14)))) + 8 : 0;
  let top = panel.y_label ? 22 : 2;
  const under = (columnLabels.length ? 20 : 4) + (panel.x_label ? 18 : 0);
  let width = pen.width - left - bar - 1, height = pen.height - top - under;
  if (columns / rows > 0.5 && columns / rows < 2) {
    const cell = Math.min(width / columns, height / rows);
    const spare = width - cell * columns;
    if (spare > 0.4 * pen.width) left += spare / 2;
    (width = cell * columns), (height = cell * rows);
  }
  const cellWidth = width / columns, cellHeight = height / rows;
  const share = (value) => (value - limits[0]) / (limits[1] - limits[0]);
  const colour = (value) => shade(panel.colours, pen.scheme, share(value));
  const gap = rows * columns <= 400 ? Math.min(1.5, cellWidth / 12, cellHeight / 12) : 0;
  if (gap) {
    rangeOf(rows * columns).forEach((index) => {
      const x = left + (index % columns) * cellWidth, y = top + Math.floor(index / columns) * cellHeight;
      const value = values[index];
      if (!defined(value)) hatch(svg, x, y, cellWidth - gap, cellHeight - gap);
      else node(svg, "rect", { x: tenth(x), y: tenth(y), width: tenth(cellWidth - gap), height: tenth(cellHeight - gap), rx: gap ? 2 : 0, fill: css(colour(value)) });
      if (panel.decimals === null) return;
      let text = defined(value) ? write(value, panel.decimals) : cellWidth > 64 ? "undefined" : "?";
      for (let decimals = panel.decimals; defined(value) && decimals > 0 && measure(text) >= cellWidth - 2; )
        text = write(value, --decimals); // fewer places rather than no number
      const ink = !defined(value) ? "posym-soft" : bright(colour(value)) ? "posym-on-bright" : "posym-on-dark";
      if (measure(text) < cellWidth - 2 || !defined(value))
        putText(svg, x + (cellWidth - gap) / 2, y + cellHeight / 2 + 4, text, { look: `${ink}`, anchor: "middle" });
    });
  } else {
    // Big matrices go through one bitmap: thousands of rectangles would make the slider lag.
    const canvas = document.createElement("canvas");
    (canvas.width = columns), (canvas.height = rows);
    const context = canvas.getContext("2d"), image = context.createImageData(columns, rows);
    values.forEach((value, index) => {
      if (defined(value)) image.data.set([...colour(value), 255], index * 4);
    });
    context.putImageData(image, 0, 0);
    if (values.some((value) => !defined(value))) hatch(svg, left, top, width, height);
    node(svg, "image", { x: tenth(left), y: tenth(top), width: tenth(width), height: tenth(height), preserveAspectRatio: "none", style: "image-rendering:pixelated", href: canvas.toDataURL() });
  }
  if (outlined)
    outlined.forEach((on, index) => {
      if (!on) return;
      const x = left + (index % columns) * cellWidth, y = top + Math.floor(index / columns) * cellHeight;
      node(svg, "rect", { x: tenth(x + 0.5), y: tenth(y + 0.5), width: tenth(cellWidth - gap - 1), height: tenth(cellHeight - gap - 1), rx: gap ? 2 : 0, class: "posym-outline" });
    });
  const rowStride = strideOf(14 / cellHeight);
  rowLabels.forEach((text, row) => {
    if (row % rowStride) return;
    putText(svg, left - 6, top + (row + 0.5) * cellHeight + 4, shorter(text, 14), { anchor: "end" });
  });
  const columnStride = strideOf((Math.max(0, ...columnLabels.map((text) => measure(text))) + 5) / cellWidth);
  columnLabels.forEach((text, column) => {
    if (column % columnStride) return;
    const x = left + (column + 0.5) * cellWidth;
    putText(svg, x - gap / 2, top + height + 16, text, { anchor: "middle" });
  });
  if (panel.y_label) putText(svg, Math.max(0, left - 12), 12, "↓ " + panel.y_label);
  if (panel.x_label) putText(svg, left + width / 2, top + height + under - 3, panel.x_label + " →", { anchor: "middle" });
  if (bar) colourBar(pen, panel.colours, limits, left + width + 14, top, Math.max(60, height));
  return (x, y) => {
    const column = Math.floor((x - left) / cellWidth), row = Math.floor((y - top) / cellHeight);
    if (column < 0 || row < 0 || column >= columns || row >= rows) return null;
    const name = (label, labels, count, place) => `${label || "·"} ${everyLabel(labels, count)[place]}`;
    return `${name(panel.y_label, rowLabels, rows, row)}, ${name(panel.x_label, columnLabels, columns, column)}: ${write(values[row * columns + column])}`;
  };
}

const barTicks = ([low, high]) => {
  const middle = (low + high) / 2, tiny = 1e-6 * (high - low);
  const ends = [[low, 0], [high, 1]].map(([value, share]) => [Number(value.toPrecision(3)), share]);
  return Math.abs(middle) < tiny ? [...ends, [0, 0.5]] : ends;
};

const colourBar = (pen, map, limits, x, top, height) => {
  const steps = 32;
  for (let step = 0; step < steps; step++)
    node(pen.svg, "rect", { x: tenth(x), y: tenth(top + (height * step) / steps), width: 8, height: tenth(height / steps + 0.6), fill: css(shade(map, pen.scheme, 1 - (step + 0.5) / steps)) });
  for (const [value, share] of barTicks(limits))
    putText(pen.svg, x + 13, clamp(top + height * (1 - share) + 4, top + 9, top + height), write(value));
};

function lines(panel, at, pen) {
  const { svg, measure } = pen, count = panel.x.v.length, xs = panel.x.v;
  const values = at(panel.frames), lower = at(panel.lower), upper = at(panel.upper), reference = at(panel.reference);
  const number = panel.series.length;
  const names = panel.series.map((name, index) => {
    const gaps = values.slice(index * count, (index + 1) * count).filter((value) => !defined(value)).length;
    return !gaps ? name : `${name || "curve"}${gaps === count ? " undefined" : ""}`;
  });
  const labelled = [...names, ...panel.reference_labels];
  const widest = Math.max(0, ...labelled.map((name) => measure(name, "600 ")));
  const beside = widest > 0 && widest < pen.width * 0.3 && labelled.length * 15 < pen.height - 60;
  let top = 0;
  if (!beside && panel.series.some(Boolean)) top = legend(pen, names, panel.colours, 0);
  const area = plotArea(pen, panel, top, beside ? widest + 12 : 10);
  const { x, y } = axes(pen, panel, area);
  const inside = (value) => clamp(y(value), area.top - 2, area.bottom + 2);
  const path = (series) => {
    let text = "", open = false;
    series.forEach((value, point) => {
      if (!defined(value)) return void (open = false);
      text += `${open ? "L" : "M"}${tenth(x(xs[point]))} ${tenth(inside(value))}`;
      const next = series[point + 1];
      if (!open && !defined(next)) text += "h0.01";
      open = true;
    });
    return text;
  };
  const ends = [];
  const last = (series) => {
    const point = series.reduce((found, value, index) => (defined(value) ? index : found), -1);
    return point < 0 ? area.bottom : inside(series[point]);
  };
  rangeOf(reference ? reference.length / count : 0).forEach((index) => {
    const series = reference.slice(index * count, (index + 1) * count);
    node(svg, "path", { d: path(series), class: "posym-line posym-thin" });
    ends[number + index] = last(series);
  });
  const each = (field, index) => field.slice(index * count, (index + 1) * count);
  if (lower)
    rangeOf(number).forEach((index) => {
      const low = each(lower, index), high = each(upper, index);
      const known = rangeOf(count).filter((point) => defined(low[point]) && defined(high[point]));
      const edge = (field, points) => points.map((point) => `${tenth(x(xs[point]))} ${tenth(inside(field[point]))}`).join("L");
      if (known.length) node(svg, "path", { d: `M${edge(high, known)}L${edge(low, [...known].reverse())}Z`, class: `posym-band posym-c${panel.colours[index]}` });
    });
  rangeOf(number).reverse().forEach((index) => {
    const series = each(values, index);
    node(svg, "path", { d: path(series), class: `posym-line posym-c${panel.colours[index]}` });
    if (panel.dots)
      series.forEach((value, point) => {
        if (defined(value) && value >= panel.y_limits[0] && value <= panel.y_limits[1])
          node(svg, "circle", { cx: tenth(x(xs[point])), cy: tenth(y(value)), r: 3, class: `posym-fill posym-c${panel.colours[index]}` });
      });
    ends[index] = last(series);
  });
  if (beside) {
    const places = spread(rangeOf(labelled.length).map((index) => ends[index] ?? area.bottom), 15, area.top + 4, area.bottom - 2);
    labelled.forEach((name, index) => {
      const paint = index < number ? `posym-ink posym-c${panel.colours[index]}` : "posym-soft";
      putText(svg, area.right + 7, places[index] + 4, name, { look: `${paint}` });
    });
  }
  const marker = at(panel.marker);
  if (marker && defined(marker[0])) {
    const place = tenth(clamp(x(marker[0]), area.left, area.right));
    putLine(svg, place, area.top - 2, place, area.bottom, "posym-marker");
    const flip = place + measure(panel.marker_label) + 8 > area.right;
    if (panel.marker_label)
      putText(svg, place + (flip ? -5 : 5), area.top + 8, panel.marker_label, { look: "posym-strong posym-halo", anchor: flip ? "end" : "start" });
  }
  if (number === 1 && values.every((value) => !defined(value)))
    putText(svg, (area.left + area.right) / 2, (area.top + area.bottom) / 2, "undefined", { anchor: "middle" });
  return (px, py) => {
    if (px < area.left - 8 || px > area.right + 8 || py < area.top - 8 || py > area.bottom + 8) return null;
    const point = rangeOf(count).reduce((best, index) => (Math.abs(x(xs[index]) - px) < Math.abs(x(xs[best]) - px) ? index : best), 0);
    const texts = rangeOf(number).map((index) => `${panel.series[index] || panel.y_label || "value"} ${write(values[index * count + point])}`);
    return `${panel.x_label || "x"} ${write(xs[point])}: ${texts.join(", ")}`;
  };
}

function bars(panel, at, pen) {
  const { svg, measure } = pen, count = panel.bars, number = panel.series.length;
  const values = at(panel.frames), labels = at(panel.labels), lower = at(panel.lower), upper = at(panel.upper);
  const top = panel.series.some(Boolean) ? legend(pen, panel.series, panel.colours, 0) : 0;
  // Names of a few bars that are too long for one line take two or three.
  const written = labels.map((text) => (count > 12 ? [text] : broken(text, (pen.width - 50) / count - 6, measure)));
  const under = 14 * (Math.max(...written.map((lines) => lines.length), 1) - 1);
  const area = plotArea({ ...pen, height: pen.height - under }, panel, top + (panel.decimals === null ? 0 : 8), 6);
  const { y } = axes(pen, panel, area, { baseAtZero: true });
  const slot = (area.right - area.left) / count, across = panel.stacked ? 1 : number;
  const width = Math.max(1, (slot * (count > 24 ? 0.86 : 0.7)) / across);
  const zero = y(clamp(0, ...panel.y_limits)), highlight = at(panel.highlight);
  rangeOf(count).forEach((bar) => {
    const start = area.left + slot * bar + (slot - width * across) / 2;
    let above = 0, below = 0;
    rangeOf(number).forEach((index) => {
      const value = values[index * count + bar], x = start + (panel.stacked ? 0 : width * index);
      if (!defined(value)) {
        if (panel.stacked && index) return;
        hatch(svg, x, area.top, width, area.bottom - area.top);
        const [turnX, turnY] = [tenth(x + width / 2 + 4), tenth((area.top + area.bottom) / 2)];
        if (width >= 13)
          putText(svg, turnX, turnY, "undefined", { look: "posym-soft posym-halo", anchor: "middle", transform: `rotate(-90 ${turnX} ${turnY})` });
        return;
      }
      let from = zero, to = y(clamp(value, ...panel.y_limits));
      if (panel.stacked) {
        const begin = value < 0 ? below : above;
        (from = y(begin)), (to = y(begin + value));
        if (value < 0) below += value;
        else above += value;
      }
      const marked = highlight && highlight[0] === bar ? " posym-outline-bar" : "";
      node(svg, "rect", { x: tenth(x), y: tenth(Math.min(from, to)), width: tenth(Math.max(1, width - (number > 1 && !panel.stacked ? 1 : 0))), height: tenth(Math.abs(to - from)), class: `posym-fill posym-c${panel.colours[index]}${marked}` });
      let [low, high] = [to, to];
      if (lower && defined(lower[index * count + bar]) && defined(upper[index * count + bar])) {
        const middle = tenth(x + width / 2);
        (low = y(lower[index * count + bar])), (high = y(upper[index * count + bar]));
        putLine(svg, middle, low, middle, high, "posym-whisker");
      }
      const text = panel.decimals === null || panel.stacked ? "" : write(value, panel.decimals);
      if (text && measure(text) < width + 10)
        putText(svg, x + width / 2, value < 0 && low + 14 < area.bottom ? low + 14 : Math.min(high, zero) - 5, text, { look: "", anchor: "middle" });
    });
  });
  const room = count <= 12 ? Math.max(4, Math.floor(slot / 6.5)) : 99;
  const stride = strideOf((Math.max(0, ...written.flat().map((text) => measure(shorter(text, room)))) - 2) / slot);
  written.forEach((lines, bar) => {
    if (bar % stride) return;
    const look = highlight && highlight[0] === bar ? "posym-strong" : "posym-soft";
    lines.forEach((text, line) => putText(svg, area.left + slot * (bar + 0.5), area.bottom + 17 + 14 * line, shorter(text, room), { look, anchor: "middle" }));
  });
  return (px, py) => {
    const bar = Math.floor((px - area.left) / slot);
    if (bar < 0 || bar >= count || py < area.top - 10 || py > area.bottom + 20) return null;
    const said = (value) => (defined(value) ? write(value) : "undefined");
    const texts = rangeOf(number).map((index) => `${panel.series[index]} ${said(values[index * count + bar])}`.trim());
    return `${everyLabel(labels, count)[bar]}: ${texts.join(", ")}`;
  };
}

function points(panel, at, pen) {
  const { svg, measure } = pen, values = at(panel.frames), groups = at(panel.groups), highlight = at(panel.highlight);
  const shades = at(panel.shades), named = panel.group_labels.some(Boolean) && !shades;
  const top = named ? legend(pen, panel.group_labels, panel.colours, 0) : 0;
  const bar = shades ? 48 : 0;
  const area = plotArea(pen, panel, top, 12 + bar), fitted = { ...panel };
  if (panel.equal_aspect) {
    // The shorter axis decides: the drawing keeps the limits and gives up width or height.
    const wide = panel.x_limits[1] - panel.x_limits[0], high = panel.y_limits[1] - panel.y_limits[0];
    const unit = Math.min((area.right - area.left) / wide, (area.bottom - area.top) / high);
    const spareX = area.right - area.left - unit * wide, spareY = area.bottom - area.top - unit * high;
    (area.left += spareX / 2), (area.right -= spareX / 2), (area.top += spareY / 2), (area.bottom -= spareY / 2);
    if (area.labelY) (area.labelY += spareY / 2), (area.labelX = spareX / 2);
  }
  const { x, y } = axes(pen, fitted, area), centred = panel.arrows.some(Boolean) || panel.circle;
  if (centred) {
    putLine(svg, x(0), area.top, x(0), area.bottom, "posym-axis");
    putLine(svg, area.left, y(0), area.right, y(0), "posym-axis");
  }
  if (panel.circle)
    node(svg, "ellipse", { cx: tenth(x(0)), cy: tenth(y(0)), rx: tenth(x(panel.circle) - x(0)), ry: tenth(y(0) - y(panel.circle)), class: "posym-guide" });
  if (panel.diagonal) {
    const low = Math.max(panel.x_limits[0], panel.y_limits[0]), high = Math.min(panel.x_limits[1], panel.y_limits[1]);
    putLine(svg, x(low), y(low), x(high), y(high), "posym-guide");
  }
  const places = [], written = [];
  let missing = 0;
  rangeOf(panel.points).forEach((point) => {
    const [px, py] = [values[2 * point], values[2 * point + 1]];
    if (!defined(px) || !defined(py)) return void missing++;
    const cx = tenth(x(px)), cy = tenth(y(py)), chosen = Boolean(highlight) && highlight[0] === point;
    const paint = shades
      ? { fill: css(shade("sequential", pen.scheme, defined(shades[point]) ? (shades[point] - panel.shade_limits[0]) / (panel.shade_limits[1] - panel.shade_limits[0]) : 0)), class: "posym-dot" }
      : { class: `posym-dot posym-fill posym-c${panel.colours[groups[point]]}` };
    if (panel.arrows[point]) {
      const dx = cx - x(0), dy = cy - y(0), length = Math.hypot(dx, dy) || 1, head = Math.min(9, length);
      const [ux, uy] = [dx / length, dy / length], colour = `posym-c${panel.colours[groups[point]]}`;
      putLine(svg, x(0), y(0), cx - ux * head * 0.8, cy - uy * head * 0.8, `posym-line ${colour}`);
      node(svg, "path", { d: `M${cx} ${cy}L${tenth(cx - ux * head - uy * 4)} ${tenth(cy - uy * head + ux * 4)}L${tenth(cx - ux * head + uy * 4)} ${tenth(cy - uy * head - ux * 4)}Z`, class: `posym-fill ${colour}` });
    } else node(svg, "circle", { cx, cy, r: panel.points > 60 ? 3.2 : 4.5, ...paint });
    if (chosen) node(svg, "circle", { cx, cy, r: 9, class: "posym-ring" });
    const label = panel.labels[point];
    if (label && (panel.write_labels || chosen)) {
      // Beyond an arrow's tip, or to the side of a point that has room for it.
      const distance = Math.hypot(cx - x(0), cy - y(0)) || 1, reach = chosen ? 15 : 10;
      const toRight = cx + reach + measure(label) <= pen.width - bar ? 1 : -1;
      const [ux, uy] = panel.arrows[point] ? [(cx - x(0)) / distance, (cy - y(0)) / distance] : [toRight, 0];
      const anchor = Math.abs(ux) < 0.35 ? "middle" : ux > 0 ? "start" : "end";
      written.push({ label, chosen, anchor, left: cx + ux * reach, base: cy + uy * reach + 4 });
    }
    places.push({ cx, cy, text: `${label || "point " + (point + 1)}: ${write(px)}, ${write(py)}` });
  });
  // Labels that would cover one already written are left to the pointer; the highlighted one comes first.
  const taken = [];
  for (const { label, chosen, anchor, left, base } of written.sort((one, two) => two.chosen - one.chosen)) {
    const wide = measure(label), start = left - { start: 0, middle: wide / 2, end: wide }[anchor];
    if (taken.some((box) => start < box.end && start + wide > box.start && Math.abs(base - box.base) < 12)) continue;
    taken.push({ start, end: start + wide, base });
    putText(svg, left, base, label, { look: `posym-halo${chosen ? " posym-strong" : ""}`, anchor: anchor });
  }
  if (missing)
    putText(svg, area.right, Math.max(11, area.top - 8), `${missing} undefined`, { anchor: "end" });
  if (shades) {
    colourBar(pen, "sequential", panel.shade_limits, area.right + 16, area.top + 4, Math.min(150, area.bottom - area.top - 4));
    if (panel.shade_label) putText(svg, area.right + 16, area.top - 6, panel.shade_label);
  }
  return (px, py) => {
    const near = places.reduce((best, place) => {
      const distance = Math.hypot(place.cx - px, place.cy - py);
      return distance < (best ? best.distance : 14) ? { distance, text: place.text } : best;
    }, null);
    return near && near.text;
  };
}

export const KINDS = { heatmap, lines, bars, points };

