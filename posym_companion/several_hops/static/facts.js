// Drives the reader's own facts: reads sentences and a question, asks the model as they are typed, draws what its heads read.
import { canvas, element, node, putLine, putText, rangeOf, startAll, tenth, whenFontsChange } from "../../../posym_figures/static/core.js";
import { addDrawings, addLink, addressOf, csvOf, fieldOf, keepFold, svgOf } from "../../../posym_figures/static/keep.js";
import { forward, unpackParcel } from "./gptj.js";

const START = 0, VERB = 1, STOP = 2, ASK = 3, MARKS = 4; // tokens as posym_core.tasks.FactsTask has them
const FACT = 4; // tokens of a fact: name, verb, attribute, stop
const ORDINALS = "first second third fourth fifth sixth seventh eighth".split(" ");
const SILENT = new Set("what which who does like likes the colour color fact number of in is".split(" "));
const share = (value) => value.toFixed(2);

// ---- texts ------------------------------------------------------------------------------------------------------------
const wordsOf = (text) => text.match(/[\p{L}\p{N}]+/gu) || [];
const placeIn = (list, word) => list.findIndex((one) => one.toLowerCase() === word.toLowerCase());
const unknown = (word, { names, colours }) =>
  `The model does not know “${word}”. It knows the names ${names.join(", ")} and the colours ${colours.join(", ")}.`;

// Facts [[name, colour], ...] of a text, or a sentence on what is wrong with it. data: { names, colours, most }.
export const readFacts = (data, text) => {
  const facts = [];
  for (const sentence of text.split(/[.;\n]+/).filter((one) => wordsOf(one).length)) {
    const words = wordsOf(sentence).filter((word) => !SILENT.has(word.toLowerCase()));
    const foreign = words.find((word) => placeIn(data.names, word) < 0 && placeIn(data.colours, word) < 0);
    if (foreign) return { message: unknown(foreign, data) };
    const fact = [placeIn(data.names, words[0] || ""), placeIn(data.colours, words[1] || "")];
    if (words.length !== 2 || fact[0] < 0 || fact[1] < 0)
      return { message: `A fact is a name and a colour, such as “${data.names[0]} likes ${data.colours[0]}.”; got “${sentence.trim()}”.` };
    facts.push(fact);
  }
  if (facts.length < 2 || facts.length > data.most) return { message: `The model reads 2 to ${data.most} facts; got ${facts.length}. End each with a full stop.` };
  return { facts };
};

// The question's token, the facts that answer it and its words, or a sentence on what is wrong with it.
export const readQuestion = (data, facts, text) => {
  const words = wordsOf(text).filter((word) => !SILENT.has(word.toLowerCase()));
  const help = `Ask for a name, such as “${data.names[facts[0][0]]}”, or for the number of a fact, such as “2”`;
  if (words.length !== 1) return { message: `${help}; got “${text.trim()}”.` };
  const [word] = words, ordinal = ORDINALS.indexOf(word.toLowerCase()), name = placeIn(data.names, word);
  if (name >= 0) return { token: MARKS + name, asked: rangeOf(facts.length).filter((fact) => facts[fact][0] === name), said: `what ${data.names[name]} likes` };
  const number = ordinal < 0 ? Number(word) : ordinal + 1;
  if (!Number.isInteger(number)) return { message: placeIn(data.colours, word) < 0 ? unknown(word, data) : `${help}; got the colour “${word}”.` };
  if (number < 1 || number > facts.length) return { message: `There are ${facts.length} facts, numbered from 1; got ${number}.` };
  return { token: MARKS + data.names.length + data.colours.length + number - 1, asked: [number - 1], said: `the colour of fact ${number}` };
};

export const tokensOf = ({ names }, facts, token) =>
  [START, ...facts.flatMap(([name, colour]) => [MARKS + name, VERB, MARKS + names.length + colour, STOP]), ASK, token];

// Whose key stands at every place after the keys of two facts have changed places.
export const orderOf = (count, [first, second]) => {
  const order = rangeOf(count);
  for (let offset = 1; offset <= FACT; offset++) (order[FACT * first + offset] = FACT * second + offset), (order[FACT * second + offset] = FACT * first + offset);
  return order;
};

