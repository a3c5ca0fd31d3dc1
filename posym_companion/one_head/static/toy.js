// Toys with one layer and one head, as posym_core.models._toys and posym_core.tasks._index_retrieval have them, with gradients by
// hand: loss, accuracy and attention of one model in plain arrays. Knows no page, so that tests can ask it alone.

// ---- chance -----------------------------------------------------------------------------------------------------------
// sfc32: 128 bits of state, each output used for one draw.
export const chance = (seed) => {
  let a = 0x9e3779b9, b = 0x243f6a88, c = 0xb7e15162, counter = 1;
  const bits = () => {
    const sum = (a + b + counter) | 0;
    counter = (counter + 1) | 0;
    a = b ^ (b >>> 9);
    b = (c + (c << 3)) | 0;
    c = ((c << 21) | (c >>> 11)) + sum | 0;
    return sum >>> 0;
  };
  a ^= seed | 0;
  b ^= Math.floor(seed / 4294967296);
  for (let turn = 0; turn < 20; turn++) bits();
  const uniform = () => bits() / 4294967296;
  const normal = () => {
    let first = 0;
    while (first === 0) first = uniform();
    return Math.sqrt(-2 * Math.log(first)) * Math.cos(2 * Math.PI * uniform());
  };
  return { uniform, normal, below: (count) => Math.floor(uniform() * count) };
};

// ---- tasks ------------------------------------------------------------------------------------------------------------
// tokens [input, length + 1] with the query last; answer and position [input].
export const emptyBatch = (task, count) => ({
  count,
  tokens: new Int32Array(count * (task.length + 1)),
  answer: new Int32Array(count),
  position: new Int32Array(count),
});

const indexTask = ({ length, symbols }) => {
  const draw = ({ below }, tokens, at, position) => {
    for (let place = 0; place < length; place++) tokens[at + place] = below(symbols);
    tokens[at + length] = symbols + position;
    return tokens[at + position];
  };
  const vocabulary = symbols + length;
  const parts = Int32Array.from({ length: vocabulary }, (_, token) => token);
  return { classes: symbols, context: symbols, queries: length, partsAToken: 1, partVocabulary: vocabulary, parts, draw, first: 0 };
};

// Tokens are pairs (symbol, attribute) of two parts; a query is a symbol of its own and a mark.
const pairTask = ({ symbols, attributes }, more) => {
  const words = symbols + attributes, context = symbols * attributes, parts = [];
  for (let token = 0; token < context; token++) parts.push(Math.floor(token / attributes), symbols + (token % attributes));
  for (let query = 0; query < symbols; query++) parts.push(words + query, words + symbols);
  return {
    classes: attributes, context, queries: symbols, partsAToken: 2, partVocabulary: words + symbols + 1,
    parts: Int32Array.from(parts), first: 0, ...more,
  };
};

const retrievalTask = ({ length, attributes }) => {
  const symbols = length, order = Int32Array.from({ length: symbols }, (_, symbol) => symbol);
  const draw = ({ below }, tokens, at, position) => {
    for (let last = symbols - 1; last > 0; last--) {
      const other = below(last + 1), kept = order[last];
      (order[last] = order[other]), (order[other] = kept);
    }
    for (let place = 0; place < length; place++) tokens[at + place] = order[place] * attributes + below(attributes);
    tokens[at + length] = symbols * attributes + order[position];
    return tokens[at + position] % attributes;
  };
  return pairTask({ symbols, attributes }, { draw });
};

const inductionTask = ({ length, symbols, attributes, repetition }) => {
  const places = new Int32Array(length);
  const draw = ({ below }, tokens, at, position) => {
    const queried = below(symbols);
    for (let place = 0; place < length; place++) {
      const other = below(symbols - 1);
      tokens[at + place] = (other + (other >= queried ? 1 : 0)) * attributes + below(attributes);
    }
    // The earlier occurrences are a uniform subset of the places before the last one.
    for (let place = 0; place < position; place++) places[place] = place;
    places[position] = position;
    for (let occurrence = 0; occurrence < repetition - 1; occurrence++) {
      const chosen = occurrence + below(position - occurrence), kept = places[occurrence];
      (places[occurrence] = places[chosen]), (places[chosen] = kept);
      tokens[at + places[occurrence]] = queried * attributes + (tokens[at + places[occurrence]] % attributes);
    }
    tokens[at + position] = queried * attributes + (tokens[at + position] % attributes);
    tokens[at + length] = symbols * attributes + queried;
    return tokens[at + position] % attributes;
  };
  return pairTask({ symbols, attributes }, { draw, first: repetition - 1 });
};

