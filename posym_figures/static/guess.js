// A figure that asks first: it stays out of sight until the reader has guessed, and says how near the guess came.
import { write } from "./core.js";

export const askFirst = (figure, { answer, start, limits, because }) => {
  const form = figure.querySelector(".posym-guess"), inputs = [...form.querySelectorAll("input")];
  const fields = form.querySelector("fieldset"), said = form.querySelector("[role=status]"), dragged = Boolean(start);
  const size = dragged && limits[1] - limits[0], decimals = size < 0.2 ? 3 : 2;
  const height = (share) => write(limits[0] + share * size, decimals);
  const away = (shares) => shares.reduce((sum, share, bar) => sum + Math.abs(share - answer[bar]), 0) / shares.length;
  const tell = (input, share) => (input.parentNode.querySelector("b").textContent = height(share));
  const show = (input) => {
    input.style.setProperty("--posym-done", `${input.value}%`);
    input.setAttribute("aria-valuetext", tell(input, input.value / 100));
  };
  if (dragged) inputs.forEach((input) => (show(input), input.addEventListener("input", () => show(input))));
  const labels = inputs.map((input) => input.closest("label")), right = dragged || labels[answer].textContent.trim();
  const judge = () => {
    if (dragged) {
      const [mine, untouched] = [inputs.map((input) => input.value / 100), start].map((shares) => write(away(shares) * size, decimals));
      return `Your bars are ${mine} from the right heights on average. Left as they were, they would be ${untouched} away.`;
    }
    return `${inputs[answer].checked ? "Yes" : "No"}: ${right}.`;
  };
  const open = (text) => {
    if (dragged)
      inputs.forEach((input, bar) => {
        input.parentNode.style.setProperty("--truth", answer[bar]);
        tell(input, answer[bar]);
      });
    else labels[answer].dataset.right = "";
    delete figure.dataset.asks;
    form.dataset.done = "";
    fields.disabled = true;
    said.textContent = `${text} ${because}`.trim();
    said.focus({ preventScroll: true });
  };
  form.addEventListener("submit", (event) => (event.preventDefault(), open(judge())));
  form.querySelector("[type=button]").addEventListener("click", () => open(dragged ? "Dotted lines mark the right heights." : `The answer: ${right}.`));
  // A copy that a reader saved asks again.
  fields.disabled = form.hidden = false;
  delete form.dataset.done;
  labels.forEach((label) => delete label.dataset.right);
  said.textContent = figure.dataset.asks = "";
};
