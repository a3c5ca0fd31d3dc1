// Holds models and asks them beside the page: message in { kind: "weights" | "ask", ... }.
import { forward, unpackParcel } from "./gptj.js";

const models = {};

onmessage = ({ data }) => {
  if (data.kind === "weights") {
    const { name, place, text, layout, layers, width, angles } = data;
    models[name] = models[name] || { layers, width, angles, tensors: {} };
    Object.assign(models[name].tensors, unpackParcel(text, layout));
    postMessage({ kind: "unpacked", name, place });
  } else {
    const began = performance.now();
    const { logits, attention } = forward(models[data.name], data.tokens, data);
    postMessage({ kind: "answer", asked: data, logits, attention, milliseconds: performance.now() - began });
  }
};
