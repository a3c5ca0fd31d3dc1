// A forward pass of a GPT-J model, as posym_companion.several_hops.gptj has it, and the swap scores of its heads, as
// posym_core.swap_scores has them, in plain arrays.

// ---- weights ----------------------------------------------------------------------------------------------------------
// Half precision as numbers: sign, 5 bits of exponent, 10 of fraction.
const half = (bits) => {
  const sign = bits & 0x8000 ? -1 : 1, exponent = (bits >> 10) & 31, fraction = bits & 1023;
  if (exponent === 0) return sign * fraction * 2 ** -24;
  if (exponent === 31) return fraction ? NaN : sign * Infinity;
  return sign * (1 + fraction / 1024) * 2 ** (exponent - 15);
};

// The tensors of one parcel, base64 of little-endian half precision, by name; layout is [[name, shape], ...].
export const unpackParcel = (text, layout) => {
  const bytes = Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
  const table = (unpackParcel.table = unpackParcel.table || Float32Array.from({ length: 65536 }, (_, bits) => half(bits)));
  const codes = new Uint16Array(bytes.buffer), found = {};
  let at = 0;
  for (const [name, shape] of layout) {
    const size = shape.reduce((product, each) => product * each, 1);
    const tensor = (found[name] = new Float32Array(size));
    for (let place = 0; place < size; place++) tensor[place] = table[codes[at + place]];
    at += size;
  }
  return found;
};

// ---- layers -----------------------------------------------------------------------------------------------------------
// x [tokens, inner] @ weight [outer, inner] transposed, plus bias; four tokens share each weight that is read.
const linear = (x, weight, bias, tokens, inner, outer) => {
  const out = new Float64Array(tokens * outer);
  let token = 0;
  for (; token + 3 < tokens; token += 4) {
    const a = token * inner, b = a + inner, c = b + inner, d = c + inner;
    for (let row = 0; row < outer; row++) {
      const from = row * inner;
      let first = bias ? bias[row] : 0, second = first, third = first, fourth = first;
      for (let place = 0; place < inner; place++) {
        const one = weight[from + place];
        (first += x[a + place] * one), (second += x[b + place] * one), (third += x[c + place] * one), (fourth += x[d + place] * one);
      }
      const to = token * outer + row;
      (out[to] = first), (out[to + outer] = second), (out[to + 2 * outer] = third), (out[to + 3 * outer] = fourth);
    }
  }
  for (; token < tokens; token++) {
    for (let row = 0; row < outer; row++) {
      let sum = bias ? bias[row] : 0;
      for (let place = 0; place < inner; place++) sum += x[token * inner + place] * weight[row * inner + place];
      out[token * outer + row] = sum;
    }
  }
  return out;
};

const normalised = (x, weight, bias, tokens, width) => {
  const out = new Float64Array(x.length);
  for (let token = 0; token < tokens; token++) {
    const at = token * width;
    let mean = 0, square = 0;
    for (let place = 0; place < width; place++) mean += x[at + place] / width;
    for (let place = 0; place < width; place++) square += (x[at + place] - mean) ** 2 / width;
    const lift = 1 / Math.sqrt(square + 1e-5);
    for (let place = 0; place < width; place++) out[at + place] = (x[at + place] - mean) * lift * weight[place] + bias[place];
  }
  return out;
};

// The complementary error function (Numerical Recipes, erfcc: relative error below 1.2e-7).
const erfc = (x) => {
  const size = Math.abs(x), t = 1 / (1 + 0.5 * size);
  const series = -1.26551223 + t * (1.00002368 + t * (0.37409196 + t * (0.09678418 + t * (-0.18628806 +
    t * (0.27886807 + t * (-1.13520398 + t * (1.48851587 + t * (-0.82215223 + t * 0.17087277))))))));
  const value = t * Math.exp(-size * size + series);
  return x < 0 ? 2 - value : value;
};
const gelu = (x) => {
  for (let place = 0; place < x.length; place++) x[place] *= 0.5 * erfc(-x[place] * Math.SQRT1_2);
  return x;
};

// Queries or keys turned to their positions, in every head: neighbouring dimensions are the two coordinates of a plane.
const turn = (x, angles, tokens, width) => {
  const turned = Float64Array.from(x);
  for (let token = 0; token < tokens; token++) {
    for (let pair = 0; pair < width / 2; pair++) {
      const at = token * width + 2 * pair, angle = token * angles[pair % angles.length], cos = Math.cos(angle), sin = Math.sin(angle);
      (turned[at] = x[at] * cos - x[at + 1] * sin), (turned[at + 1] = x[at + 1] * cos + x[at] * sin);
    }
  }
  return turned;
};

// Attention [token, token] of one head, whose dimensions begin at `from`, and what it reads, which is added to out.
// The last token meets `lastKey` in place of key.
const attend = (query, key, lastKey, value, out, { tokens, width, from, dim }) => {
  const weights = new Float64Array(tokens * tokens), scale = 1 / Math.sqrt(dim);
  for (let token = 0; token < tokens; token++) {
    const row = token * tokens, met = token === tokens - 1 ? lastKey : key;
    let most = -Infinity, total = 0;
    for (let other = 0; other <= token; other++) {
      let sum = 0;
      for (let place = from; place < from + dim; place++) sum += query[token * width + place] * met[other * width + place];
      weights[row + other] = sum * scale;
      if (weights[row + other] > most) most = weights[row + other];
    }
    for (let other = 0; other <= token; other++) total += weights[row + other] = Math.exp(weights[row + other] - most);
    for (let other = 0; other <= token; other++) {
      const weight = (weights[row + other] /= total);
      for (let place = from; place < from + dim; place++) out[token * width + place] += weight * value[other * width + place];
    }
  }
  return weights;
};

