// The matrix as a grid: one cell is in the order of Tab, arrows and Home, End move between cells, Enter opens one.
/** Let keys move between the cells of one table. */
export function startGrid(table) {
  const rows = [...table.tBodies[0].rows].map((row) => [...row.querySelectorAll("[data-cell]")]);
  table.setAttribute("role", "grid");
  let current = rows[0][0];

  function makeCurrent(cell) {
    current.tabIndex = -1;
    current = cell;
    current.tabIndex = 0;
  }

  rows.flat().forEach((cell) => {
    cell.tabIndex = -1;
  });
  makeCurrent(current);

  table.addEventListener("focusin", (event) => {
    const cell = event.target.closest("[data-cell]");
    if (cell !== null) {
      makeCurrent(cell);
    }
  });
  table.addEventListener("keydown", (event) => {
    if (event.altKey || event.metaKey || event.shiftKey || event.target.closest("[data-cell]") === null) {
      return;
    }
    const next = findNext(rows, current, event);
    if (next !== null) {
      event.preventDefault();
      next.focus();
      next.scrollIntoView({ block: "nearest", inline: "nearest" });
    }
  });
}

/** The cell that a key leads to; null for other keys. Ctrl with Home and End: of the whole matrix. */
function findNext(rows, current, { key, ctrlKey }) {
  const row = rows.findIndex((cells) => cells.includes(current));
  const column = rows[row].indexOf(current);
  const places = {
    ArrowLeft: [row, column - 1],
    ArrowRight: [row, column + 1],
    ArrowUp: [row - 1, column],
    ArrowDown: [row + 1, column],
    Home: [ctrlKey ? 0 : row, 0],
    End: [ctrlKey ? rows.length - 1 : row, rows[row].length - 1],
  };
  if (places[key] === undefined || (ctrlKey && key.startsWith("Arrow"))) {
    return null;
  }
  const [nextRow, nextColumn] = places[key];
  return rows[nextRow]?.[nextColumn] ?? current;
}

document.querySelectorAll("[data-matrix]").forEach(startGrid);
