// Trains a toy beside the page, in slices, and reports: message in {kind: "train" | "pause" | "go" | "stop", ...}.
import { adamStep, arrows, chance, countHits, drawBatch, emptyBatch, lossAndGradients, makeModel, makeTask, meanAttention } from "./toy.js";

const SLICE = 40, REPORT = 250; // milliseconds of work between two looks at the messages, and between two reports
let run = null;

const begin = ({ task: name, angles, sizes, seed, width, training, looks }) => {
  const task = makeTask(name, sizes);
  // Streams of weights, training data and tests lie far apart, so that no two runs share one.
  const stream = (purpose) => chance(seed + purpose * 2 ** 40);
  const middle = task.first + Math.floor((task.length - task.first) / 2);
  return {
    task, training, looks, model: makeModel(task, angles, { width, seed }), batch: emptyBatch(task, training.batch),
    data: stream(1), tests: stream(2), probes: stream(3), targets: [task.first, middle, task.length - 1],
    losses: [], since: 0, total: 0, seconds: 0, reported: -Infinity, ended: false, paused: false,
  };
};

const report = (kind, tested) => {
  const { model, targets, looks } = run;
  const attention = targets.map((target) => meanAttention(model, run.probes, target, looks.probes));
  const { hits, asked } = countHits(model, run.tests, tested);
  const sum = (counts) => counts.reduce((total, count) => total + count, 0);
  postMessage({
    kind, step: model.steps, losses: run.losses, attention, targets, hits, asked, accuracy: sum(hits) / sum(asked),
    seconds: run.seconds, ...arrows(model),
  });
  run.losses = [];
  run.reported = performance.now();
};

const { port1: bell, port2: ringer } = new MessageChannel();
bell.onmessage = () => {
  if (!run || run.paused || run.ended) return;
  const { model, batch, task, training } = run, began = performance.now();
  while (model.steps < training.steps && performance.now() - began < SLICE) {
    run.total += lossAndGradients(model, drawBatch(task, run.data, batch));
    run.since++;
    adamStep(model, training);
    if (run.since === run.looks.losses || model.steps === training.steps) {
      run.losses.push([model.steps, run.total / run.since]);
      run.total = run.since = 0;
    }
  }
  run.ended = model.steps >= training.steps;
  if (run.ended) report("end", run.looks.final);
  else if (performance.now() - run.reported > REPORT) report("progress", run.looks.inputs);
  run.seconds += (performance.now() - began) / 1000;
  if (run.ended) postMessage({ kind: "time", seconds: run.seconds });
  else ringer.postMessage(0);
};

onmessage = ({ data }) => {
  if (data.kind === "train") run = begin(data);
  else if (!run || run.ended) return;
  else if (data.kind === "pause") run.paused = true;
  else if (data.kind === "go") run.paused = false;
  else if (data.kind === "stop") {
    run.ended = true;
    report("end", run.looks.final);
    return;
  }
  if (!run.paused) ringer.postMessage(0);
};