const TASK_MAKERS = { index: indexTask, retrieval: retrievalTask, induction: inductionTask };
export const makeTask = (name, sizes) => ({ name, length: sizes.length, ...TASK_MAKERS[name](sizes) });

// Fill a batch; the answer stands at a position drawn evenly, or at the one that is given.
export const drawBatch = (task, source, batch, given = -1) => {
  const slots = task.length + 1;
  for (let input = 0; input < batch.count; input++) {
    const position = given < 0 ? task.first + source.below(task.length - task.first) : given;
    batch.position[input] = position;
    batch.answer[input] = task.draw(source, batch.tokens, input * slots, position);
  }
  return batch;
};

// ---- models -----------------------------------------------------------------------------------------------------------
const SETS = ["embedding", "query", "key", "read"];

// Weights as ToyEnsemble draws them: queries and keys begin with half the usual spread.
export const makeModel = (task, angles, { width, seed }) => {
  const dim = 2 * angles.length, rows = task.partVocabulary, tokens = task.context + task.queries, slots = task.length + 1;
  const { normal } = chance(seed);
  const drawn = (count, spread) => Float64Array.from({ length: count }, () => spread * normal());
  const weights = {
    embedding: drawn(rows * width, 1),
    query: drawn(width * dim, 0.5 / Math.sqrt(width)),
    key: drawn(width * dim, 0.5 / Math.sqrt(width)),
    read: drawn(width * task.classes, 1 / Math.sqrt(width)),
  };
  const like = () => Object.fromEntries(SETS.map((name) => [name, new Float64Array(weights[name].length)]));
  const cos = new Float64Array(slots * angles.length), sin = new Float64Array(slots * angles.length);
  for (let slot = 0; slot < slots; slot++) {
    angles.forEach((angle, plane) => {
      cos[slot * angles.length + plane] = Math.cos((slots - 1 - slot) * angle);
      sin[slot * angles.length + plane] = Math.sin((slots - 1 - slot) * angle);
    });
  }
  const tables = () => ({
    query: new Float64Array(tokens * dim), key: new Float64Array(tokens * dim), read: new Float64Array(tokens * task.classes),
  });
  return {
    task, angles, width, dim, weights, gradients: like(), mean: like(), square: like(), steps: 0, cos, sin,
    tables: tables(), tableGradients: tables(), scale: 1 / Math.sqrt(dim),
    rows: new Float64Array(rows * Math.max(dim, task.classes)), columns: new Float64Array(rows * width),
    places: inOrder(width), parts: inOrder(rows), slots: new Int32Array(slots),
    attention: new Float64Array(slots), turned: new Float64Array(slots * dim), pull: new Float64Array(slots),
    scores: new Float64Array(task.classes),
  };
};

// out[to ...] += the weighted sum of rows of a table: four at a time, since stores take longer than products.
const addRows = (out, to, columns, table, rowOf, weights, from, count) => {
  let one = 0;
  for (; one + 3 < count; one += 4) {
    const a = weights[from + one], b = weights[from + one + 1], c = weights[from + one + 2], d = weights[from + one + 3];
    const rowA = rowOf[one] * columns, rowB = rowOf[one + 1] * columns, rowC = rowOf[one + 2] * columns, rowD = rowOf[one + 3] * columns;
    for (let column = 0; column < columns; column++)
      out[to + column] += a * table[rowA + column] + b * table[rowB + column] + c * table[rowC + column] + d * table[rowD + column];
  }
  for (; one < count; one++) {
    const a = weights[from + one], row = rowOf[one] * columns;
    for (let column = 0; column < columns; column++) out[to + column] += a * table[row + column];
  }
};
const inOrder = (count) => Int32Array.from({ length: count }, (_, place) => place);

// out [rows, columns] = left [rows, inner] @ right [inner, columns]
const product = (left, right, out, rows, order, columns) => {
  out.fill(0, 0, rows * columns);
  for (let row = 0; row < rows; row++) addRows(out, row * columns, columns, right, order, left, row * order.length, order.length);
};

// What every token has by its parts: query, key and read-out, looked up by all inputs of a batch.
export const fillTables = (model) => {
  const { task, dim, weights, tables, rows } = model, tokens = task.context + task.queries;
  for (const [name, columns] of [["query", dim], ["key", dim], ["read", task.classes]]) {
    product(weights.embedding, weights[name], rows, task.partVocabulary, model.places, columns);
    const table = tables[name], each = task.partsAToken;
    for (let token = 0; token < tokens; token++) {
      const first = task.parts[token * each] * columns, second = task.parts[token * each + each - 1] * columns;
      for (let column = 0; column < columns; column++)
        table[token * columns + column] = rows[first + column] + (each > 1 ? rows[second + column] : 0);
    }
  }
};

