// Drives the head explorer. Every number comes packed in the figure's JSON; this script unpacks, ranks and draws.
import {
  canvas, clamp, css, defined, element, fillTable, hover, level, linkable, node, putLine, putText, rangeOf, ruler, scale, shade,
  showSetting, tenth, whenFontsChange, write,
} from "./core.js";

const SHARES = [["positional", 0], ["symbolic", 1], ["interaction", 2]];

// Numbers here are 0 to 1: two decimals tell them apart.
const brief = (value, decimals = 2) => write(value, decimals);
const percent = (value) => (defined(value) ? `${(100 * value).toFixed(value < 0.0995 ? 1 : 0)}%` : "undefined");
const largest = (values) => values.reduce((most, value) => (value > most ? value : most), 0);
const ramp = (share) => css(shade("sequential", "light", share));
const unpack = ({ bits, low, high, power, data }) => {
  const bytes = Uint8Array.from(atob(data), (letter) => letter.charCodeAt(0));
  const most = 2 ** bits - 2, codes = bits === 16 ? new Uint16Array(bytes.buffer) : bytes;
  return Float32Array.from(codes, (code) => (code > most ? NaN : low + (high - low) * (code / most) ** power));
};
// A round number at or above a value, for the end of an axis.
const roundUp = (value) => {
  const power = 10 ** Math.floor(Math.log10(value || 1));
  return [1, 2, 2.5, 5, 10].map((factor) => factor * power).find((size) => size >= value * 0.9999);
};

