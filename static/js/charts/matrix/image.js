// The tables of a matrix on one canvas: with the text of the cells on the page.
import { drawMatrix, layMatrix } from "./matrix_image.js";
import { readColors, readFontFamily } from "../shared/colors.js";

/** Draw the tables of a figure at `ratio` pixels for one; returns a canvas. */
export function drawTables(figure, ratio) {
  const laid = layMatrix(readMatrix(figure));
  const canvas = document.createElement("canvas");
  canvas.width = laid.width * ratio;
  canvas.height = laid.height * ratio;
  const context = canvas.getContext("2d");
  context.scale(ratio, ratio);
  drawMatrix(context, laid, { colors: readColors(), family: readFontFamily() });
  return canvas;
}

/** Read the tables: [{label, corner, columns, rows: [{label, cells: [{reason} or {level, shift, points, notes}]}]}]. */
export function readMatrix(figure) {
  return [...figure.querySelectorAll("table.matrix")].map((table) => {
    const [corner, ...columns] = [...table.tHead.rows[0].cells].map(readText);
    const rows = [...table.tBodies[0].rows].map((row) => {
      const [head, ...cells] = row.cells;
      return { label: readText(head), cells: cells.map(readCell) };
    });
    return { label: table.caption ? readText(table.caption) : "", corner, columns, rows };
  });
}

function readCell(cell) {
  const level = cell.querySelector(".level");
  if (level === null) {
    return { reason: readText(cell) };
  }
  const shift = cell.querySelector(".series-mark");
  const line = cell.querySelector("polyline");
  return {
    level: readText(level),
    shift: shift === null ? null : { text: readText(shift), kind: shift.classList[1] },
    points: line === null ? [] : line.getAttribute("points").split(" ").map((point) => point.split(",").map(Number)),
    notes: [...cell.querySelectorAll(".age")].map(readText),
  };
}

// Without the text for screen readers.
function readText(element) {
  const copy = element.cloneNode(true);
  copy.querySelectorAll(".visually-hidden").forEach((hidden) => hidden.remove());
  return copy.textContent.replaceAll(/[\t\n\r ]+/g, " ").trim();
}