// Attention and scores of one input, whose tokens begin at `at`; tables must be filled.
const forward = (model, tokens, at) => {
  const { task, dim, tables, cos, sin, attention, turned, scores, scale } = model;
  const slots = task.length + 1, planes = dim / 2, classes = task.classes, asked = tokens[at + slots - 1] * dim;
  let most = -Infinity;
  for (let slot = 0; slot < slots; slot++) {
    const key = tokens[at + slot] * dim;
    let logit = 0;
    for (let plane = 0; plane < planes; plane++) {
      const c = cos[slot * planes + plane], s = sin[slot * planes + plane];
      const x = tables.query[asked + plane], y = tables.query[asked + planes + plane];
      const turnedX = x * c - y * s, turnedY = x * s + y * c;
      (turned[slot * dim + plane] = turnedX), (turned[slot * dim + planes + plane] = turnedY);
      logit += turnedX * tables.key[key + plane] + turnedY * tables.key[key + planes + plane];
    }
    attention[slot] = logit * scale;
    if (attention[slot] > most) most = attention[slot];
  }
  let total = 0;
  for (let slot = 0; slot < slots; slot++) total += attention[slot] = Math.exp(attention[slot] - most);
  for (let slot = 0; slot < slots; slot++) (attention[slot] /= total), (model.slots[slot] = tokens[at + slot]);
  scores.fill(0);
  addRows(scores, 0, classes, tables.read, model.slots, attention, 0, slots);
};

// Gradients of one input's loss by the tables, whose scores become those of the loss by the scores.
const backward = (model, tokens, at) => {
  const { task, dim, tables, tableGradients, cos, sin, attention, turned, pull, scores, scale } = model;
  const slots = task.length + 1, planes = dim / 2, classes = task.classes, asked = tokens[at + slots - 1] * dim;
  const read = tables.read, readGradient = tableGradients.read, keys = tables.key;
  let mean = 0;
  for (let slot = 0; slot < slots; slot++) {
    const weight = attention[slot], row = tokens[at + slot] * classes;
    let along = 0, one = 0;
    for (; one + 1 < classes; one += 2) {
      const a = scores[one], b = scores[one + 1];
      along += a * read[row + one] + b * read[row + one + 1];
      readGradient[row + one] += weight * a;
      readGradient[row + one + 1] += weight * b;
    }
    if (one < classes) (along += scores[one] * read[row + one]), (readGradient[row + one] += weight * scores[one]);
    pull[slot] = along;
    mean += along * weight;
  }
  for (let slot = 0; slot < slots; slot++) {
    const change = attention[slot] * (pull[slot] - mean) * scale, key = tokens[at + slot] * dim;
    for (let plane = 0; plane < planes; plane++) {
      const c = cos[slot * planes + plane], s = sin[slot * planes + plane];
      tableGradients.key[key + plane] += change * turned[slot * dim + plane];
      tableGradients.key[key + planes + plane] += change * turned[slot * dim + planes + plane];
      const x = keys[key + plane], y = keys[key + planes + plane];
      tableGradients.query[asked + plane] += change * (c * x + s * y);
      tableGradients.query[asked + planes + plane] += change * (c * y - s * x);
    }
  }
};

// From tables to weights: by parts, then through both factors of each product.
const collect = (model) => {
  const { task, width, dim, weights, gradients, tableGradients, rows } = model;
  const tokens = task.context + task.queries, each = task.partsAToken, parts = task.partVocabulary;
  for (const name of SETS) gradients[name].fill(0);
  for (let row = 0; row < parts; row++)
    for (let place = 0; place < width; place++) model.columns[place * parts + row] = weights.embedding[row * width + place];
  for (const [name, columns] of [["query", dim], ["key", dim], ["read", task.classes]]) {
    rows.fill(0);
    const table = tableGradients[name], map = weights[name], mapGradient = gradients[name];
    for (let token = 0; token < tokens; token++) {
      for (let part = 0; part < each; part++) {
        const to = task.parts[token * each + part] * columns;
        for (let column = 0; column < columns; column++) rows[to + column] += table[token * columns + column];
      }
    }
    for (let place = 0; place < width; place++)
      addRows(mapGradient, place * columns, columns, rows, model.parts, model.columns, place * parts, parts);
    for (let row = 0; row < parts; row++) {
      for (let place = 0; place < width; place++) {
        const to = place * columns, from = row * columns;
        let even = 0, odd = 0, column = 0;
        for (; column + 1 < columns; column += 2) {
          even += rows[from + column] * map[to + column];
          odd += rows[from + column + 1] * map[to + column + 1];
        }
        if (column < columns) even += rows[from + column] * map[to + column];
        gradients.embedding[row * width + place] += even + odd;
      }
    }
  }
};

