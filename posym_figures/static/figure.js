// A slider figure, on a page or as a widget of a notebook. `model` holds what it draws from: on a page the frames alone,
// beside a kernel also what Python last computed (`shown`), for values that may lie between the frames.
import { canvas, clamp, element, fillTable, hover, ruler, schemeOf, showSetting, whenFontsChange, write } from "./core.js";
import { KINDS } from "./drawings.js";
import { askFirst } from "./guess.js";
import { addressOf, addTools } from "./keep.js";

// Places of a slider are whole at its settings; a number between two settings lies on the line between them.
const placeOf = (keys, value) => {
  if (keys.includes(value)) return keys.indexOf(value);
  const next = keys.findIndex((key, place) => place && (keys[place - 1] < value) !== (key < value));
  if (next > 0) return next - 1 + (value - keys[next - 1]) / (keys[next] - keys[next - 1]);
  return keys.reduce((best, key, place) => (Math.abs(key - value) < Math.abs(keys[best] - value) ? place : best), 0);
};
const valueAt = ({ keys, whole }, place) => {
  const lower = Math.floor(place), share = place - lower;
  if (!share) return keys[lower];
  const value = keys[lower] + share * (keys[lower + 1] - keys[lower]);
  return whole ? Math.round(value) : clamp(Number(value.toPrecision(5)), Math.min(...keys), Math.max(...keys));
};

const settingNear = (sliders, values) =>
  Object.fromEntries(sliders.map(({ name, keys }) => [name, keys[Math.round(placeOf(keys, values[name]))]]));

function render({ model, el }) {
  const live = Boolean(model.get("markup"));
  if (live) el.innerHTML = model.get("markup");
  const figure = live ? el.querySelector("figure") : el;
  if (live) figure.dataset.lmSuppressShortcuts = "true"; // keys typed here are no commands of JupyterLab
  const { name, sliders, panels, guess } = model.get("data");
  const inputs = [...figure.querySelectorAll(".posym-sliders input, .posym-sliders select")];
  const boxes = [...figure.querySelectorAll(".posym-drawing")];
  const numbers = [], hits = [];
  const { measure, forget } = ruler(figure);
  let shown = live && model.get("shown"), scheme = schemeOf(figure);
  const values = sliders.map(({ name: key, keys }, slider) => (live ? shown.values[key] : keys[Number(inputs[slider].value)]));

  // ---- drawings ----------------------------------------------------------------------------------------------------
  const isShown = () => shown && sliders.every((slider, place) => shown.values[slider.name] === values[place]);
  // Between two settings the frames of the nearest are drawn, until Python has computed those that belong there.
  const nearest = () => settingNear(sliders, named());
  const isExact = () => isShown() || sliders.every(({ keys }, slider) => keys.includes(values[slider]));
  const framed = (place) => {
    const panel = panels[place], fresh = isShown() ? { ...panel, ...shown.panels[place] } : panel;
    const frame = panel.over.reduce(
      (index, slider, order) => index * panel.dims[order] + Math.round(placeOf(sliders[slider].keys, values[slider])), 0);
    const at = (field) => {
      if (!field) return null;
      if (!field.at && field.v.length <= field.n) return field.v;
      const place = field.at ? field.at[frame] : frame;
      return field.v.slice(place * field.n, (place + 1) * field.n);
    };
    return [fresh, at];
  };
  const draw = (place) => {
    const [panel, at] = framed(place), box = boxes[place];
    if (panel.kind === "readout") return fillTable(box, panel.rows.map((row) => [row.label, at(row)[0]]));
    const [width, height] = sizes[place];
    const svg = canvas(width, height);
    hits[place] = KINDS[panel.kind](panel, at, { svg, width, height, measure, scheme });
    box.replaceChildren(svg);
  };
  const drawAll = () => panels.forEach((_, place) => draw(place));
  // Sizes are read together and kept: reading them between drawings would lay the page out again each time.
  const sizesNow = () => boxes.map((box) => [box.clientWidth || 360, box.clientHeight || 260]);
  let sizes = sizesNow();

  // ---- sliders -----------------------------------------------------------------------------------------------------
  const show = (slider) => {
    const { keys, numeric } = sliders[slider], place = placeOf(keys, values[slider]);
    inputs[slider].value = place;
    showSetting(inputs[slider], numeric && place % 1 ? write(values[slider]) : undefined);
    if (numbers[slider]) numbers[slider].value = values[slider];
  };
  const put = (all) => {
    sliders.forEach((slider, place) => {
      if (slider.name in all) values[place] = all[slider.name];
      show(place);
    });
    drawAll();
  };
  const move = (slider, value) => {
    values[slider] = value;
    show(slider);
    panels.forEach((panel, place) => (live || panel.over.includes(slider)) && draw(place));
    changed();
  };
  const named = () => Object.fromEntries(sliders.map((slider, place) => [slider.name, values[place]]));
  // What is kept is named by what is drawn: controls that are ahead of it come back.
  const settled = () => (isExact() || put(nearest()), named());
  let changed = () => {};

  inputs.forEach((input, slider) => {
    input.addEventListener("input", () => move(slider, valueAt(sliders[slider], Number(input.value))));
    if (live && sliders[slider].numeric) numbers[slider] = exact(input, sliders[slider], (value) => move(slider, value));
    show(slider);
  });
  boxes.forEach((box, place) => panels[place].kind === "readout" || hover(box, (x, y) => hits[place] && hits[place](x, y)));
  drawAll();
  if (guess) askFirst(figure, guess);

  if (live) changed = asking(model, figure, { sliders, put, named, settled, isExact, hear: () => (shown = model.get("shown")) });
  else changed = addressOf(figure, name, { sliders, named, put });
  addTools(figure, model, { name, sliders, settled, panels: () => panels.map((_, place) => framed(place)) });

  // ---- what changes around it --------------------------------------------------------------------------------------
  const observer = new ResizeObserver(() => {
    const before = sizes;
    sizes = sizesNow();
    sizes.forEach((size, place) => String(size) !== String(before[place]) && draw(place));
  });
  observer.observe(figure);
  const restyle = () => {
    const now = schemeOf(figure);
    if (now !== scheme) (scheme = now), drawAll();
  };
  const watcher = new MutationObserver(restyle);
  watcher.observe(document.documentElement, { attributes: true });
  watcher.observe(document.body, { attributes: true });
  window.matchMedia("(prefers-color-scheme: dark)").addEventListener("change", restyle);
  whenFontsChange(() => (forget(), drawAll()));
  return () => (observer.disconnect(), watcher.disconnect());
}

