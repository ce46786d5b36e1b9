// A chart as a PNG file, with what a reader elsewhere needs: title, legend, filter, spread, date, address.
import { drawEntry, layLegend } from "./image_legend.js";

const MARGIN = 16;
const LINE = 16;
const KEY_LINE = 18;

/** Save a chart's canvas, drawn at `ratio` pixels for one. texts: {title, filter, note, date, address}; legend: of readLegend. */
export async function saveImage(canvas, { ratio, texts, legend, colors, family, fileName }) {
  const image = composeImage(canvas, { ratio, texts, legend, colors, family });
  const blob = await new Promise((resolve) => {
    image.toBlob(resolve, "image/png");
  });
  const link = document.createElement("a");
  link.href = URL.createObjectURL(blob);
  link.download = fileName;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
}

function composeImage(canvas, { ratio, texts, legend, colors, family }) {
  const image = document.createElement("canvas");
  const context = image.getContext("2d");
  const chart = { width: canvas.width / ratio, height: canvas.height / ratio };
  const width = chart.width + 2 * MARGIN;
  const font = (size, weight = 400) => `${weight} ${size}px ${family}`;
  context.font = font(15, 600);
  const title = breakLines(context, texts.title, width - 2 * MARGIN);
  context.font = font(11);
  const foot = [texts.filter, texts.note, `${texts.date} · ${texts.address}`]
    .filter(Boolean)
    .flatMap((line) => breakLines(context, line, width - 2 * MARGIN));
  const keys = layLegend(context, legend, width - 2 * MARGIN);
  const top = MARGIN + title.length * 20 + 4;
  const below = top + chart.height + 8;
  const footTop = below + (keys.length > 0 ? keys.length * KEY_LINE + 4 : 0);
  const height = footTop + foot.length * LINE + MARGIN;
  image.width = width * ratio;
  image.height = height * ratio;
  context.scale(ratio, ratio);
  context.fillStyle = colors.paper;
  context.fillRect(0, 0, width, height);
  context.textBaseline = "top";
  context.fillStyle = colors.ink;
  context.font = font(15, 600);
  title.forEach((line, place) => context.fillText(line, MARGIN, MARGIN + place * 20));
  context.drawImage(canvas, MARGIN, top, chart.width, chart.height);
  context.font = font(11);
  keys.forEach((row, place) =>
    row.forEach(({ item, left }) =>
      drawEntry(context, { item, left: MARGIN + left, middle: below + place * KEY_LINE + 6, colors }),
    ),
  );
  context.fillStyle = colors.muted;
  foot.forEach((line, place) => context.fillText(line, MARGIN, footTop + place * LINE));
  return image;
}

function breakLines(context, text, width) {
  const lines = [];
  let line = "";
  for (const word of text.split(" ").flatMap((each) => breakWord(context, each, width))) {
    const longer = line ? `${line} ${word}` : word;
    if (line && context.measureText(longer).width > width) {
      lines.push(line);
      line = word;
    } else {
      line = longer;
    }
  }
  return [...lines, line];
}

// An address has no spaces; what is wider than the image would be cut off.
function breakWord(context, word, width) {
  const parts = [];
  let part = "";
  for (const sign of word) {
    if (part && context.measureText(part + sign).width > width) {
      parts.push(part);
      part = "";
    }
    part += sign;
  }
  return [...parts, part];
}