// Mean cross-entropy of a batch; its gradients are left in model.gradients.
export const lossAndGradients = (model, batch) => {
  const { task, scores, tableGradients } = model, slots = task.length + 1;
  fillTables(model);
  for (const name in tableGradients) tableGradients[name].fill(0);
  let loss = 0;
  for (let input = 0; input < batch.count; input++) {
    forward(model, batch.tokens, input * slots);
    let most = -Infinity, total = 0;
    for (let one = 0; one < task.classes; one++) if (scores[one] > most) most = scores[one];
    for (let one = 0; one < task.classes; one++) total += Math.exp(scores[one] - most);
    loss += most + Math.log(total) - scores[batch.answer[input]];
    for (let one = 0; one < task.classes; one++)
      scores[one] = (Math.exp(scores[one] - most) / total - (one === batch.answer[input] ? 1 : 0)) / batch.count;
    backward(model, batch.tokens, input * slots);
  }
  collect(model);
  return loss / batch.count;
};

// Learning rate of step 0 .. steps - 1, as TrainingSettings.rate.
export const rateAt = ({ steps, learning_rate: rate, warmup }, step) =>
  rate * (warmup ? Math.min(1, (step + 1) / warmup) : 1) * 0.5 * (1 + Math.cos((Math.PI * step) / steps));

// One step of Adam with the gradients that are there.
export const adamStep = (model, training) => {
  const rate = rateAt(training, model.steps++), [slow, slower] = training.betas;
  const lift = 1 / (1 - slow ** model.steps), liftSquare = 1 / (1 - slower ** model.steps);
  for (const name of SETS) {
    const weight = model.weights[name], gradient = model.gradients[name], mean = model.mean[name], square = model.square[name];
    for (let place = 0; place < weight.length; place++) {
      const one = gradient[place];
      mean[place] += (1 - slow) * (one - mean[place]);
      square[place] += (1 - slower) * (one * one - square[place]);
      weight[place] -= (rate * mean[place] * lift) / (Math.sqrt(square[place] * liftSquare) + 1e-8);
    }
  }
};

// ---- what is shown ----------------------------------------------------------------------------------------------------
// Right answers and questions by the answer's position, of `count` fresh inputs.
export const countHits = (model, source, count) => {
  const { task, scores } = model, slots = task.length + 1, batch = emptyBatch(task, 256);
  const hits = new Int32Array(task.length), asked = new Int32Array(task.length);
  fillTables(model);
  for (let done = 0; done < count; done += batch.count) {
    drawBatch(task, source, batch);
    for (let input = 0; input < batch.count && done + input < count; input++) {
      forward(model, batch.tokens, input * slots);
      let best = 0;
      for (let one = 1; one < task.classes; one++) if (scores[one] > scores[best]) best = one;
      asked[batch.position[input]]++;
      if (best === batch.answer[input]) hits[batch.position[input]]++;
    }
  }
  return { hits, asked };
};

// Mean attention over the slots when the answer stands at `target`.
export const meanAttention = (model, source, target, count) => {
  const { task } = model, slots = task.length + 1, batch = drawBatch(task, source, emptyBatch(task, count), target);
  const mean = new Float64Array(slots);
  fillTables(model);
  for (let input = 0; input < count; input++) {
    forward(model, batch.tokens, input * slots);
    for (let slot = 0; slot < slots; slot++) mean[slot] += model.attention[slot] / count;
  }
  return mean;
};

// Unrotated keys of the context's symbols (with the mean attribute) and queries, [token, dim].
export const arrows = (model) => {
  const { task, dim, tables } = model, symbols = task.partsAToken > 1 ? task.queries : task.context;
  fillTables(model);
  const each = task.context / symbols, keys = new Float64Array(symbols * dim);
  for (let token = 0; token < task.context; token++)
    for (let place = 0; place < dim; place++) keys[Math.floor(token / each) * dim + place] += tables.key[token * dim + place] / each;
  return { keys, queries: tables.query.slice(task.context * dim) };
};
