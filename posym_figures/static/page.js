// Starts the slider figures of a page: without a kernel, a figure has what stands in it and nothing else.
import { element, startAll } from "./core.js";
import figure from "./figure.js";

// Where pages share one style sheet, it comes with the script that they share, for copies that stand alone.
const sheet = document.currentScript && document.currentScript.dataset.style;

startAll("posym-data", (el, data) => {
  const alone = (copy) => {
    if (sheet) copy.prepend(element(null, "style", {}, sheet));
    copy.querySelectorAll("script:not([type])").forEach((one) => one.remove());
    element(copy, "script", {}, `(${posym})();`);
  };
  figure.render({ model: { get: (name) => ({ data })[name], alone }, el });
});