// Logits of the token after the last, and of every head, layer by layer, the attention [token, token].
// model: { layers, width, heads, angles, tensors }; off: which heads add nothing; stretch: factor of all angles;
// order: whose key, turned to this place, the last token meets at every place; blocks: { start, length, count } of keys
// whose swaps every head is scored on.
export const forward = ({ layers, width, heads = 1, angles, tensors }, tokens, { off = [], stretch = 1, order = null, blocks = null } = {}) => {
  const count = tokens.length, stretched = angles.map((angle) => angle * stretch), attention = [], scores = [];
  const embedding = tensors["transformer.wte.weight"], x = new Float64Array(count * width), dim = width / heads;
  tokens.forEach((token, place) => x.set(embedding.subarray(token * width, (token + 1) * width), place * width));
  for (let layer = 0; layer < layers; layer++) {
    const weight = (name) => tensors[`transformer.h.${layer}.${name}`];
    const read = normalised(x, weight("ln_1.weight"), weight("ln_1.bias"), count, width);
    const [query, key, value] = ["q_proj", "k_proj", "v_proj"].map((name) => linear(read, weight(`attn.${name}.weight`), null, count, width, width));
    const moved = Float64Array.from(key), out = new Float64Array(count * width);
    if (order) order.forEach((from, place) => moved.set(key.subarray(from * width, (from + 1) * width), place * width));
    const [asks, met, lastMet] = [query, key, moved].map((each) => turn(each, stretched, count, width));
    for (let head = 0; head < heads; head++) {
      const part = { tokens: count, width, from: head * dim, dim };
      attention.push(attend(asks, met, lastMet, value, out, part));
      if (blocks) scores.push(swapScores(asks, key, stretched, part, blocks));
      if (off[layer * heads + head]) for (let token = 0; token < count; token++) out.fill(0, token * width + part.from, token * width + part.from + dim);
    }
    const hidden = weight("mlp.fc_in.bias").length;
    const inner = gelu(linear(read, weight("mlp.fc_in.weight"), weight("mlp.fc_in.bias"), count, width, hidden));
    const network = linear(inner, weight("mlp.fc_out.weight"), weight("mlp.fc_out.bias"), count, hidden, width);
    const added = linear(out, weight("attn.out_proj.weight"), null, count, width, width);
    for (let place = 0; place < x.length; place++) x[place] += network[place] + added[place];
  }
  const last = normalised(x.subarray((count - 1) * width), tensors["transformer.ln_f.weight"], tensors["transformer.ln_f.bias"], 1, width);
  const bias = tensors["lm_head.bias"];
  return { logits: linear(last, tensors["lm_head.weight"], bias, 1, width, bias.length), attention, scores };
};

// ---- scores -----------------------------------------------------------------------------------------------------------
const TAU = 1e-4, FLOOR = 1e-8;
// Positional and symbolic score of one head's last token on all swaps of two blocks. keys are not turned.
export const swapScores = (query, keys, angles, { tokens, width, from, dim }, { start, length, count }) => {
  const last = tokens - 1, logit = (content, place) => {
    let sum = 0;
    for (let plane = 0; plane < dim / 2; plane++) {
      const angle = place * angles[plane], cos = Math.cos(angle), sin = Math.sin(angle), at = content * width + from + 2 * plane, asks = last * width + from + 2 * plane;
      sum += query[asks] * (keys[at] * cos - keys[at + 1] * sin) + query[asks + 1] * (keys[at + 1] * cos + keys[at] * sin);
    }
    return sum / Math.sqrt(dim);
  };
  const logits = Array.from({ length: tokens }, (_, place) => logit(place, place)), most = Math.max(...logits);
  const total = logits.reduce((sum, each) => sum + Math.exp(each - most), 0);
  // What a block's content draws at a block's place, against all attention before any swap.
  const drawn = (content, place) => {
    let sum = 0;
    for (let offset = 0; offset < length; offset++) sum += Math.exp(logit(start + content * length + offset, start + place * length + offset) - most);
    return sum / total;
  };
  const table = Array.from({ length: count }, (_, content) => Array.from({ length: count }, (_, place) => drawn(content, place)));
  const mass = table.map((row, block) => row[block]), widest = Math.max(...mass) - Math.min(...mass);
  // Summed and not subtracted from 1, which cancels where a pair holds nearly everything.
  const sumOf = (values, counts) => values.reduce((sum, each, place) => (counts(place) ? sum + each : sum), 0);
  const outside = sumOf(logits.map((each) => Math.exp(each - most) / total), (place) => place < start || place >= start + count * length);
  let [stays, follows, all] = [0, 0, 0];
  for (let i = 0; i < count; i++) {
    for (let j = i + 1; j < count; j++) {
      const [first, second] = [table[j][i], table[i][j]], floor = FLOOR * length;
      const after = outside + sumOf(mass, (block) => block !== i && block !== j) + first + second;
      const weight = Math.exp((Math.abs(mass[i] - mass[j]) - widest) / (length * TAU));
      const before = Math.max(floor, Math.hypot(mass[i], mass[j])), size = Math.max(floor * after, Math.hypot(first, second));
      const [a, b, c, d] = [mass[i] / before, mass[j] / before, first / size, second / size];
      (stays += weight * (a * c + b * d)), (follows += weight * (a * d + b * c)), (all += weight);
    }
  }
  return [stays / all, follows / all];
};
