// Which color, shape and dash a line gets. The colors themselves are CSS variables (tokens.css).

const STYLES = [
  { color: "blue", shape: "circle", dash: [] },
  { color: "orange", shape: "triangle", dash: [6, 3] },
  { color: "green", shape: "rect", dash: [2, 2] },
  { color: "purple", shape: "rectRot", dash: [8, 3, 2, 3] },
  { color: "sky", shape: "circle", dash: [4, 2] },
  { color: "brown", shape: "triangle", dash: [] },
  { color: "gray", shape: "rect", dash: [10, 4] },
  { color: "pink", shape: "rectRot", dash: [3, 5] },
];

/** Names of the colors, as in the variables --series-NAME. */
export const COLOR_NAMES = STYLES.map((style) => style.color);

// Fixed meaning: sequential read blue, sequential write orange, random read green, random write purple.
const MEANING = new Map([
  ["sequential read", 0],
  ["sequential write", 1],
  ["random read", 2],
  ["random write", 3],
  ["unknown read", 4],
  ["unknown write", 5],
]);

/** Give each line {rw, direction} a style: its fixed one where that is still free, else the next free one. */
export function assignStyles(lines) {
  const taken = new Set();
  const wanted = lines.map((line) => {
    const index = MEANING.get(nameMeaning(line));
    if (index === undefined || taken.has(index)) {
      return undefined;
    }
    taken.add(index);
    return index;
  });
  return wanted.map((index, place) => STYLES[index ?? takeNext(taken, place)]);
}

// Gray is that of everything without a value.
const VALUE_SHAPES = ["circle", "triangle", "rect", "rectRot", "star", "cross", "crossRot"];

/** Return the style of the marks of a value among several, by its place; null: of a value that is unknown or not listed. */
export function styleOfValue(place) {
  const shown = COLOR_NAMES.filter((name) => name !== "gray");
  return place === null ? { color: "gray", shape: "rectRounded" } : { color: shown[place % shown.length], shape: VALUE_SHAPES[place % VALUE_SHAPES.length] };
}

/** Return the style of a single line. */
export function styleOf(line) {
  return STYLES[MEANING.get(nameMeaning(line)) ?? 0];
}

/** Return the classes of the mark of a style in a legend. */
export function nameKey({ shape, color }) {
  return `key ${shape} ${color}`;
}

/** Return a resolved color, "rgb(r, g, b)", with less than full cover. */
export function withAlpha(color, alpha) {
  return color.replace(/^rgb\(([^)]+)\)$/, `rgba($1, ${alpha})`);
}

function nameMeaning({ rw, direction }) {
  const order = rw.startsWith("rand") ? "random" : rw.startsWith("unknown-") ? "unknown" : "sequential";
  return `${order} ${direction}`;
}

function takeNext(taken, place) {
  const free = STYLES.findIndex((_, index) => !taken.has(index));
  const index = free === -1 ? place % STYLES.length : free;
  taken.add(index);
  return index;
}
