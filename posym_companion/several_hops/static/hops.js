// Drives the models of several hops: reads a sequence, lets a Worker ask the model, draws whom its tokens look at.
// Weights come in parcels: from the figure itself, from beside its page or, to a widget, from the kernel.
import { canvas, element, fillTable, node, putLine, putText, rangeOf, ruler, scale, tenth, ticks, whenFontsChange, write } from "../../../posym_figures/static/core.js";
import { addDrawings, addLink, addressOf, csvOf, fieldOf, keepFold, svgOf } from "../../../posym_figures/static/keep.js";
import { drawFront, drawSequence, follow, parse } from "./hop_tasks.js";

const SHOWN = 0.1, STRONG = 0.3; // weights from which an arc of the path, and one of any other token, is drawn
const HOP_COLOURS = [0, 1, 2, 3];
const percent = (value) => `${(100 * value).toFixed(value > 0.0995 && value < 0.9995 ? 0 : 1)}%`;

// Parcels come as scripts that call this; a figure that waits for one has left word here.
const arriving = (window.posymArriving = window.posymArriving || new Map());
window.posymParcel = (name, place, text) => arriving.set(`${name}/${place}`, text);
const besidePage = (address) => (name, place) =>
  new Promise((resolve, reject) => {
    const key = `${name}/${place}`, script = element(document.head, "script", { src: `${address}/${key}.js` });
    script.onload = () => {
      const text = arriving.get(key);
      arriving.delete(key);
      script.remove();
      text === undefined ? reject(new Error(key)) : resolve(text);
    };
    script.onerror = () => (script.remove(), reject(new Error(key)));
  });

const PATIENCE = 20_000; // milliseconds without a parcel after which no kernel is thought to be there
const fromKernel = (model) => (name, place) =>
  new Promise((resolve, reject) => {
    const hear = (news) => news.parcel === `${name}/${place}` && (end(), resolve(news.text));
    const end = () => (clearTimeout(late), model.off("msg:custom", hear));
    const late = setTimeout(() => (end(), reject(new Error("the kernel does not answer"))), PATIENCE);
    model.on("msg:custom", hear);
    model.send({ wanted: "parcel", name, place });
  });

