"use strict";
for (const table of document.querySelectorAll("table.sortable")) {
  const body = table.tBodies[0];
  const headers = [...table.tHead.rows[0].cells];
  const value = (row, column) => {
    const cell = row.cells[column];
    const text = cell.dataset.value ?? cell.textContent;
    return text === "" ? null : Number(text);
  };
  headers.forEach((header, column) => {
    header.querySelector("button").addEventListener("click", () => {
      // Layers and heads begin with the least, scores with the greatest.
      const first = column < 2 ? "ascending" : "descending";
      const other = first === "ascending" ? "descending" : "ascending";
      const order = header.getAttribute("aria-sort") === first ? other : first;
      const sign = order === "ascending" ? 1 : -1;
      const rows = [...body.rows].sort((a, b) => {
        const [x, y] = [value(a, column), value(b, column)];
        if (x === null || y === null) return (x === null) - (y === null);
        return sign * (x - y);
      });
      body.append(...rows);
      for (const cell of headers) cell.removeAttribute("aria-sort");
      header.setAttribute("aria-sort", order);
    });
  });
}
