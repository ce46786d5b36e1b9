// Table row of one upload batch.
import { formatValue } from "../site/format.js";
import { STATES } from "./batches.js";

const BUTTONS = {
  ready: "Remove",
  problem: "Remove",
  queued: "Cancel",
  sending: "Cancel",
  refused: "Retry",
  failed: "Retry",
  canceled: "Retry",
};

/** Create the table row: name, size, result with progress, button. */
export function makeParts(row, press) {
  const line = document.createElement("tr");
  const name = document.createElement("th");
  name.scope = "row";
  name.className = "phrase";
  name.append(nameOf(row));
  if (row.logs.length > 0) {
    const sub = document.createElement("span");
    sub.className = "sub";
    sub.textContent = row.logs.length === 1 ? "with 1 log" : `with ${row.logs.length} logs`;
    name.append(sub);
  }
  const size = document.createElement("td");
  size.className = "number minor";
  size.textContent = formatValue(sizeOf(row), "bytes");
  size.title = sizeOf(row);
  const bar = document.createElement("progress");
  bar.className = "sent";
  bar.max = 1;
  bar.setAttribute("aria-label", `Progress of ${nameOf(row)}`);
  const result = document.createElement("td");
  result.className = "phrase";
  const changes = document.createElement("td");
  changes.className = "nowrap";
  const button = document.createElement("button");
  button.type = "button";
  button.className = "small";
  button.addEventListener("click", press);
  changes.append(button);
  line.append(name, size, result, changes);
  return { line, bar, result, button };
}

function nameOf({ file }) {
  return file.folder ? `${file.folder}/${file.name}` : file.name;
}

function sizeOf({ file, logs }) {
  return [file, ...logs].reduce((sum, one) => sum + one.file.size, 0);
}

/** Show the result, and the progress while the file is sent. errors: URL of the page that explains codes. */
export function showResult({ parts, state, detail, code, links, share, preview }, errors) {
  const badge = document.createElement("span");
  badge.className = `state ${STATES[state].kind}`;
  badge.textContent = STATES[state].label;
  const nodes = [badge];
  if (detail) {
    nodes.push(` ${detail}`);
  }
  if (code) {
    nodes.push(" (", makeLink(`${errors}#${encodeURIComponent(code)}`, code), ")");
  }
  for (const { address, text } of links) {
    nodes.push(" ", makeLink(address, text));
  }
  if (preview) {
    nodes.push(...(preview.isKnown ? [" already uploaded"] : []), makePreview(preview));
  }
  parts.bar.hidden = state !== "sending";
  parts.bar.value = share;
  parts.result.replaceChildren(...nodes, parts.bar);
}

/** Show the progress, 0 to 1. */
export function showShare(row, share) {
  row.share = share;
  row.parts.bar.value = share;
}

function makePreview({ series, omitted }) {
  const list = document.createElement("ul");
  list.className = "previewed-series";
  const lines = series.length > 0 ? series.map(describeSeries) : [["no measurements"]];
  if (omitted > 0) {
    lines.push([`and ${omitted} more`]);
  }
  for (const parts of lines) {
    const item = document.createElement("li");
    item.append(...parts);
    list.append(item);
  }
  return list;
}

function describeSeries({ title, series, nearest, differences }) {
  if (series !== null) {
    return ["joins ", makeLink(`/series/${series}/`, `series ${series}`), `: ${title}`];
  }
  const head = document.createElement("strong");
  head.textContent = "new series";
  if (nearest === null) {
    return [head, `: ${title}`];
  }
  const sub = document.createElement("span");
  sub.className = "sub";
  sub.append("most similar: ", makeLink(`/series/${nearest}/`, `series ${nearest}`), `; ${differences}`);
  return [head, `: ${title}`, sub];
}

function makeLink(address, text) {
  const link = document.createElement("a");
  link.href = address;
  link.textContent = text;
  return link;
}

/** Show the available action, if any. */
export function showButton(row) {
  const label = row.isSendable ? BUTTONS[row.state] : "Remove";
  const { button } = row.parts;
  if (label === undefined && document.activeElement === button) {
    // Keep the focus on the page when the button disappears.
    button.closest(".table-box").focus();
  }
  button.hidden = label === undefined;
  button.textContent = label ?? "";
  button.setAttribute("aria-label", `${label ?? ""} ${nameOf(row)}`);
}