export function start(figure, data, parcelOf = besidePage(data.address)) {
  const find = (name) => figure.querySelector(name);
  const controls = Object.fromEntries(["task", "load", "draw", "back", "sequence", "hops", "front", "stretch", "answer"].map((name) => [name, find(`[name=${name}]`)]));
  const heads = [...figure.querySelectorAll("button[name=head]")];
  const rows = [...figure.querySelectorAll("[data-layer]")];
  const part = (name) => find(`[data-part=${name}]`);
  const { measure, forget } = ruler(figure);
  const say = (text) => (find(".posym-live-said").textContent = text);
  const complain = (text) => {
    find(".posym-live-message").textContent = text;
    controls.sequence.setAttribute("aria-invalid", String(text !== "" && text !== undefined));
  };
  const loaded = new Set(), loading = new Set();
  let worker = null, busy = false, next = null;
  const state = {};

  const model = () => data.models[controls.task.value];
  const stretch = () => 2 ** ((Number(controls.stretch.value) - 20) / 10);
  const nameOf = (token) => model().task.names[token];
  const short = (token) => nameOf(token).replace(/[(),]/g, "");

  // ---- sequences -------------------------------------------------------------------------------------------------------
  const forgetFront = () => {
    (controls.front.value = 0), (state.base = state.tokens);
    state.spare = drawFront(model().task, state.tokens, Number(controls.front.max));
  };
  const put = (tokens, { keep = false, write: written = true } = {}) => {
    if (state.tokens && !keep) (state.history = [...(state.history || []), state.tokens].slice(-50)), (state.before = state.attention && { tokens: state.tokens, attention: state.attention });
    (state.tokens = tokens), (state.picked = state.swapped = null), (state.attention = null);
    if (written) controls.sequence.value = tokens.map(nameOf).join(" ");
    complain("");
    show();
    ask();
  };
  // What the model does with the example was computed when the figure was made.
  const recall = () => {
    const { first } = model(), changed = stretch() !== 1 || heads.some((head) => head.getAttribute("aria-pressed") === "true");
    if (!first || changed || loaded.has(controls.task.value)) return;
    Object.assign(state, first, { milliseconds: NaN });
    controls.answer.value = nameOf(state.best[0][0]);
  };
  const begin = () => {
    Object.assign(state, { tokens: null, history: [], before: null, attention: null });
    put([...model().example], { keep: true });
    forgetFront();
    recall();
    controls.load.disabled = loaded.has(controls.task.value);
    find("progress").value = loaded.has(controls.task.value) ? 1 : 0;
    show();
  };

  // ---- asking ----------------------------------------------------------------------------------------------------------
  const ask = () => {
    controls.answer.value = "";
    if (!loaded.has(controls.task.value)) return void (state.attention && ((state.attention = null), show()));
    next = { kind: "ask", name: controls.task.value, tokens: state.tokens, off: heads.map((head) => head.getAttribute("aria-pressed") === "true"), stretch: stretch() };
    if (!busy) (busy = true), worker.postMessage(next), (next = null);
  };
  const hear = ({ data: news }) => {
    if (news.kind !== "answer") return;
    if (next) return void (worker.postMessage(next), (next = null));
    busy = false;
    if (news.asked.name !== controls.task.value || news.asked.tokens.length !== state.tokens.length) return;
    (state.attention = news.attention), (state.milliseconds = news.milliseconds);
    const most = Math.max(...news.logits), odds = [...news.logits].map((logit) => Math.exp(logit - most));
    const total = odds.reduce((sum, each) => sum + each, 0);
    state.best = rangeOf(odds.length).sort((a, b) => odds[b] - odds[a]).slice(0, 3).map((token) => [token, odds[token] / total]);
    controls.answer.value = nameOf(state.best[0][0]);
    const { answer } = follow(model().task, state.tokens);
    say(`The model answers ${controls.answer.value}; ${answer === null ? "the path has no end" : answer === state.best[0][0] ? "the path leads there" : `the path leads to ${nameOf(answer)}`}.`);
    show();
  };
  const load = async () => {
    const name = controls.task.value, { layouts, layers, width, angles } = data.models[name];
    if (loaded.has(name) || loading.has(name)) return;
    loading.add(name);
    controls.load.disabled = true;
    complain("");
    say("Loading the weights.");
    try {
      if (!worker) {
        worker = new Worker(URL.createObjectURL(new Blob([find(".posym-worker").textContent], { type: "text/javascript" })));
        worker.addEventListener("message", hear);
      }
      for (const place of layouts.keys()) {
        const here = [...figure.querySelectorAll("script.posym-parcel")].find((one) => one.dataset.parcel === `${name}/${place}`);
        const text = here ? here.textContent : await parcelOf(name, place);
        const unpacked = new Promise((resolve) => {
          const listen = ({ data: news }) => news.kind === "unpacked" && news.name === name && news.place === place && (worker.removeEventListener("message", listen), resolve());
          worker.addEventListener("message", listen);
        });
        worker.postMessage({ kind: "weights", name, place, text, layout: layouts[place], layers, width, angles });
        await unpacked;
        if (controls.task.value === name) find("progress").value = (place + 1) / layouts.length;
      }
      loaded.add(name);
      say("The model is loaded.");
      if (controls.task.value === name) ask();
    } catch (error) {
      controls.load.disabled = false;
      complain(`The weights could not be loaded (${error.message}): the figure needs the built book or a running kernel, or must carry them.`);
    }
    loading.delete(name);
  };

  // ---- drawings --------------------------------------------------------------------------------------------------------
  const places = () => {
    const width = part("rule").clientWidth || 300, count = state.tokens.length;
    return { width, x: (place) => tenth(12 + (place * (width - 24)) / Math.max(1, count - 1)) };
  };
  const arc = (svg, x, from, to, { height, colour, weight = 1, dashed = false, look = "" }) => {
    const rise = Math.min(height - 10, 7 + (Math.abs(x(from) - x(to)) * height) / 260);
    node(svg, "path", {
      d: `M${x(from)} ${height - 5}C${x(from)} ${tenth(height - 5 - 1.33 * rise)} ${x(to)} ${tenth(height - 5 - 1.33 * rise)} ${x(to)} ${height - 5}`,
      class: `posym-hop-arc ${colour === null ? "posym-hop-other" : `posym-c${colour}`} ${look}`.trim(),
      style: `stroke-width:${tenth(0.6 + 2.6 * weight)}${dashed ? ";stroke-dasharray:2 4;stroke-width:1.5" : ""}`,
    });
  };
  const base = (box) => {
    const { width, x } = places(), height = box.clientHeight || 36, svg = canvas(width, height);
    putLine(svg, x(0), height - 5, x(state.tokens.length - 1), height - 5, "posym-grid");
    return { svg, x, height };
  };
  const drawRule = (path) => {
    const { svg, x, height } = base(part("rule"));
    path.slice(1).forEach((to, hop) => arc(svg, x, path[hop], to, { height, colour: HOP_COLOURS[hop % 4] }));
    part("rule").replaceChildren(svg);
  };
  // Whom a token looks at most, other than itself.
  const target = (weights, count, from) => {
    let best = -1;
    for (let to = 0; to < from; to++) if (best < 0 || weights[from * count + to] > weights[from * count + best]) best = to;
    return [best, best < 0 ? 0 : weights[from * count + best]];
  };
  const drawLayer = (box, layer, path) => {
    const { svg, x, height } = base(box), count = state.tokens.length, off = heads[layer].getAttribute("aria-pressed") === "true", said = [];
    const old = state.before && state.before.tokens.length === count ? state.before.attention[layer] : null;
    if (old && !off) path.slice(0, -1).forEach((from, hop) => {
      const [to, weight] = target(old, count, from);
      if (weight > SHOWN) arc(svg, x, from, to, { height, colour: HOP_COLOURS[hop % 4], dashed: true });
    });
    if (state.attention && !off) {
      const weights = state.attention[layer];
      for (let from = 1; from < count; from++) {
        const hop = path.slice(0, -1).indexOf(from), [to, weight] = target(weights, count, from);
        if (weight <= (hop < 0 ? STRONG : SHOWN)) continue;
        arc(svg, x, from, to, { height, weight, colour: hop < 0 ? null : HOP_COLOURS[hop % 4] });
        if (hop >= 0) said.push(`${nameOf(state.tokens[from])} at ${from} looks at ${nameOf(state.tokens[to])} at ${to} with ${percent(weight)}`);
      }
    }
    box.setAttribute("aria-label", `Layer ${layer}: ${off ? "switched off" : state.attention ? said.join("; ") || "nothing on the path looks elsewhere" : "load the model"}`);
    box.replaceChildren(svg);
    if (off) putText(svg, x(0), height - 10, "off");
    else if (!state.attention && layer === 0 && !loaded.has(controls.task.value)) putText(svg, x(0), height - 10, "Load the model to see its attention.");
  };
  const drawAxis = (path) => {
    const { width, x } = places(), svg = canvas(width, 30), room = (width - 24) / Math.max(1, state.tokens.length - 1);
    const widest = Math.max(...state.tokens.map((token) => measure(short(token))));
    state.tokens.forEach((token, place) => {
      const hop = path.indexOf(place);
      if (widest + 2 < room || hop >= 0) putText(svg, x(place), 13, short(token), { anchor: "middle", look: hop < 0 ? "posym-soft" : `posym-ink posym-c${HOP_COLOURS[Math.min(hop, path.length - 1) % 4]}` });
    });
    part("axis").replaceChildren(svg);
  };
  const drawAngles = () => {
    const box = part("angles"), width = box.clientWidth || 300, height = box.clientHeight || 90, svg = canvas(width, height);
    const limits = [1e-5, 10], x = scale(true, [...limits].reverse(), 10, width - 18), bottom = height - 34;
    for (const { value, text } of ticks(true, limits, width / 70)) putLine(svg, x(value), 20, x(value), bottom, "posym-grid"), putText(svg, x(value), bottom + 14, text, { anchor: "middle" });
    for (const angle of model().angles) putLine(svg, x(angle * stretch()), 28, x(angle * stretch()), bottom, "posym-hop-angle posym-c0");
    putText(svg, 10, 12, `× ${write(stretch(), 2)}`, { look: "posym-ink posym-c0" });
    putText(svg, width - 4, height - 4, "radians per position, fast to slow", { anchor: "end" });
    box.replaceChildren(svg);
  };
  const drawTokens = (path) => {
    const box = find(".posym-hop-tokens");
    while (box.children.length > state.tokens.length) box.lastChild.remove();
    state.tokens.forEach((token, place) => {
      const button = box.children[place] || element(box, "button", { type: "button", "data-place": place }), hop = path.indexOf(place);
      button.textContent = nameOf(token);
      button.className = hop < 0 ? "" : `posym-hop-on posym-c${HOP_COLOURS[hop % 4]}`;
      button.setAttribute("aria-pressed", String(state.picked === place));
      button.setAttribute("aria-label", `${nameOf(token)}, position ${place}${hop < 0 ? "" : hop === 0 ? ", the query" : hop === path.length - 1 ? ", the end of the path" : `, station ${hop} of the path`}`);
    });
  };
  const show = () => {
    if (!state.tokens) return;
    const { path, answer, reason } = follow(model().task, state.tokens);
    const here = loaded.has(controls.task.value);
    find(".posym-live-source").textContent = here ? "" : state.attention ? "(stored with this page: the model is not loaded)" : "(nothing: load the model)";
    const ruled = answer === null ? `by the rules: no answer, since ${reason}` : `by the rules ${nameOf(answer)}, ${path.length - 1} ${path.length === 2 ? "hop" : "hops"} away`;
    const aside = state.swapped && !state.swapped.some((place) => path.includes(place));
    find(".posym-live-rule").textContent = `${ruled}${aside ? "; neither of the swapped tokens is on the path" : ""}`;
    drawTokens(path);
    drawRule(path);
    rows.forEach((box, layer) => drawLayer(box, layer, path));
    drawAxis(path);
    drawAngles();
    const odds = state.attention ? state.best.map(([token, share]) => `${nameOf(token)} ${percent(share)}`) : [];
    fillTable(part("answer"), [
      ["the model's first choice", odds[0] || "load the model"], ["second", odds[1] || "–"], ["third", odds[2] || "–"],
      ["tokens", String(state.tokens.length)], ["time of the pass", state.attention && state.milliseconds >= 0 ? `${Math.round(state.milliseconds)} ms` : here ? "–" : "none: not loaded"],
    ]);
    controls.back.disabled = !(state.history || []).length;
    for (const [name, text] of [["hops", controls.hops.value], ["front", controls.front.value], ["stretch", `× ${write(stretch(), 2)}`]]) {
      const input = controls[name], label = input.closest("label");
      label.querySelector(".posym-value").textContent = text;
      input.setAttribute("aria-label", label.querySelector(".posym-label").textContent);
      input.setAttribute("aria-valuetext", text);
      input.style.setProperty("--posym-done", `${(100 * (input.value - input.min)) / (input.max - input.min)}%`);
    }
  };

  // ---- controls --------------------------------------------------------------------------------------------------------
  controls.load.addEventListener("click", load);
  controls.task.addEventListener("input", begin);
  const drawn = () => (put(drawSequence(model().task, Number(controls.hops.value))), forgetFront(), show());
  controls.draw.addEventListener("click", drawn);
  controls.hops.addEventListener("input", drawn);
  controls.back.addEventListener("click", () => {
    const tokens = state.history.pop();
    if (tokens) (state.before = null), put(tokens, { keep: true }), forgetFront(), show();
  });
  controls.sequence.addEventListener("input", () => {
    const { tokens, message } = parse(model().task, controls.sequence.value, data.longest);
    if (message) return void (complain(message), (controls.answer.value = ""));
    if (String(tokens) !== String(state.tokens)) put(tokens, { write: false }), forgetFront(), show();
    else complain("");
  });
  controls.front.addEventListener("input", () => {
    const count = Math.min(Number(controls.front.value), data.longest - state.base.length);
    state.before = null;
    put([...state.spare.slice(0, count), ...state.base], { keep: true });
  });
  controls.stretch.addEventListener("input", () => (show(), ask()));
  heads.forEach((head) => head.addEventListener("click", () => {
    head.setAttribute("aria-pressed", String(head.getAttribute("aria-pressed") !== "true"));
    show();
    ask();
  }));
  find(".posym-hop-tokens").addEventListener("click", ({ target }) => {
    if (!target.dataset.place) return;
    const place = Number(target.dataset.place), picked = state.picked;
    if (picked === null || picked === place) return void ((state.picked = picked === place ? null : place), show());
    const tokens = [...state.tokens];
    [tokens[picked], tokens[place]] = [tokens[place], tokens[picked]];
    put(tokens);
    forgetFront();
    state.swapped = [picked, place];
    show();
    settle();
  });

  begin();

  // ---- what a reader keeps ---------------------------------------------------------------------------------------------
  const silent = () => heads.filter((head) => head.getAttribute("aria-pressed") === "true").map((head) => head.value).join(" ");
  const named = () => ({ task: controls.task.value, sequence: state.tokens.map(nameOf).join(" "), stretch: controls.stretch.value, off: silent() });
  const take = ({ task, sequence, stretch: factor, off }) => {
    if (task in data.models) controls.task.value = task;
    if (factor !== undefined) controls.stretch.value = factor;
    if (off !== undefined) heads.forEach((head) => head.setAttribute("aria-pressed", String(off.split(" ").includes(head.value))));
    begin();
    if (sequence === undefined || sequence === named().sequence) return;
    const { tokens, message } = parse(model().task, sequence, data.longest);
    message ? complain(message) : (put(tokens), forgetFront(), show());
  };
  const settle = addressOf(figure, "hops", { sliders: ["task", "sequence", "stretch", "off"].map(fieldOf), named, put: take });
  for (const kind of ["input", "click"]) figure.addEventListener(kind, ({ target }) => target.closest(".posym-live-form, [name=head]") && settle());
  const numbers = () => {
    const count = state.tokens.length, arcs = (state.attention || []).flatMap((weights, layer) =>
      rangeOf(count).slice(1).map((from) => [`layer ${layer}: looks at`, `${nameOf(state.tokens[from])} at ${from}`, ...target(weights, count, from)]));
    return [...arcs, ...(state.attention ? state.best : []).map(([token, odds]) => ["the answer", nameOf(token), "", odds])];
  };
  const fold = keepFold(figure, "hops");
  addLink(fold, figure, named);
  addDrawings(fold, () => svgOf(figure), () => csvOf(named(), numbers()));
  let width = figure.clientWidth;
  new ResizeObserver(() => figure.clientWidth !== width && ((width = figure.clientWidth), show())).observe(figure);
  whenFontsChange(() => (forget(), show()));
}

function render({ model, el }) {
  el.innerHTML = model.get("markup");
  const figure = el.querySelector("figure");
  Object.assign(figure.dataset, { ready: "true", lmSuppressShortcuts: "true" }); // keys typed here are no commands of JupyterLab
  start(figure, JSON.parse(figure.querySelector(".posym-hops-data").textContent), fromKernel(model));
}

export default { render };
