// Sets formulas with MathJax outside a browser. Standard input: {"mathjax": folder, "fonts": address of the fonts,
// "options": MathJax's configuration, "formulas": [[source, display], ...]}. Standard output: {"set": [HTML, ...],
// "styles": the rules that these formulas need}.
const { readFileSync } = require("node:fs");

const { mathjax, fonts, options, formulas } = JSON.parse(readFileSync(0, "utf8"));
globalThis.MathJax = {
  ...options,
  loader: { ...options.loader, paths: { mathjax }, require, load: [...options.loader.load, "adaptors/liteDOM"] },
  chtml: { ...options.chtml, fontURL: fonts, matchFontHeight: false },
  startup: { typeset: false },
};
require(`${mathjax}/startup.js`);

(async () => {
  await globalThis.MathJax.startup.promise;
  const { adaptor } = globalThis.MathJax.startup;
  const set = [];
  for (const [source, display] of formulas) {
    set.push(adaptor.outerHTML(await globalThis.MathJax.tex2chtmlPromise(source, { display })));
  }
  const styles = adaptor.textContent(globalThis.MathJax.chtmlStylesheet());
  process.stdout.write(JSON.stringify({ set, styles }));
})().catch((error) => {
  console.error(error);
  process.exit(1);
});
