"use strict";
// Sorting and filtering for every <table data-sortable>. A cell's data-value is its raw value; without one, its text.
for (const table of document.querySelectorAll("table[data-sortable]")) {
  const body = table.tBodies[0];
  const raw = (row, column) => row.cells[column].dataset.value ?? row.cells[column].textContent;
  const number = (text) => Number(text.replace("inf", "Infinity")); // Python writes inf
  const order = (a, b) => {
    const [x, y] = [number(a), number(b)];
    if (Number.isNaN(x) || Number.isNaN(y)) return a.localeCompare(b, undefined, { numeric: true });
    return x === y ? 0 : x - y; // ∞ − ∞ is not a number
  };
  const missing = (value) => value === "" || value === "nan";
  [...table.tHead.rows[0].cells].forEach((head, column) => {
    const button = document.createElement("button");
    button.type = "button";
    button.textContent = head.textContent;
    head.replaceChildren(button);
    button.addEventListener("click", () => {
      const down = head.ariaSort !== "descending" && (head.ariaSort === "ascending" || head.classList.contains("right"));
      for (const other of table.tHead.rows[0].cells) other.ariaSort = null;
      head.ariaSort = down ? "descending" : "ascending";
      const rows = [...body.rows].sort((a, b) => {
        const [x, y] = [raw(a, column), raw(b, column)];
        if (missing(x) || missing(y)) return missing(x) - missing(y); // last in either direction
        return down ? order(y, x) : order(x, y);
      });
      body.append(...rows);
    });
  });
}
for (const input of document.querySelectorAll("input.filter")) {
  input.addEventListener("input", () => {
    const words = input.value.toLowerCase().split(/\s+/);
    for (const row of document.getElementById(input.getAttribute("aria-controls")).tBodies[0].rows) {
      const text = row.textContent.toLowerCase();
      row.hidden = !words.every((word) => text.includes(word));
    }
  });
}
