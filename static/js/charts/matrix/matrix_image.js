// The matrix as a drawing, for its PNG: the same cells as the tables of the page. Pure but for the context it draws on.
const HEAD_WIDTH = 176;
const CELL_WIDTH = 124;
const LABEL_HEIGHT = 26;
const HEAD_HEIGHT = 24;
const ROW_HEIGHT = 74;
const SMALL_LINE = 14;
const SPARK_HEIGHT = 20;
const GAP = 16;
const PAD = 8;
// An image of one or two columns still has room for its title.
const LEAST_WIDTH = 480;

/**
 * Place everything. panels: [{label, corner, columns: [text], rows: [{label, cells}]}], cells as `readMatrix` reads them.
 * Returns {width, height, panels: [{...panel, top, rows: [{...row, top}]}]}, in pixels.
 */
export function layMatrix(panels) {
  let top = 0;
  const placed = panels.map((panel) => {
    const bodyTop = top + (panel.label === "" ? 0 : LABEL_HEIGHT) + HEAD_HEIGHT;
    const rows = panel.rows.map((row, place) => ({ ...row, top: bodyTop + place * ROW_HEIGHT }));
    const laid = { ...panel, top, bodyTop, rows };
    top = bodyTop + rows.length * ROW_HEIGHT + GAP;
    return laid;
  });
  const columns = Math.max(...panels.map((panel) => panel.columns.length));
  return { width: Math.max(LEAST_WIDTH, HEAD_WIDTH + columns * CELL_WIDTH), height: top - GAP, panels: placed };
}

/** Draw what is placed on a context that is as large. look: {colors, family}. */
export function drawMatrix(ctx, laid, { colors, family }) {
  const pen = { ctx, colors, font: (size, weight = 400) => `${weight} ${size}px ${family}` };
  ctx.fillStyle = colors.paper;
  ctx.fillRect(0, 0, laid.width, laid.height);
  for (const panel of laid.panels) {
    drawHeads(pen, panel);
    for (const row of panel.rows) {
      drawRow(pen, row, HEAD_WIDTH + panel.columns.length * CELL_WIDTH);
    }
  }
}

function drawHeads(pen, { label, corner, columns, top, bodyTop }) {
  if (label !== "") {
    write(pen, label, { x: PAD, y: top + LABEL_HEIGHT - 8, size: 13, weight: 600 });
  }
  const y = bodyTop - 8;
  write(pen, corner, { x: PAD, y, color: "muted", width: HEAD_WIDTH - 2 * PAD });
  columns.forEach((column, place) => {
    write(pen, column, { x: HEAD_WIDTH + (place + 1) * CELL_WIDTH - PAD, y, color: "muted", isRight: true });
  });
}

function drawRow(pen, { label, cells, top }, width) {
  const { ctx, colors } = pen;
  ctx.strokeStyle = colors.line;
  ctx.lineWidth = 1;
  stroke(ctx, [[0, top + 0.5], [width, top + 0.5]]);
  write(pen, label, { x: PAD, y: top + 18, size: 12, width: HEAD_WIDTH - 2 * PAD });
  cells.forEach((cell, place) => drawCell(pen, cell, { left: HEAD_WIDTH + place * CELL_WIDTH, top }));
}

function drawCell(pen, cell, { left, top }) {
  const { ctx, colors } = pen;
  ctx.strokeStyle = colors.line;
  ctx.lineWidth = 1;
  stroke(ctx, [[left + 0.5, top], [left + 0.5, top + ROW_HEIGHT]]);
  const right = left + CELL_WIDTH - PAD;
  const width = CELL_WIDTH - 2 * PAD;
  if (cell.reason !== undefined) {
    hatch(pen, { left: left + 1, top: top + 1, width: CELL_WIDTH - 1, height: ROW_HEIGHT - 1 });
    write(pen, cell.reason, { x: right, y: top + ROW_HEIGHT / 2 + 4, isRight: true, hasHalo: true });
    return;
  }
  let y = top + 18;
  write(pen, cell.level, { x: right, y, size: 13, weight: 600, isRight: true, width });
  if (cell.shift !== null) {
    const color = { better: "improvement", worse: "regression" }[cell.shift.kind] ?? "muted";
    y += SMALL_LINE;
    write(pen, cell.shift.text, { x: right, y, weight: color === "muted" ? 400 : 600, color, isRight: true, width });
  }
  if (cell.points.length > 1) {
    ctx.strokeStyle = colors.accent;
    ctx.lineWidth = 1.25;
    const box = { left: right - 72, top: y + 2 };
    stroke(ctx, cell.points.map(([x, height]) => [box.left + x, box.top + height]));
    y += SPARK_HEIGHT;
  }
  write(pen, cell.notes.join(" · "), { x: right, y: y + SMALL_LINE, color: "muted", isRight: true, width });
}

function write({ ctx, colors, font }, text, { x, y, size = 11, weight = 400, color = "ink", isRight = false, hasHalo = false, width }) {
  ctx.font = font(size, weight);
  ctx.fillStyle = colors[color];
  ctx.textAlign = isRight ? "right" : "left";
  ctx.textBaseline = "alphabetic";
  if (hasHalo) {
    ctx.strokeStyle = colors.paper;
    ctx.lineWidth = 4;
    ctx.lineJoin = "round";
    ctx.strokeText(text, x, y);
  }
  // What is longer than its place is drawn narrower rather than over its neighbor.
  ctx.fillText(text, x, y, width);
}

function hatch({ ctx, colors }, { left, top, width, height }) {
  ctx.save();
  ctx.beginPath();
  ctx.rect(left, top, width, height);
  ctx.clip();
  ctx.strokeStyle = colors.line;
  for (let offset = -height; offset < width; offset += 7) {
    stroke(ctx, [[left + offset, top + height], [left + offset + height, top]]);
  }
  ctx.restore();
}

function stroke(ctx, points) {
  ctx.beginPath();
  points.forEach(([x, y], place) => (place === 0 ? ctx.moveTo(x, y) : ctx.lineTo(x, y)));
  ctx.stroke();
}
