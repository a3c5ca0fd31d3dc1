// Drives the trainer: reads the controls, lets a Worker train, draws what it reports.
import { clamp, element, rangeOf, ruler, startAll, whenFontsChange } from "../../../posym_figures/static/core.js";
import { addDrawings, addLink, addressOf, csvOf, fieldOf, keepFold, svgOf } from "../../../posym_figures/static/keep.js";
import { arrowPlane, chart, rowsOf } from "./charts.js";

const SLOWEST = 1e-4, TURN = 200; // the slider runs over angles from pi to here, evenly on a logarithmic scale
const TARGETS = [["first", 3], ["midway", 0], ["last", 5]];
const COLOURS = { index: 0, retrieval: 1, induction: 2 };
const BEFORE = 6;
const radians = (angle) => String(Number(angle.toPrecision(3)));
const whole = (count) => count.toLocaleString("en");
const share = (value) => value.toFixed(value > 0.9995 || value < 0.0005 ? 0 : 3);

// What the controls say, or a sentence on what is wrong with them.
const read = (controls, [least, most], names) => {
  const number = (name) => (controls[name].value.trim() === "" ? NaN : Number(controls[name].value.trim().replace(",", ".")));
  const said = (name) => `“${controls[name].value.trim()}”`;
  const angles = [];
  for (const [name, label] of [["angle", "The angle"], ["angle2", "The second angle"]]) {
    if (name === "angle2" && controls[name].value.trim() === "") continue;
    const angle = number(name);
    if (!(angle >= 0 && angle <= 3.1416))
      return { wrong: name, message: `${label} must be a number from 0 to 3.1416 radians; got ${said(name)}.${name === "angle2" ? " Leave it empty for a head with one plane." : ""}` };
    angles.push(angle);
  }
  const length = number("length"), seed = number("seed");
  if (!Number.isInteger(length) || length < least || length > most)
    return { wrong: "length", message: `The number of positions must be a whole number from ${least} to ${most}; got ${said("length")}.` };
  if (!Number.isInteger(seed) || seed < 0 || seed >= 2 ** 32)
    return { wrong: "seed", message: `The seed must be a whole number from 0 to 4294967295; got ${said("seed")}.` };
  const task = controls.task.value;
  return { settings: { task, angles, length, seed }, title: `${names[task]}, ${angles.map(radians).join(" and ")} rad` };
};

