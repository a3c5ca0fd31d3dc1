// A forward pass of a GPT-J model with one head a layer, as posym_companion.several_hops.gptj has it, in plain arrays.

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

// Queries or keys turned to their positions: neighbouring dimensions are the two coordinates of a plane.
const turn = (x, angles, tokens, width) => {
  for (let token = 0; token < tokens; token++) {
    for (let plane = 0; plane < angles.length; plane++) {
      const at = token * width + 2 * plane, cos = Math.cos(token * angles[plane]), sin = Math.sin(token * angles[plane]);
      const first = x[at], second = x[at + 1];
      (x[at] = first * cos - second * sin), (x[at + 1] = second * cos + first * sin);
    }
  }
  return x;
};

const attend = (query, key, value, tokens, width) => {
  const weights = new Float64Array(tokens * tokens), out = new Float64Array(tokens * width), scale = 1 / Math.sqrt(width);
  for (let token = 0; token < tokens; token++) {
    const row = token * tokens;
    let most = -Infinity, total = 0;
    for (let other = 0; other <= token; other++) {
      let sum = 0;
      for (let place = 0; place < width; place++) sum += query[token * width + place] * key[other * width + place];
      weights[row + other] = sum * scale;
      if (weights[row + other] > most) most = weights[row + other];
    }
    for (let other = 0; other <= token; other++) total += weights[row + other] = Math.exp(weights[row + other] - most);
    for (let other = 0; other <= token; other++) {
      const weight = (weights[row + other] /= total);
      for (let place = 0; place < width; place++) out[token * width + place] += weight * value[other * width + place];
    }
  }
  return { weights, out };
};

// Logits of the token after the last, and every layer's attention [token, token].
// model: { layers, width, angles, tensors }; off: which layers' heads add nothing; stretch: factor of all angles.
export const forward = ({ layers, width, angles, tensors }, tokens, { off = [], stretch = 1 } = {}) => {
  const count = tokens.length, stretched = angles.map((angle) => angle * stretch), attention = [];
  const embedding = tensors["transformer.wte.weight"], x = new Float64Array(count * width);
  tokens.forEach((token, place) => x.set(embedding.subarray(token * width, (token + 1) * width), place * width));
  for (let layer = 0; layer < layers; layer++) {
    const weight = (name) => tensors[`transformer.h.${layer}.${name}`];
    const read = normalised(x, weight("ln_1.weight"), weight("ln_1.bias"), count, width);
    const project = (name) => linear(read, weight(`attn.${name}.weight`), null, count, width, width);
    const [query, key] = ["q_proj", "k_proj"].map((name) => turn(project(name), stretched, count, width));
    const { weights, out } = attend(query, key, project("v_proj"), count, width);
    attention.push(weights);
    const hidden = weight("mlp.fc_in.bias").length;
    const inner = gelu(linear(read, weight("mlp.fc_in.weight"), weight("mlp.fc_in.bias"), count, width, hidden));
    const network = linear(inner, weight("mlp.fc_out.weight"), weight("mlp.fc_out.bias"), count, hidden, width);
    const said = off[layer] ? null : linear(out, weight("attn.out_proj.weight"), null, count, width, width);
    for (let place = 0; place < x.length; place++) x[place] += network[place] + (said ? said[place] : 0);
  }
  const last = normalised(x.subarray((count - 1) * width), tensors["transformer.ln_f.weight"], tensors["transformer.ln_f.bias"], 1, width);
  const bias = tensors["lm_head.bias"];
  return { logits: linear(last, tensors["lm_head.weight"], bias, 1, width, bias.length), attention };
};
