// Number and Letter as posym_core.tasks._number_letter has them: texts of tokens, paths by the rules, sequences drawn.
// A task is { name, window, steps, hops, names } with letters (Number), or alphabet and integers (Letter).

const below = (count) => Math.floor(Math.random() * count);
const shuffled = (count) => {
  const order = Array.from({ length: count }, (_, place) => place);
  for (let last = count - 1; last > 0; last--) {
    const other = below(last + 1);
    [order[last], order[other]] = [order[other], order[last]];
  }
  return order;
};
const chosen = (order) => order[below(order.length)];

// ---- texts ------------------------------------------------------------------------------------------------------------
const PIECES = { number: /[^\s,;]+/g, letter: /\([^()]*\)|[^\s;()]+/g };

// Tokens of a text, or a sentence on what is wrong with it.
export const parse = (task, text, most) => {
  const pieces = text.match(PIECES[task.name]) || [], tokens = [];
  const known = (parse[task.name] = parse[task.name] || new Map(task.names.map((name, token) => [name.replace(/[(),]/g, ""), token])));
  for (const piece of pieces) {
    const token = known.get(piece.replace(/[(),\s]/g, "").toLowerCase());
    if (token === undefined) {
      const wanted = task.name === "number"
        ? `letters a to ${task.names[task.letters - 1]} and integers 1 to ${task.window + task.steps}`
        : `pairs such as ${task.names[0]} and ${task.names[task.alphabet * task.integers + 1]}, letters to ${"abcdefghijklmnopqrstuvwxyz"[task.alphabet - 1]}, integers to ${task.integers}`;
      return { message: `“${piece}” is no token of this task, which has ${wanted}.` };
    }
    tokens.push(token);
  }
  if (tokens.length < 2 || tokens.length > most) return { message: `A sequence has 2 to ${most} tokens; this one has ${tokens.length}.` };
  return { tokens };
};

// ---- paths ------------------------------------------------------------------------------------------------------------
const ends = (task) => (task.name === "number" ? task.letters : task.alphabet * task.integers);
const leftOf = (task, token) => (token < ends(task) ? Math.floor(token / task.integers) : Math.floor((token - ends(task)) / task.alphabet));

// Positions from the query to the answer, or as far as the rules lead, with a reason why they lead no further.
export const follow = (task, tokens) => {
  const path = [tokens.length - 1];
  for (;;) {
    const at = path[path.length - 1], token = tokens[at];
    if (token < ends(task)) return { path, answer: token };
    let next = at - (token - task.letters + 1);
    if (task.name === "letter") {
      const asked = (token - ends(task)) % task.alphabet;
      for (next = at - 1; next >= 0 && leftOf(task, tokens[next]) !== asked; ) next--;
    }
    if (next < 0) return { path, answer: null, reason: task.name === "number" ? "the path leaves the sequence" : "no earlier pair has that letter on the left" };
    path.push(next);
  }
};

// A sequence with a path of so many hops, drawn as the tasks draw theirs.
export const drawSequence = (task, hops) => {
  const { window, steps } = task, place = below(window), stations = shuffled(steps).slice(0, hops - 1).sort((a, b) => a - b);
  const path = [place, ...stations.map((step) => window + step), window + steps];
  if (task.name === "number") {
    const answer = below(task.letters), other = () => (answer + 1 + below(task.letters - 1)) % task.letters;
    const tokens = Array.from({ length: window }, (_, at) => (at === place ? answer : other()));
    for (let at = window; at <= window + steps; at++) {
      const rank = path.indexOf(at);
      tokens.push(task.letters + (rank > 0 ? at - path[rank - 1] : 1 + below(at)) - 1);
    }
    return tokens;
  }
  // Letter k of the order is named by the path's k-th token, counted from the query.
  const order = shuffled(task.alphabet), spare = order.slice(hops);
  const tokens = Array.from({ length: window }, (_, at) => (at === place ? order[hops - 1] : chosen(spare)) * task.integers + below(task.integers));
  for (let at = window; at <= window + steps; at++) {
    const rank = path.indexOf(at) < 0 ? -1 : path.length - 1 - path.indexOf(at);
    const left = rank > 0 ? order[rank - 1] : chosen(spare), right = rank >= 0 ? order[rank] : below(task.alphabet);
    tokens.push(ends(task) + left * task.alphabet + right);
  }
  return tokens;
};

// Tokens of the window's kind that no path of this sequence reaches, to stand in front of it.
export const drawFront = (task, tokens, count) => {
  const { path, answer } = follow(task, tokens);
  if (task.name === "number") return Array.from({ length: count }, () => (((answer ?? 0) + 1 + below(task.letters - 1)) % task.letters));
  const onPath = new Set(path.flatMap((at) => (tokens[at] < ends(task) ? [leftOf(task, tokens[at])] : [(tokens[at] - ends(task)) % task.alphabet])));
  const spare = Array.from({ length: task.alphabet }, (_, letter) => letter).filter((letter) => !onPath.has(letter));
  return Array.from({ length: count }, () => chosen(spare.length ? spare : [0]) * task.integers + below(task.integers));
};