function start(figure, data) {
  const find = (name) => figure.querySelector(name);
  const names = ["task", "angle", "angle2", "length", "seed", "turn", "train", "pause", "stop", "step", "accuracy"];
  const controls = Object.fromEntries(names.map((name) => [name, find(`[name=${name}]`)]));
  const box = Object.fromEntries([...figure.querySelectorAll("[data-part]")].map((one) => [one.dataset.part, one]));
  const { measure, forget } = ruler(figure);
  const scheme = () => getComputedStyle(figure).getPropertyValue("--posym-scheme").trim() || "light";
  const say = (text) => (find(".posym-live-said").textContent = text);
  const complain = (text, wrong) => {
    find(".posym-live-message").textContent = text;
    for (const name of ["angle", "angle2", "length", "seed"]) controls[name].setAttribute("aria-invalid", String(name === wrong));
  };
  const source = URL.createObjectURL(new Blob([find(".posym-worker").textContent], { type: "text/javascript" }));
  let worker = null, now = null, before = null;
  const ended = [];

  // ---- stored runs ---------------------------------------------------------------------------------------------------
  // The grid of a setting, and which of its angles stands for the varied one.
  const gridOf = ({ task, angles, length }) => {
    for (const runs of data.stored) {
      if (runs.task !== task || runs.length !== length || (runs.fixed === null) !== (angles.length === 1)) continue;
      if (runs.fixed === null) return { runs, angle: angles[0] };
      if (angles.includes(runs.fixed)) return { runs, angle: angles[0] === runs.fixed ? angles[1] : angles[0] };
    }
    return null;
  };
  const nearest = (settings) => {
    const grid = gridOf(settings);
    if (!grid || grid.angle <= 0) return null;
    const gaps = grid.runs.angles.map((angle) => Math.abs(Math.log(angle / grid.angle)));
    const place = gaps.indexOf(Math.min(...gaps));
    return gaps[place] > 0.2 ? null : { grid, place, angle: grid.runs.angles[place], accuracy: grid.runs.mean[place] };
  };

  // ---- drawings --------------------------------------------------------------------------------------------------------
  const here = () => {
    const found = read(controls, data.lengths, data.names);
    if (found.settings) return found.settings;
    const angles = [controls.angle, controls.angle2].map(({ value }) => Number(value)).filter((angle) => angle > 0 && angle <= 3.1416);
    return { task: controls.task.value, angles: angles.length ? angles : [0.1], length: Number(controls.length.value), seed: 0 };
  };
  // What guessing gets right, a level line.
  const guide = (task, limits) => ({ points: limits.map((x) => [x, 1 / data.classes[task]]), colour: BEFORE, thin: true, label: "chance" });
  const drawGrid = () => {
    const settings = here(), grid = gridOf(settings), colour = COLOURS[settings.task], along = (values) => grid.runs.angles.map((angle, place) => [angle, values[place]]);
    const runs = [...ended.filter((run) => run !== now), now].filter((run) => run && Number.isFinite(run.accuracy) && grid && (gridOf(run.settings) || {}).runs === grid.runs);
    const angle = grid ? grid.angle : Math.max(...settings.angles);
    const dots = (those, size, paint, label) => ({ name: "earlier runs", points: those.map((run) => [clamp(gridOf(run.settings).angle, SLOWEST, Math.PI), run.accuracy]), dots: size, colour: paint, label });
    const lengths = [...new Set(data.stored.filter((one) => one.task === settings.task).map((one) => one.length))].sort((a, b) => a - b);
    chart(box.grid, measure, {
      xLog: true, xLimits: [Math.PI, SLOWEST], yLimits: [0, 1], xLabel: "angle θ, radians per position, fast to slow",
      bands: grid ? [{ low: along(grid.runs.low), high: along(grid.runs.high), colour }] : [],
      series: [
        guide(settings.task, [SLOWEST, Math.PI]),
        ...(grid ? [{ points: along(grid.runs.mean), colour, label: `stored, ${grid.runs.seeds} seeds` }, dots(runs.slice(0, -1), 3.5, BEFORE), dots(runs.slice(-1), 5.5, 3, runs.length ? "yours" : "")] : []),
      ],
      marks: [{ at: clamp(angle, SLOWEST, Math.PI), label: "the angle set above" }],
      note: grid ? "" : lengths.length ? `no stored runs of this kind; there are some at ${lengths.join(", ")} positions` : "no stored runs",
    });
  };
  const both = (make) => [before && make(before, true), now && make(now, false)].filter(Boolean).flat();
  const UNTRAINED = "Press Train.";
  const lengthOf = (run) => (run ? Math.max(...both((one) => one.settings.length)) : clamp(here().length || 8, ...data.lengths));
  const drawLoss = () => {
    const most = Math.max(1, ...both((run) => run.losses.map(([, loss]) => loss)));
    chart(box.loss, measure, {
      xLimits: [0, data.training.steps], yLimits: [0, most], xLabel: "training step", note: now ? "" : UNTRAINED,
      series: both((run, old) => ({ points: run.losses, colour: old ? BEFORE : COLOURS[run.settings.task], dashed: old, thin: old, label: old ? "run before" : `this run: ${data.names[run.settings.task]}` })),
    });
  };
  const drawPlaces = () => {
    const settings = now ? now.settings : here(), stored = nearest(settings), length = lengthOf(now);
    const rates = (run) => [...run.hits].map((hit, place) => [place, run.asked[place] ? hit / run.asked[place] : NaN]);
    const series = both((run, old) => (run.hits ? { points: rates(run), colour: old ? BEFORE : COLOURS[run.settings.task], dashed: old, thin: old, label: old ? "run before" : "this run" } : []));
    if (stored) {
      const means = stored.grid.runs.byPosition[stored.place].map((mean, place) => [place, mean < 0 ? NaN : mean]);
      series.unshift({ points: means, colour: 4, thin: true, label: `stored, ${radians(stored.angle)} rad` });
    }
    const note = series.length ? "" : UNTRAINED;
    series.unshift(guide(settings.task, [0, length - 1]));
    chart(box.places, measure, { xLimits: [0, length - 1], yLimits: [0, 1], xLabel: "position of the answer in the context", series, note });
  };
  const drawAttention = () => {
    const length = lengthOf(now);
    const series = both((run, old) => (run.attention || []).map((weights, which) => ({
      points: [...weights].slice(0, run.settings.length).map((weight, place) => [place, weight]), colour: TARGETS[which][1], dashed: old, thin: old, label: old ? "" : TARGETS[which][0], name: `run before, ${TARGETS[which][0]}`,
    })));
    if (before && before.attention) series.push({ points: [], colour: BEFORE, label: "dashed: run before" });
    chart(box.attention, measure, { xLimits: [0, length - 1], yLimits: [0, 1], xLabel: "position in the context", series, note: now ? "" : UNTRAINED });
  };
  // Of each plane of a run the tips of keys and queries.
  const planesOf = (run, name) => {
    if (!run || !run.keys) return [];
    const planes = run.settings.angles.length, dim = 2 * planes;
    const points = (flat, plane) => rangeOf(flat.length / dim).map((row) => [flat[row * dim + plane], flat[row * dim + planes + plane]]);
    return run.settings.angles.map((angle, plane) => ({ keys: points(run.keys, plane), queries: points(run.queries, plane), title: `${name}, ${radians(angle)} rad` }));
  };
  const drawPlanesOf = (box, run, name) => {
    box.replaceChildren();
    planesOf(run, name).forEach((plane) => arrowPlane(box, scheme(), plane));
  };
  const planes = [element(box.planes, "div"), element(box.planes, "div")];
  const drawPlanes = () => drawPlanesOf(planes[0], now, "this run");
  const drawPlanesBefore = () => drawPlanesOf(planes[1], before, "run before");
  const rowOf = (run) => {
    const stored = nearest(run.settings), done = Number.isFinite(run.accuracy), { task, angles, length, seed } = run.settings;
    return [run.number, data.names[task], angles.map(radians).join(" and "), length, seed, done ? whole(run.step) : "…",
      done ? share(run.accuracy) : "…", stored ? `${share(stored.accuracy)} at ${radians(stored.angle)}` : "none", run.seconds ? run.seconds.toFixed(1) : "…"];
  };
  const drawTable = () => {
    const body = find(".posym-live-table tbody");
    body.replaceChildren();
    for (const run of [now, ...[...ended].reverse().filter((one) => one !== now)].filter(Boolean).slice(0, 8)) {
      const row = element(body, "tr");
      rowOf(run).forEach((text, place) => element(row, place ? "td" : "th", place ? {} : { scope: "row" }, String(text)));
    }
  };
  // One part a frame, so that no control waits for a drawing.
  const waiting = new Set(), moving = [drawLoss, drawPlaces, drawAttention, drawPlanes], chosen = [drawGrid, drawPlaces, drawAttention], all = [drawGrid, ...moving, drawPlanesBefore, drawTable];
  let asked = false;
  const drawNext = () => {
    const [part] = waiting;
    waiting.delete(part);
    part();
    asked = waiting.size > 0;
    if (asked) requestAnimationFrame(drawNext);
  };
  const drawSoon = (...parts) => {
    parts.forEach((part) => waiting.add(part));
    if (!asked) (asked = true), requestAnimationFrame(drawNext);
  };

  // ---- running ---------------------------------------------------------------------------------------------------------
  const show = (running) => {
    (controls.pause.disabled = controls.stop.disabled = !running), (controls.pause.textContent = "Pause");
    figure.toggleAttribute("data-running", running);
  };
  const said = new Set();
  const hear = (run) => ({ data: news }) => {
    if (run !== now) return;
    if (news.kind === "time") return void ((run.seconds = news.seconds), drawSoon(drawTable));
    run.losses.push(...news.losses);
    Object.assign(run, { step: news.step, attention: news.attention, hits: news.hits, asked: news.asked, keys: news.keys, queries: news.queries, seconds: news.seconds });
    (controls.step.value = whole(news.step)), (find("progress").value = news.step);
    const loss = run.losses.length ? run.losses[run.losses.length - 1][1].toFixed(2) : "unknown";
    const quarter = Math.floor((4 * news.step) / data.training.steps);
    if (news.kind === "end") {
      (run.accuracy = news.accuracy), ended.push(run);
      controls.accuracy.value = news.accuracy.toFixed(4);
      show(false);
      const stored = nearest(run.settings);
      say(`Run ${run.number} ended at step ${whole(news.step)} with accuracy ${share(news.accuracy)}${stored ? `; the stored runs at ${radians(stored.angle)} radians reach ${share(stored.accuracy)}` : ""}.`);
    } else if (quarter && !said.has(quarter)) said.add(quarter), say(`Step ${whole(news.step)}, loss ${loss}.`);
    drawSoon(...(news.kind === "end" ? all : moving));
  };
  const train = () => {
    const { settings, title, message, wrong } = read(controls, data.lengths, data.names);
    complain(message || "", wrong);
    if (!settings) return void controls[wrong].focus();
    if (worker) worker.terminate();
    try {
      worker = new Worker(source);
    } catch {
      return complain("This page may not start a worker, so it cannot train; open it in a browser of its own.");
    }
    if (now && Number.isFinite(now.accuracy)) before = now; // a run that was broken off is none
    now = { settings, losses: [], step: 0, accuracy: NaN, number: ended.length + 1 };
    worker.onmessage = hear(now);
    worker.onerror = (event) => (show(false), complain(`Training broke off: ${event.message}.`));
    worker.postMessage({ kind: "train", ...settings, sizes: { ...data.sizes, length: settings.length }, width: data.width, training: data.training, looks: data.looks });
    (controls.accuracy.value = ""), (controls.step.value = find("progress").value = 0);
    said.clear();
    show(true);
    say(`Run ${now.number} begins: ${title}.`);
    drawSoon(...all);
  };
  find("form").addEventListener("submit", (event) => (event.preventDefault(), train()));
  controls.stop.addEventListener("click", () => worker.postMessage({ kind: "stop" }));
  controls.pause.addEventListener("click", () => {
    const paused = controls.pause.textContent === "Pause";
    worker.postMessage({ kind: paused ? "pause" : "go" });
    controls.pause.textContent = paused ? "Go on" : "Pause";
    say(paused ? `Paused at step ${whole(now.step)}.` : "Training goes on.");
  });

  // ---- controls --------------------------------------------------------------------------------------------------------
  const angleAt = (turn) => Number((Math.PI * (SLOWEST / Math.PI) ** (turn / TURN)).toPrecision(3));
  const placeSlider = () => {
    const angle = Number(controls.angle.value);
    if (angle > 0) controls.turn.value = Math.round((TURN * Math.log(Math.PI / clamp(angle, SLOWEST, Math.PI))) / Math.log(Math.PI / SLOWEST));
    showTurn();
  };
  const showTurn = () => {
    controls.turn.setAttribute("aria-valuetext", `${controls.angle.value} radians`);
    controls.turn.style.setProperty("--posym-done", `${(100 * controls.turn.value) / TURN}%`);
  };
  controls.turn.addEventListener("input", () => {
    controls.angle.value = angleAt(Number(controls.turn.value));
    showTurn();
    drawSoon(...chosen);
    settle();
  });
  const fields = ["task", "angle", "angle2", "length", "seed"];
  const look = () => {
    placeSlider();
    const { message = "", wrong } = read(controls, data.lengths, data.names);
    complain(message, wrong);
    drawSoon(...chosen);
  };
  for (const name of fields) controls[name].addEventListener("input", () => (look(), settle()));

  placeSlider();
  all.forEach((part) => part());
  const named = () => Object.fromEntries(fields.map((name) => [name, controls[name].value]));
  const put = (state) => {
    for (const [name, text] of Object.entries(state))
      if (name !== "task" || text in data.names) controls[name].value = text;
    look();
  };
  const settle = addressOf(figure, "trained-head", { sliders: fields.map(fieldOf), named, put });

  // ---- what a reader keeps ---------------------------------------------------------------------------------------------
  const titleOf = (part) => part.closest(".posym-panel").querySelector(".posym-title").textContent;
  const numbers = () => {
    const { task, angles, length, seed } = now ? now.settings : here();
    const charts = Object.values(box).flatMap((part) => rowsOf(part).map((row) => [titleOf(part), ...row]));
    const arrows = [...planesOf(now, "this run"), ...planesOf(before, "run before")].flatMap(({ keys, queries, title }) =>
      [["keys", keys], ["queries", queries]].flatMap(([kind, points]) => points.map((point) => [titleOf(box.planes), `${kind}, ${title}`, ...point])));
    return csvOf({ task: data.names[task], angles: angles.map(radians).join(" and "), positions: length, seed }, [...charts, ...arrows]);
  };
  const fold = keepFold(figure, "trained-head");
  addLink(fold, figure, named);
  addDrawings(fold, () => svgOf(figure), numbers);

  let width = figure.clientWidth;
  new ResizeObserver(() => figure.clientWidth !== width && ((width = figure.clientWidth), drawSoon(...all))).observe(figure);
  const watcher = new MutationObserver(() => drawSoon(drawPlanes, drawPlanesBefore));
  watcher.observe(document.documentElement, { attributes: true, attributeFilter: ["data-theme", "theme"] });
  whenFontsChange(() => (forget(), drawSoon(...all)));
}

startAll("posym-trainer-data", start);