// Draws an explorer and answers its controls.
function start(figure, data) {
  const find = (name) => figure.querySelector(name);
  const { layer: layers, head: heads, plane: planes, tau: temperatures } = data.sizes, count = layers * heads;
  const unpacked = new Map();
  const arrays = () => {
    if (!unpacked.has(state.input)) {
      const packed = Object.entries(data.inputs[state.input].arrays);
      unpacked.set(state.input, Object.fromEntries(packed.map(([name, one]) => [name, unpack(one)])));
    }
    return unpacked.get(state.input);
  };
  const first = { input: 0, prompt: 0, head: data.start.head, block: data.start.length, tau: data.start.tau };
  const state = { ...first };
  const controls = Object.fromEntries(["input", "prompt", "head", "tau", "block"].map((name) => [name, find(`[name=${name}]`)]));
  const called = (place) => data.layers[place];
  const nameOf = (head) => `${called(layerOf(head))}:${head % heads}`;
  const titleOf = (head) => `layer ${called(layerOf(head))}, head ${head % heads}`;
  const here = () => data.inputs[state.input];
  const blockLength = () => here().lengths[state.block];

  // ---- numbers of the present state ------------------------------------------------------------------------------
  const score = (name, head, tau = state.tau) => arrays()[name][(state.block * temperatures + tau) * count + head];
  const share = (name, head) => arrays()[`${name}_share`][state.block * count + head];
  const shareOf = {
    positional: (head) => share("positional", head),
    symbolic: (head) => share("symbolic", head),
    interaction: (head) => clamp(1 - share("positional", head) - share("symbolic", head), 0, 1),
  };
  // Blocks that a layer's window hides from the last token, wholly or in part: what is swapped into them is not seen.
  const blocks = () => here().span / blockLength();
  const hidden = (layer) => clamp(Math.ceil((here().seen[layer] - here().start) / blockLength()), 0, blocks());
  const layerOf = (head) => Math.floor(head / heads);
  const blind = (head) => hidden(layerOf(head)) > 0;
  const sees = (head) => `${blocks() - hidden(layerOf(head))} of ${blocks()}`;
  const ofPlanes = (name, head = state.head) => arrays()[`plane_${name}`].subarray(head * planes, (head + 1) * planes);
  const frequency = (head) => {
    let weighted = 0, total = 0;
    ofPlanes("energy_share", head).forEach((energy, plane) => defined(energy) && ((weighted += energy * (plane + 1)), (total += energy)));
    return total ? weighted / total : NaN;
  };
  // Attention of the chosen head to each token: the mean over prompts, and that on the chosen prompt.
  const ofTokens = (name) => {
    const tokens = here().prompts[0].length, row = state.head + (name === "examples" ? state.prompt * count : 0);
    return arrays()[name].subarray(row * tokens, (row + 1) * tokens);
  };
  const blockMeans = (name) => {
    const { start: begin } = here(), length = blockLength(), tokens = ofTokens(name);
    return rangeOf(blocks()).map((block) => {
      let sum = 0;
      for (let token = begin + block * length; token < begin + (block + 1) * length; token++) sum += tokens[token];
      return sum / length;
    });
  };

  // ---- the plane ---------------------------------------------------------------------------------------------------
  const box = { plane: find(".posym-ex-plane"), blocks: find(".posym-ex-blocks"), profile: find(".posym-ex-profile") };
  const drawing = (name) => {
    const [width, height] = [box[name].clientWidth || 340, box[name].clientHeight || 340];
    return { svg: canvas(width, height), width, height };
  };
  const { measure, forget } = ruler(figure);
  const plane = {};
  const buildPlane = () => {
    const { svg, width, height } = drawing("plane"), left = 34, right = width - 10, top = 22, bottom = height - 38;
    plane.x = (value) => left + value * (right - left);
    plane.y = (value) => bottom - value * (bottom - top);
    const { x, y } = plane;
    node(svg, "path", { d: `M${x(0)} ${y(1)}L${x(0)} ${y(0)}L${x(1)} ${y(0)}Z`, class: "posym-ex-empty" });
    for (const value of [0, 0.2, 0.4, 0.6, 0.8, 1]) {
      putLine(svg, x(value), top, x(value), bottom, "posym-grid");
      putText(svg, x(value), bottom + 16, value.toFixed(1), { anchor: "middle" });
      level(svg, left, right, y(value), value.toFixed(1));
    }
    putLine(svg, x(0), y(1), x(1), y(0), "posym-guide");
    putText(svg, x(0.02) + 4, y(0.03), "empty but for the floor ε");
    putText(svg, 0, 11, "↑ symbolic score s_SYM", { look: "posym-ink posym-c1" });
    putText(svg, right, height - 4, "positional score s_POS →", { look: "posym-ink posym-c0", anchor: "end" });
    plane.under = node(svg, "g");
    plane.points = rangeOf(count).map((head) => {
      const layer = layerOf(head), paint = { fill: ramp(layers > 1 ? layer / (layers - 1) : 0), class: "posym-dot posym-ex-point" };
      return data.marked.includes(layer)
        ? node(svg, "path", { d: "M0 -6.5L6.5 0L0 6.5L-6.5 0Z", ...paint })
        : node(svg, "circle", { r: 4.6, ...paint });
    });
    plane.ring = node(svg, "circle", { r: 10, class: "posym-ring posym-ex-point" });
    plane.label = putText(svg, 0, 0, "", { look: "posym-strong posym-halo" });
    plane.missing = putText(svg, right, 11, "", { anchor: "end" });
    box.plane.replaceChildren(svg);
  };
  const placePlane = () => {
    const { x, y } = plane, places = rangeOf(count).map((head) => [score("positional", head), score("symbolic", head)]);
    plane.places = places.map(([px, py]) => [x(px), y(py)]);
    let missing = 0;
    plane.points.forEach((point, head) => {
      const [px, py] = plane.places[head], shown = defined(px + py);
      point.style.display = shown ? "" : "none";
      point.classList.toggle("posym-ex-hidden", blind(head));
      if (shown) point.style.transform = `translate(${tenth(px)}px,${tenth(py)}px)`;
      else missing++;
    });
    plane.missing.textContent = missing ? `${missing} undefined` : "";
    find(".posym-ex-blind").hidden = !rangeOf(layers).some(hidden);
    const [px, py] = plane.places[state.head], shown = defined(px + py);
    plane.under.replaceChildren();
    for (const mark of [plane.ring, plane.label]) mark.style.display = shown ? "" : "none";
    if (!shown) return;
    plane.ring.style.transform = `translate(${tenth(px)}px,${tenth(py)}px)`;
    const beside = px < x(0.78) ? 15 : -15;
    for (const [key, value] of [["x", px + beside], ["y", py + (py < 40 ? 18 : 4)], ["text-anchor", beside > 0 ? "start" : "end"]]) plane.label.setAttribute(key, value);
    plane.label.textContent = nameOf(state.head);
    const trail = rangeOf(temperatures).map((tau) => [x(score("positional", state.head, tau)), y(score("symbolic", state.head, tau))]).filter(([a, b]) => defined(a + b));
    node(plane.under, "path", { d: "M" + trail.map((place) => place.map(tenth).join(" ")).join("L"), class: "posym-ex-trail" });
    const [low, high] = [-1, 1].map((sign) => ["positional", "symbolic"].map((name, axis) => clamp([score("positional", state.head), score("symbolic", state.head)][axis] + sign * score(`${name}_margin`, state.head), 0, 1)));
    if (low.concat(high).every(defined)) {
      putLine(plane.under, x(low[0]), py, x(high[0]), py, "posym-ex-whisker");
      putLine(plane.under, px, y(low[1]), px, y(high[1]), "posym-ex-whisker");
    }
  };
  const nearest = (px, py, reach) => {
    let best = null;
    plane.places.forEach(([cx, cy], head) => {
      const distance = Math.hypot(cx - px, cy - py);
      if (distance < (best ? best.distance : reach)) best = { head, distance };
    });
    return best && best.head;
  };

  // ---- the map of layers and heads -----------------------------------------------------------------------------------
  const map = find(".posym-ex-map");
  map.style.setProperty("--posym-layers", layers);
  map.classList.toggle("posym-ex-dense", heads > 12);
  const cells = [];
  rangeOf(heads).forEach((head) => {
    const row = element(map, "div", { role: "row" });
    rangeOf(layers).forEach((layer) => {
      const cell = element(row, "button", { type: "button", role: "gridcell", tabindex: -1, "aria-selected": false });
      cell.addEventListener("click", () => choose({ head: layer * heads + head }));
      cells[layer * heads + head] = cell;
    });
  });
  const under = element(map.parentNode, "div", { class: "posym-ex-layers" });
  for (const [text, kind] of [[`layer ${called(0)}`, null], ["■ positional", "posym-c0"], ["■ symbolic", "posym-c1"], [`layer ${called(layers - 1)}`, null]])
    element(under, "span", { class: kind }, text);
  const drawMap = () => cells.forEach((cell, head) => {
    const [positional, symbolic] = [score("positional", head), score("symbolic", head)], lean = positional - symbolic;
    cell.classList.toggle("posym-ex-undefined", !defined(lean));
    cell.classList.toggle("posym-ex-hidden", blind(head));
    if (defined(lean))
      cell.style.background = `color-mix(in srgb, var(--posym-${lean > 0 ? 0 : 1}) ${tenth(8 + 92 * Math.abs(lean))}%, var(--posym-void))`;
    cell.setAttribute("aria-label", `${titleOf(head)}: positional ${brief(positional)}, symbolic ${brief(symbolic)}${blind(head) ? `, sees ${sees(head)} blocks` : ""}`);
  });
  let marked = null;
  const markMap = () => {
    for (const [head, on] of [[marked, false], [state.head, true]]) {
      if (head === null) continue;
      cells[head].tabIndex = on ? 0 : -1;
      cells[head].setAttribute("aria-selected", on);
    }
    marked = state.head;
  };
  map.addEventListener("keydown", (event) => {
    const [layer, head] = [Math.floor(state.head / heads), state.head % heads];
    const step = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1], Home: [-layer, 0], End: [layers - 1 - layer, 0] }[event.key];
    if (!step || event.ctrlKey || event.altKey || event.metaKey) return;
    event.preventDefault();
    choose({ head: clamp(layer + step[0], 0, layers - 1) * heads + clamp(head + step[1], 0, heads - 1) });
    cells[state.head].focus({ preventScroll: true });
  });

  // ---- the chosen head -------------------------------------------------------------------------------------------------
  const drawReadout = () => {
    const { start: begin, span } = here(), tokens = ofTokens("attention"), sum = (from, to) => tokens.subarray(from, to).reduce((total, value) => total + value, 0);
    const layer = Math.floor(state.head / heads), marked = data.marked.includes(layer) ? " ◆" : "";
    find(".posym-ex-name").textContent = `Layer ${called(layer)}, head ${state.head % heads}${marked}`;
    const both = (name) => {
      const [value, margin] = [score(name, state.head), score(`${name}_margin`, state.head)];
      return defined(value) ? `${brief(value)}${defined(margin) ? ` ± ${brief(margin)}` : ""}` : "undefined";
    };
    fillTable(find(".posym-ex-readout"), [
      ["positional score s_POS", both("positional")],
      ["symbolic score s_SYM", both("symbolic")],
      ["entropy of the attention", brief(arrays().entropy[state.head])],
      ["attention before the blocks", percent(sum(0, begin))],
      ["attention on the blocks", percent(sum(begin, begin + span))],
      ["attention after the blocks", percent(sum(begin + span, tokens.length))],
      ["blocks it sees whole", blind(state.head) ? sees(state.head) : "all"],
    ]);
    const shares = find(".posym-ex-shares"), values = SHARES.map(([name]) => shareOf[name](state.head));
    shares.replaceChildren();
    element(shares, "div", { class: "posym-title" }, "Shares of the logits’ variance");
    const bar = element(shares, "div", { class: "posym-ex-bar" }), keys = element(shares, "div", { class: "posym-ex-keys" });
    SHARES.forEach(([name, colour], place) => {
      if (defined(values[place])) element(bar, "span", { class: `posym-c${colour}`, style: `width:${100 * values[place]}%` });
      element(keys, "span", { class: `posym-c${colour}` }, `${name} ${brief(values[place])}`);
    });
  };

  const drawBlocks = () => {
    const { svg, width, height } = drawing("blocks"), means = blockMeans("attention"), one = blockMeans("examples");
    const length = blockLength(), left = 46, right = width - 4, top = 8, bottom = height - 36;
    const most = roundUp(Math.max(largest(means), largest(one), 1e-6)), slot = (right - left) / means.length;
    const y = scale(false, [0, most], bottom, top);
    find(".posym-ex-blocks-title").textContent = `Attention to each of ${means.length} blocks, mean per token`;
    for (const tick of [0, most / 2, most]) level(svg, left, right, y(tick), Number(tick.toPrecision(3)), tick ? "posym-grid" : "posym-axis");
    const unseen = hidden(layerOf(state.head));
    if (unseen) {
      node(svg, "rect", { x: left, y: top, width: tenth(slot * unseen), height: bottom - top, class: "posym-void" });
      if (slot * unseen > 90) putText(svg, left + 6, top + 14, "not seen whole", { look: "posym-soft" });
    }
    means.forEach((mean, block) => {
      if (!defined(mean + one[block])) return;
      const x = left + slot * block, gap = Math.min(6, slot * 0.15);
      node(svg, "rect", { x: tenth(x + gap / 2), y: tenth(y(mean)), width: tenth(slot - gap), height: tenth(bottom - y(mean)), class: "posym-fill posym-c4" });
      putLine(svg, x + gap / 2, y(one[block]), x + slot - gap / 2, y(one[block]), "posym-outline-bar");
    });
    const stride = Math.ceil(26 / slot);
    rangeOf(means.length).filter((block) => block % stride === 0).forEach((block) =>
      putText(svg, left + slot * (block + 0.5), bottom + 15, block + 1, { anchor: "middle" }));
    const meaning = width < 500 ? "bars: mean, lines: the prompt below" : "bars: mean over prompts; lines: the one prompt below";
    putText(svg, (left + right) / 2, height - 3, `block (${meaning})`, { anchor: "middle" });
    box.blocks.replaceChildren(svg);
    hints.blocks = (px) => {
      const block = Math.floor((px - left) / slot);
      return block < 0 || block >= means.length ? null : `block ${block + 1} of ${length} token${length > 1 ? "s" : ""}: mean ${means[block].toPrecision(2)}, this prompt ${one[block].toPrecision(2)}`;
    };
  };

  let words = [];
  const drawPrompt = () => {
    const { prompts, start: begin, span } = here(), tokens = prompts[state.prompt], length = blockLength();
    const text = find(".posym-ex-prompt");
    text.replaceChildren();
    let block = text;
    words = tokens.map((token, place) => {
      const within = place >= begin && place < begin + span;
      if (within && (place - begin) % length === 0) block = element(text, "span", { class: "posym-ex-block" });
      if (!within) block = text;
      return element(block, "span", { class: place === tokens.length - 1 ? "posym-ex-query" : null }, token.replace(/\n/g, "↵"));
    });
  };
  const shadePrompt = () => {
    const weights = ofTokens("examples"), most = Math.max(largest(weights.subarray(here().start)), 1e-9);
    words.forEach((word, place) => {
      const share = defined(weights[place]) ? clamp(weights[place] / most, 0, 1) : 0;
      word.style.background = `color-mix(in srgb, var(--posym-4) ${tenth(75 * Math.sqrt(share))}%, transparent)`;
    });
  };
  const tokenHint = (px, py, { target }) => {
    const place = words.indexOf(target), { prompts, start: begin, span } = here();
    if (place < 0) return null;
    const within = place >= begin && place < begin + span, last = place === words.length - 1;
    const where = within ? `, block ${1 + Math.floor((place - begin) / blockLength())}` : last ? ", which asks" : "";
    const [one, mean] = ["examples", "attention"].map((name) => percent(ofTokens(name)[place]));
    return `token ${place} “${prompts[state.prompt][place].trim()}”${where}: ${one}${mean === one ? "" : `, mean ${mean}`}`;
  };

  // ---- rotation planes -------------------------------------------------------------------------------------------------
  const drawProfile = () => {
    const { svg, width, height } = drawing("profile"), left = 46, right = width - 6, slot = (right - left) / planes;
    const rows = [[22, 152], [188, 252], [288, height - 40]], layer = Math.floor(state.head / heads);
    const angles = data.angles[data.angleRow[layer]], x = (id) => left + (id - 0.5) * slot;
    const [positional, symbolic, energy, alone, alike] = ["positional_share", "symbolic_share", "energy_share", "positional", "symbolic"].map((name) => ofPlanes(name));
    const axis = ([top, bottom], marks, title) => {
      const y = scale(false, [marks[0], marks[marks.length - 1]], bottom, top);
      for (const mark of marks) level(svg, left, right, y(mark), Number(mark.toPrecision(3)), mark === marks[0] ? "posym-axis" : "posym-grid");
      let at = left;
      for (const [text, look] of title) {
        putText(svg, at, top - 8, text, { look });
        at += measure(text, look.includes("ink") ? "600" : "") + 12;
      }
      return y;
    };
    const bars = (y, from, to, colour) => {
      let path = "";
      for (let place = 0; place < planes; place++) {
        const [low, high] = [y(from(place)), y(to(place))];
        if (defined(low + high)) path += `M${tenth(x(place + 0.5))} ${tenth(low)}V${tenth(high)}h${(slot + 0.2).toFixed(2)}V${tenth(low)}Z`;
      }
      node(svg, "path", { d: path, class: `posym-fill posym-c${colour}` });
    };
    const void_ = ([top, bottom], values) => values.forEach((value, place) =>
      defined(value) || node(svg, "rect", { x: tenth(x(place + 0.5)), y: top, width: tenth(slot + 0.1), height: bottom - top, class: "posym-void" }));
    const shares = axis(rows[0], [0, 0.5, 1], SHARES.map(([name, colour]) => [name, `posym-ink posym-c${colour}`]).concat(width > 500 ? [["shares of each plane’s variance", "posym-soft"]] : []));
    void_(rows[0], positional);
    bars(shares, () => 0, (place) => symbolic[place], 1);
    bars(shares, (place) => symbolic[place], (place) => symbolic[place] + positional[place], 0);
    bars(shares, (place) => symbolic[place] + positional[place], (place) => (defined(positional[place]) ? 1 : NaN), 2);
    const most = roundUp(largest(energy));
    bars(axis(rows[1], [0, most / 2, most], [["part of the head’s energy", "posym-soft"]]), () => 0, (place) => energy[place], 6);
    const least = Math.min(0.9, Math.floor(10 * [...alone, ...alike].reduce((low, value) => (value < low ? value : low), 1)) / 10);
    const y = axis(rows[2], [least, (least + 1) / 2, 1], [["positional", "posym-ink posym-c0"], ["symbolic", "posym-ink posym-c1"], [`score of each plane alone${width > 560 && data.planeNote ? `: ${data.planeNote}` : ""}`, "posym-soft"]]);
    void_(rows[2], alone);
    for (const [values, colour] of [[alone, 0], [alike, 1]]) {
      let path = "", pen = "M";
      values.forEach((value, place) => {
        if (!defined(value)) return void (pen = "M");
        path += `${pen}${tenth(x(place + 1))} ${tenth(y(value))}`;
        pen = "L";
      });
      node(svg, "path", { d: path, class: `posym-line posym-c${colour}`, style: "stroke-width:1.5" });
    }
    const step = planes % 4 ? planes : planes / 4;
    for (const id of [1, ...rangeOf(planes / step).map((tick) => (tick + 1) * step)].filter((id, tick, all) => id !== all[tick - 1]))
      putText(svg, x(id), height - 22, id, { anchor: id === 1 ? "start" : id === planes ? "end" : "middle" });
    putText(svg, (left + right) / 2, height - 4, "frequency ID, fast to slow", { anchor: "middle" });
    if (data.turn) {
      const at = x(data.turn[layer]);
      putLine(svg, at, rows[0][0], at, rows[2][1], "posym-marker");
      putText(svg, at + 5, rows[1][0] + 10, data.turnLabel, { look: "posym-soft posym-halo" });
    }
    box.profile.replaceChildren(svg);
    hints.profile = (px) => {
      const place = Math.round((px - left) / slot - 0.5);
      if (place < 0 || place >= planes) return null;
      return `ID ${place + 1}, θ = ${Number(angles[place].toPrecision(2))}: positional ${brief(positional[place])}, symbolic ${brief(symbolic[place])}, energy ${percent(energy[place])}, alone ${brief(alone[place])} and ${brief(alike[place])}`;
    };
  };

  // ---- ranks -----------------------------------------------------------------------------------------------------------
  const measures = [
    ["positional score", 0, (head) => score("positional", head), [0, 1], 2],
    ["symbolic score", 1, (head) => score("symbolic", head), [0, 1], 2],
    ...SHARES.map(([name, colour]) => [`${name} share`, colour, shareOf[name], [0, 1], 2]),
    ["entropy", 6, (head) => arrays().entropy[head], [0, 1], 2],
    ["mean frequency ID", 6, frequency, [1, planes], 0],
  ];
  const columns = [];
  const rankRow = (place) => {
    const [, , value, [low, high]] = measures[place];
    columns[place] = rangeOf(count).map(value);
    const at = (number) => tenth(4 + (992 * (number - low)) / (high - low));
    const ticks = columns[place].filter(defined).map((number) => `M${at(number)} 6V20`).join("");
    find(".posym-ex-ranks").children[place].children[2].children[1].setAttribute("d", ticks);
  };
  const drawRanks = (renewed) => {
    const list = find(".posym-ex-ranks");
    measures.forEach(([label, colour, , [low, high], decimals], place) => {
      if (!list.children[place]) {
        const row = element(list, "div", { class: "posym-ex-rank" });
        element(row, "span", {}, label);
        element(row, "span");
        const svg = node(row, "svg", { viewBox: "0 0 1000 26", preserveAspectRatio: "none", class: `posym-ex-strip posym-c${colour}`, "aria-hidden": "true" });
        putLine(svg, 0, 13, 1000, 13, "posym-grid");
        node(svg, "path", { class: "posym-ex-ticks" });
        node(svg, "path", { class: "posym-ex-chosen" });
        element(row, "span");
      }
      const [, shown, svg, rank] = list.children[place].children;
      if (renewed) rankRow(place);
      const own = columns[place][state.head], known = columns[place].filter(defined);
      const at = (number) => tenth(4 + (992 * (number - low)) / (high - low));
      svg.children[2].setAttribute("d", defined(own) ? `M${at(own)} 1V25` : "");
      shown.textContent = defined(own) ? brief(own, decimals) : "–";
      const below = known.filter((number) => number < own).length, above = known.filter((number) => number > own).length;
      rank.textContent = defined(own) ? `rank ${above + 1} of ${known.length}, above ${Math.round((100 * below) / Math.max(1, known.length - 1))}%` : "undefined";
    });
  };

  const table = find(".posym-ex-table");
  const drawTable = () => table.open && table.querySelectorAll("tbody tr").forEach((row, head) => {
    row.children[0].textContent = nameOf(head) + (blind(head) ? " ◌" : "");
    [score("positional", head), score("symbolic", head), arrays().entropy[head]].forEach((value, column) => (row.children[column + 1].textContent = brief(value)));
  });
  table.open = false;
  table.addEventListener("toggle", drawTable);

  // ---- all together ------------------------------------------------------------------------------------------------------
  const hints = {};
  let listed = null;
  const showControls = () => {
    controls.input.value = here().name;
    controls.head.value = state.head;
    find(".posym-ex-note").textContent = here().note;
    if (listed !== state.input) {
      controls.prompt.replaceChildren();
      here().labels.forEach((label, place) => element(controls.prompt, "option", { value: place }, label));
      controls.prompt.closest("label").hidden = here().labels.length < 2;
      controls.block.max = here().lengths.length - 1;
      controls.block.dataset.texts = JSON.stringify(here().lengths.map(String));
      listed = state.input;
    }
    controls.prompt.value = state.prompt;
    for (const name of ["tau", "block"]) {
      controls[name].value = state[name];
      showSetting(controls[name]);
    }
  };
  // Each part, and what it depends on: a moving slider redraws no more than it must.
  const parts = [
    [placePlane, "input head block tau"],
    [drawMap, "input block tau"],
    [markMap, "head"],
    [drawReadout, "input head block tau"],
    [drawBlocks, "input prompt head block"],
    [drawPrompt, "input prompt block"],
    [shadePrompt, "input prompt head block"],
    [drawProfile, "input head"],
    [drawTable, "input block tau"],
  ];
  const draw = (changed = Object.keys(state)) => {
    for (const [part, needs] of parts) if (changed.some((name) => needs.includes(name))) part();
    drawRanks(changed.some((name) => name !== "head" && name !== "prompt"));
  };
  // Another input has prompts of its own, and the cut that is nearest to the present one.
  const moved = (input) => {
    const block = closest(data.inputs[input].lengths, blockLength());
    return { input, prompt: 0, block };
  };
  const choose = (change, linked = true) => {
    const changed = Object.keys(change).filter((name) => change[name] !== state[name]);
    Object.assign(state, change);
    showControls();
    if (changed.length) draw(changed);
    find(".posym-ex-said").textContent = `${titleOf(state.head)}: positional ${brief(score("positional", state.head))}, symbolic ${brief(score("symbolic", state.head))}`;
    if (linked) link();
  };

  // ---- the address -------------------------------------------------------------------------------------------------------
  const address = () => {
    const parts = [`head=${nameOf(state.head).replace(":", ".")}`];
    if (state.input !== first.input) parts.push(`input=${here().name}`);
    if (state.prompt !== first.prompt) parts.push(`prompt=${state.prompt}`);
    if (blockLength() !== data.inputs[0].lengths[first.block]) parts.push(`block=${blockLength()}`);
    if (state.tau !== first.tau) parts.push(`tau=${data.taus[state.tau]}`);
    return `#${parts.join("&")}`;
  };
  let waiting = 0;
  const settle = () => {
    clearTimeout(waiting);
    waiting = 0;
    try {
      history.replaceState(history.state, "", address());
    } catch {
      // A page without an address, such as a frame of its own, keeps its state to itself.
    }
  };
  // Browsers refuse addresses that change many times a second, as a moving slider would.
  const link = () => {
    if (!linkable(figure)) return;
    clearTimeout(waiting);
    waiting = setTimeout(settle, 120);
  };
  window.addEventListener("pagehide", () => waiting && settle());
  const closest = (values, text) => {
    const wanted = Number(text);
    if (!(wanted > 0)) return -1;
    return values.reduce((best, value, place) => (Math.abs(Math.log(value / wanted)) < Math.abs(Math.log(values[best] / wanted)) ? place : best), 0);
  };
  // What an address asks for, or null if it asks for nothing here. What it does not name is as at the start.
  const asked = () => {
    const given = new URLSearchParams(location.hash.slice(1)), head = /^(\d+)\.(\d+)$/.exec(given.get("head") || "");
    const layer = head ? data.layers.indexOf(Number(head[1])) : -1;
    if (layer < 0 || Number(head[2]) >= heads) return null;
    const input = data.inputs.findIndex((one) => one.name === given.get("input"));
    const { lengths, prompts } = data.inputs[Math.max(input, 0)], prompt = Number(given.get("prompt"));
    const wanted = { ...first, head: layer * heads + Number(head[2]), input: Math.max(input, 0) };
    const usual = closest(lengths, data.inputs[0].lengths[first.block]);
    const [block, tau] = [closest(lengths, given.get("block")), closest(data.taus, given.get("tau"))];
    wanted.block = block >= 0 ? block : usual;
    if (tau >= 0) wanted.tau = tau;
    if (Number.isInteger(prompt) && prompt > 0 && prompt < prompts.length) wanted.prompt = prompt;
    return wanted;
  };
  const follow = () => {
    const wanted = linkable(figure) && asked();
    if (!wanted) return false;
    choose(wanted, false);
    const edge = figure.getBoundingClientRect();
    if (edge.top < 0 || edge.top > window.innerHeight * 0.4) figure.scrollIntoView();
    return true;
  };
  // The way back to an address without a view leads to the first one.
  window.addEventListener("hashchange", () => follow() || location.hash || (linkable(figure) && choose(first, false)));

  controls.input.addEventListener("change", () => choose(moved(data.inputs.findIndex((one) => one.name === controls.input.value))));
  controls.prompt.addEventListener("change", () => choose({ prompt: Number(controls.prompt.value) }));
  controls.head.addEventListener("change", () => choose({ head: Number(controls.head.value) }));
  for (const name of ["tau", "block"]) controls[name].addEventListener("input", () => choose({ [name]: Number(controls[name].value) }));
  box.plane.addEventListener("click", (event) => {
    const edge = box.plane.getBoundingClientRect(), head = nearest(event.clientX - edge.left, event.clientY - edge.top, 26);
    if (head === null) return;
    choose({ head });
    cells[head].focus({ preventScroll: true });
  });
  hints.plane = (px, py) => {
    const head = nearest(px, py, 16);
    return head === null ? null : `${titleOf(head)}: s_POS ${brief(score("positional", head))}, s_SYM ${brief(score("symbolic", head))}${blind(head) ? `, sees ${sees(head)} blocks` : ""}`;
  };
  for (const [name, inner] of Object.entries(box)) hover(inner, (px, py) => hints[name](px, py));
  hover(find(".posym-ex-prompt"), tokenHint, { touch: true });

  buildPlane();
  showControls(), draw();
  follow();
  const size = () => Object.values(box).map((inner) => [inner.clientWidth, inner.clientHeight]).join();
  let before = size();
  const observer = new ResizeObserver(() => {
    if (size() === before) return;
    before = size();
    buildPlane(), draw();
  });
  observer.observe(figure);
  whenFontsChange(() => (forget(), draw()));
}

export default { start };
