// Completion in the filter language: the term at the caret, and the text after a completion. Pure.

const NAMED = /^(-?)(label\.[^\s:",]+|[A-Za-z_][A-Za-z0-9_]*):/i;

/**
 * Find the piece of a filter that the caret is in: a name being typed, or a value behind a name.
 * Returns {kind: "name" | "value", name, typed, start, end, tokenStart, tokenEnd}; start and end bound what a
 * completion replaces, tokenStart and tokenEnd the whole term.
 */
export function findPiece(text, caret) {
  const tokenStart = findStart(text, caret);
  const tokenEnd = findEnd(text, caret);
  const token = text.slice(tokenStart, tokenEnd);
  const named = NAMED.exec(token);
  if (named === null || caret < tokenStart + named[0].length) {
    const start = tokenStart + (token.startsWith("-") ? 1 : 0);
    const end = named === null ? tokenEnd : tokenStart + named[0].length;
    return { kind: "name", name: "", typed: text.slice(start, caret), start, end, tokenStart, tokenEnd };
  }
  const first = tokenStart + named[0].length;
  const start = Math.max(first, findComma(text, first, caret) + 1);
  const end = nextComma(text, caret, tokenEnd);
  const typed = text.slice(start, caret).replace(/^"/, "").replaceAll('""', '"');
  return { kind: "value", name: foldName(named[2]), typed, start, end, tokenStart, tokenEnd };
}

// Names of labels may have capitals.
function foldName(name) {
  return /^label\./i.test(name) ? `label.${name.slice("label.".length)}` : name.toLowerCase();
}

/** Return {text, caret} with the piece replaced; a value ends its term with a space. */
export function complete(text, piece, written) {
  const ending = piece.kind === "name" ? ":" : piece.end === piece.tokenEnd ? " " : "";
  const behind = text.slice(piece.end);
  const gap = ending === " " && behind.startsWith(" ") ? "" : ending;
  const before = text.slice(0, piece.start) + written;
  return { text: before + gap + behind, caret: before.length + ending.length };
}

/** Return the filter without the term at the caret, to count its alternatives. */
export function withoutPiece(text, piece) {
  return `${text.slice(0, piece.tokenStart)} ${text.slice(piece.tokenEnd)}`.trim();
}

/** Return the names that fit what is typed: those that begin with it first, then those that have it within. */
export function fitNames(dimensions, typed) {
  const wanted = typed.toLowerCase();
  const rank = ({ name, aliases, label }) => {
    const all = [name, ...aliases, label.toLowerCase()];
    return all.some((one) => one.startsWith(wanted)) ? 0 : all.some((one) => one.includes(wanted)) ? 1 : 2;
  };
  return dimensions
    .map((dimension) => ({ dimension, rank: rank(dimension) }))
    .filter((one) => one.rank < 2)
    .sort((one, other) => one.rank - other.rank)
    .map((one) => one.dimension);
}

// A space between quotation marks belongs to the value: count the marks from the beginning.
function findStart(text, caret) {
  let start = 0;
  let isQuoted = false;
  for (let place = 0; place < caret; place += 1) {
    if (text[place] === '"') {
      isQuoted = !isQuoted;
    } else if (!isQuoted && /\s/.test(text[place])) {
      start = place + 1;
    }
  }
  return start;
}

function findEnd(text, caret) {
  return scan(text, caret, (sign) => /\s/.test(sign)) ?? text.length;
}

function findComma(text, from, caret) {
  let found = -1;
  let isQuoted = false;
  for (let place = from; place < caret; place += 1) {
    isQuoted = text[place] === '"' ? !isQuoted : isQuoted;
    found = text[place] === "," && !isQuoted ? place : found;
  }
  return found;
}

function nextComma(text, caret, end) {
  const found = scan(text, caret, (sign) => sign === ",");
  return found === null ? end : Math.min(found, end);
}

// Find the first such sign from the caret on that is not between quotation marks.
function scan(text, caret, isWanted) {
  let isQuoted = (text.slice(0, caret).split('"').length - 1) % 2 === 1;
  for (let place = caret; place < text.length; place += 1) {
    if (text[place] === '"') {
      isQuoted = !isQuoted;
    } else if (!isQuoted && isWanted(text[place])) {
      return place;
    }
  }
  return null;
}
