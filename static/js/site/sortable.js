// Sortable tables: [data-sortable]; a cell's data-value takes precedence over its text.
const collator = new Intl.Collator(undefined, { numeric: true });

/** Compare two cells, {value (number or null), text}: numbers by size, text by collation, unknown last. */
export function compareCells(one, other, isDescending) {
  if (one.value === null || other.value === null) {
    const isOne = one.value === null;
    const isBoth = isOne && other.value === null;
    return isBoth ? (isDescending ? -1 : 1) * collator.compare(one.text, other.text) : isOne ? 1 : -1;
  }
  return (isDescending ? -1 : 1) * (one.value - other.value);
}

/** Make the column headers of a table sort its rows. */
export function startSorting(table) {
  const heads = findHeads(table);
  heads.forEach((head, column) => {
    const button = document.createElement("button");
    button.type = "button";
    button.className = "sort";
    button.append(...head.childNodes);
    head.append(button);
    button.addEventListener("click", () => {
      const isDescending = head.getAttribute("aria-sort") === "ascending";
      heads.forEach((each) => each.removeAttribute("aria-sort"));
      head.setAttribute("aria-sort", isDescending ? "descending" : "ascending");
      sortRows(table.tBodies[0], column, isDescending);
    });
  });
}

// The headers of single columns, in the order of the cells: those that span both rows come first. Headers of groups do not
// sort.
function findHeads(table) {
  const [first, ...others] = table.tHead.rows;
  return [...[...first.cells].filter((cell) => cell.scope !== "colgroup"), ...others.flatMap((row) => [...row.cells])];
}

function sortRows(body, column, isDescending) {
  const rows = [...body.rows].map((row) => ({ row, cell: readCell(row.cells[column]) }));
  rows.sort((one, other) => compareCells(one.cell, other.cell, isDescending));
  body.append(...rows.map(({ row }) => row));
}

function readCell(cell) {
  const raw = cell.dataset.value ?? "";
  return { value: raw === "" ? null : Number(raw), text: cell.textContent.trim() };
}
