"use strict";
for (const table of document.querySelectorAll("table.sortable")) {
  const body = table.tBodies[0];
  const headers = [...table.tHead.rows[0].cells];
  const value = (row, column) => {
    const cell = row.cells[column];
    const text = cell.dataset.value ?? cell.textContent;
    if (text === "") return null;
    return Number.isNaN(Number(text)) ? text : Number(text);
  };
  headers.forEach((header, column) => {
    header.querySelector("button").addEventListener("click", () => {
      // What a row is of begins with the least, scores with the greatest.
      const first = column < 2 ? "ascending" : "descending";
      const other = first === "ascending" ? "descending" : "ascending";
      const order = header.getAttribute("aria-sort") === first ? other : first;
      const sign = order === "ascending" ? 1 : -1;
      const rows = [...body.rows].sort((a, b) => {
        const [x, y] = [value(a, column), value(b, column)];
        if (x === null || y === null) return (x === null) - (y === null);
        const texts = typeof x === "string" || typeof y === "string";
        return sign * (texts ? String(x).localeCompare(String(y)) : x - y);
      });
      body.append(...rows);
      for (const cell of headers) cell.removeAttribute("aria-sort");
      header.setAttribute("aria-sort", order);
    });
  });
}