// ---- beside a kernel -----------------------------------------------------------------------------------------------
// A slider over numbers takes all between its ends, and a box beside it any of them exactly. Arrow keys step settings.
const exact = (input, { keys, whole }, take) => {
  input.step = whole ? input.step : "any";
  input.addEventListener("keydown", (event) => {
    const step = { ArrowRight: 1, ArrowUp: 1, ArrowLeft: -1, ArrowDown: -1 }[event.key], place = Number(input.value);
    if (!step) return;
    event.preventDefault();
    take(keys[clamp(step > 0 ? Math.floor(place) + 1 : Math.ceil(place) - 1, 0, keys.length - 1)]);
  });
  const setting = input.parentNode.querySelector(".posym-value");
  const number = element(null, "input", {
    type: "number", class: "posym-number", step: whole ? 1 : "any", min: Math.min(...keys), max: Math.max(...keys),
    autocomplete: "off", "aria-label": `${input.getAttribute("aria-label")}, exactly`,
  });
  setting.replaceWith(number);
  const typed = () => number.value !== "" && take(Number(number.value));
  number.addEventListener("change", typed);
  number.addEventListener("keydown", ({ key }) => key === "Enter" && typed());
  return number;
};

const PAUSE = 50; // milliseconds without a move before Python is asked
const PATIENCE = 3000; // milliseconds without an answer after which nobody is thought to be there

// Asks Python for the values that the figure stands at, and moves the figure when Python moves them. Where no answer
// comes, the controls go back to what is drawn and stay with the settings until one does.
const asking = (model, figure, { sliders, put, named, settled, isExact, hear }) => {
  const panels = figure.querySelector(".posym-panels");
  const said = (look, role) => {
    const made = element(null, "p", { class: `${look} mathjax_ignore`, role });
    panels.before(made);
    return made;
  };
  const error = said("posym-error", "alert"), note = said("posym-note", "status");
  let pausing = 0, waiting = 0, asked = null, alone = false;
  const busy = () => panels.setAttribute("aria-busy", String(!isExact()));
  const goTo = (values) => (clearTimeout(waiting), (asked = null), put(values), busy());
  const leave = () => {
    if (isExact()) return;
    alone = true;
    note.textContent = "The kernel does not answer. The figure stands at the nearest setting that was computed before.";
    settled();
    busy();
  };
  const same = (one, other) => sliders.every(({ name }) => one[name] === other[name]);
  model.on("change:shown", () => {
    hear();
    const { values } = model.get("shown");
    if (asked && !same(values, asked)) return; // an answer to what was asked before is none
    (alone = false), (note.textContent = "");
    goTo(values);
  });
  const complain = () => (error.textContent = model.get("error"));
  model.on("change:error", () => {
    complain();
    if (model.get("error") && !pausing) goTo(model.get("shown").values);
  });
  complain();
  return () => {
    asked = named();
    clearTimeout(pausing);
    clearTimeout(waiting);
    pausing = setTimeout(() => {
      pausing = 0;
      waiting = setTimeout(leave, PATIENCE);
      try {
        model.set("values", asked);
        model.save_changes();
      } catch {
        leave();
      }
    }, PAUSE);
    if (alone) settled();
    busy();
  };
};

export default { render };