// ---- the page ---------------------------------------------------------------------------------------------------------
function start(figure, data) {
  const find = (name) => figure.querySelector(name);
  const [typed, question, answer] = ["textarea", "[name=ask]", "[name=answer]"].map(find);
  const buttons = [...figure.querySelectorAll("button[name=head]")], names = buttons.map((button) => button.textContent);
  const parts = [...figure.querySelectorAll(".posym-parcel")];
  const model = { ...data.model, tensors: Object.assign({}, ...parts.map((one, place) => unpackParcel(one.textContent, data.layouts[place]))) };
  const off = () => buttons.map((button) => button.getAttribute("aria-pressed") === "true");
  let picked = [], state = null, late = 0;

  // ---- asking ----------------------------------------------------------------------------------------------------------
  const read = () => {
    const { facts, message } = readFacts(data, typed.value);
    if (message) return { message, wrong: typed };
    const asked = readQuestion(data, facts, question.value);
    return asked.message ? { message: asked.message, wrong: question } : { facts, ...asked };
  };
  // Of every head what the last token's attention to each fact is, and to all the rest.
  const toFacts = (weights, tokens, facts) => {
    const last = weights.subarray((tokens - 1) * tokens);
    const sums = rangeOf(facts).map((fact) => rangeOf(FACT).reduce((sum, offset) => sum + last[1 + FACT * fact + offset], 0));
    return [...sums, Math.max(0, 1 - sums.reduce((sum, each) => sum + each, 0))];
  };
  const ask = () => {
    const { facts, token, asked, said, message = "", wrong } = read();
    find(".posym-live-message").textContent = message;
    for (const one of [typed, question]) one.setAttribute("aria-invalid", String(one === wrong));
    for (const part of figure.querySelectorAll(".posym-facts-heads, .posym-hop-tokens")) part.style.opacity = message ? 0.35 : "";
    if (message) return void (answer.value = find(".posym-live-source").textContent = find(".posym-live-rule").textContent = "");
    picked = picked.filter((fact) => fact < facts.length);
    const tokens = tokensOf(data, facts, token), count = tokens.length, blocks = { start: 1, length: FACT, count: facts.length };
    const order = picked.length === 2 ? orderOf(count, picked) : null;
    const pass = forward(model, tokens, { off: off(), blocks, order }), plain = order ? forward(model, tokens, { off: off() }) : pass;
    const heads = (attention) => attention.map((weights) => toFacts(weights, count, facts.length));
    const first = MARKS + data.names.length, logits = [...pass.logits].slice(first, first + data.colours.length), most = Math.max(...logits);
    const odds = logits.map((logit) => Math.exp(logit - most)), best = logits.indexOf(most);
    state = { facts, asked, said, best, odds: 1 / odds.reduce((sum, each) => sum + each, 0), heads: heads(pass.attention), before: order && heads(plain.attention), scores: pass.scores };
    show();
  };
  const rule = () => {
    const { facts, asked, said } = state, told = asked.map((fact) => `${data.colours[facts[fact][1]]} (fact ${fact + 1})`);
    return `asked: ${said}; ${told.length ? `told: ${told.join(" and ")}` : "no fact tells"}`;
  };
  const speak = () => {
    const reads = state.heads.map((sums, head) => [head, ...sums.slice(0, -1)]), most = (sums) => Math.max(...sums.slice(1));
    const one = reads.reduce((best, sums) => (most(sums) > most(best) ? sums : best));
    find(".posym-live-said").textContent = `The model answers ${data.colours[state.best]}. ${rule()}. Head ${names[one[0]]} reads most, fact ${one.indexOf(most(one), 1)} with ${share(most(one))}.`;
  };

  // ---- drawings --------------------------------------------------------------------------------------------------------
  const HEIGHT = 46, bottom = HEIGHT - 3, rise = HEIGHT - 17;
  const slots = (box) => {
    const width = box.clientWidth || 240, each = width / (state.facts.length + 1);
    return { width, each, x: (slot) => tenth(slot * each + 0.16 * each), wide: tenth(0.68 * each) };
  };
  const bar = (svg, { x, wide }, slot, value, attributes) =>
    node(svg, "rect", { x: x(slot), width: wide, y: tenth(bottom - rise * value), height: tenth(rise * value), ...attributes });
  const drawHead = (box, head) => {
    const place = slots(box), svg = canvas(place.width, HEIGHT), silent = off()[head], sums = state.heads[head];
    putLine(svg, 0, bottom, place.width, bottom, "posym-axis");
    sums.forEach((value, slot) => {
      const rest = slot === state.facts.length, asked = state.asked.includes(slot);
      bar(svg, place, slot, value, { class: rest ? "posym-void" : `posym-fill posym-c${asked ? 2 : 6}`, opacity: silent ? 0.35 : null });
      if (state.before && picked.includes(slot)) bar(svg, place, slot, state.before[head][slot], { class: "posym-guide" });
      if (value >= 0.1) putText(svg, (slot + 0.5) * place.each, bottom - rise * value - 3, share(value).replace(/^0/, ""), { anchor: "middle" });
    });
    if (silent) putText(svg, 2, 12, "off", { look: "posym-strong" });
    const told = sums.slice(0, -1).map((value, fact) => `fact ${fact + 1} ${share(value)}`).join(", ");
    box.setAttribute("aria-label", `Head ${names[head]}${silent ? ", switched off" : ""}: attention to ${told}, to the rest ${share(sums[state.facts.length])}`);
    box.replaceChildren(svg);
  };
  const drawScores = (box, head) => {
    const width = box.clientWidth || 100, svg = canvas(width, HEIGHT), right = width - 32;
    state.scores[head].forEach((score, kind) => {
      const y = 12 + 16 * kind;
      node(svg, "rect", { x: 0, y, width: right, height: 9, class: "posym-void" });
      node(svg, "rect", { x: 0, y, width: tenth(right * Math.max(0, score)), height: 9, class: `posym-fill posym-c${kind}` });
      putText(svg, width, y + 9, share(score), { anchor: "end", look: `posym-ink posym-c${kind}` });
    });
    const [positional, symbolic] = state.scores[head].map(share);
    box.setAttribute("aria-label", `Head ${names[head]}: positional score ${positional}, symbolic score ${symbolic}`);
    box.replaceChildren(svg);
  };
  const drawAxis = () => {
    const box = find("[data-part=axis]"), { width, each } = slots(box), svg = canvas(width, 18);
    rangeOf(state.facts.length + 1).forEach((slot) => putText(svg, (slot + 0.5) * each, 13, slot === state.facts.length ? "rest" : String(slot + 1), { anchor: "middle" }));
    box.replaceChildren(svg);
  };
  const drawFacts = () => {
    const box = find(".posym-hop-tokens");
    while (box.children.length > state.facts.length) box.lastChild.remove();
    state.facts.forEach(([name, colour], fact) => {
      const button = box.children[fact] || element(box, "button", { type: "button", "data-place": fact });
      button.textContent = `${fact + 1} ${data.names[name]} likes ${data.colours[colour]}`;
      button.className = state.asked.includes(fact) ? "posym-hop-on posym-c2" : "";
      button.setAttribute("aria-pressed", String(picked.includes(fact)));
    });
  };
  const show = () => {
    if (!state) return;
    answer.value = data.colours[state.best];
    find(".posym-live-source").textContent = `(${share(state.odds)})${state.before ? ", with two keys exchanged" : ""}`;
    find(".posym-live-rule").textContent = rule();
    drawFacts();
    figure.querySelectorAll("[data-head]").forEach(drawHead);
    figure.querySelectorAll("[data-scores]").forEach(drawScores);
    drawAxis();
  };

  // ---- controls --------------------------------------------------------------------------------------------------------
  const now = () => ({ facts: typed.value, ask: question.value, off: names.filter((_, head) => off()[head]).join(" "), keys: picked.map((fact) => fact + 1).join(" ") });
  const put = ({ facts = typed.value, ask: asked = question.value, off: silent, keys }) => {
    (typed.value = facts), (question.value = asked);
    if (silent !== undefined) buttons.forEach((button, head) => button.setAttribute("aria-pressed", String(silent.split(" ").includes(names[head]))));
    if (keys !== undefined) picked = keys.split(" ").map((fact) => Number(fact) - 1).filter((fact) => Number.isInteger(fact) && fact >= 0).slice(0, 2);
    ask();
  };
  put({ facts: data.facts, ask: data.ask });
  const settle = addressOf(figure, "your-facts", { sliders: Object.keys(now()).map(fieldOf), named: now, put });
  const changed = () => {
    ask();
    settle();
    clearTimeout(late);
    if (!find(".posym-live-message").textContent) late = setTimeout(speak, 600);
  };
  typed.addEventListener("input", () => (picked = [])); // what is typed anew is read in its own order
  for (const one of [typed, question]) one.addEventListener("input", changed);
  for (const button of buttons)
    button.addEventListener("click", () => {
      button.setAttribute("aria-pressed", String(button.getAttribute("aria-pressed") !== "true"));
      changed();
    });
  find(".posym-hop-tokens").addEventListener("click", ({ target }) => {
    if (!target.dataset.place) return;
    const fact = Number(target.dataset.place);
    picked = picked.includes(fact) ? picked.filter((one) => one !== fact) : [...picked.slice(-1), fact];
    changed();
  });

  // ---- what a reader keeps ---------------------------------------------------------------------------------------------
  const numbers = () => state.heads.flatMap((sums, head) => [
    ...sums.map((value, slot) => [`head ${names[head]}`, "attention", slot === state.facts.length ? "rest" : slot + 1, value]),
    ...state.scores[head].map((score, kind) => [`head ${names[head]}`, ["positional score", "symbolic score"][kind], "", score]),
  ]);
  const fold = keepFold(figure, "your-facts");
  addLink(fold, figure, now);
  addDrawings(fold, () => svgOf(figure), () => csvOf({ ...now(), answer: data.colours[state.best] }, numbers()));
  let width = figure.clientWidth;
  new ResizeObserver(() => figure.clientWidth !== width && ((width = figure.clientWidth), show())).observe(figure);
  whenFontsChange(show);
}

startAll("posym-facts-data", start);
