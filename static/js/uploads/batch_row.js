// The line of one parcel in the table of what is handed over.
import { formatValue } from "../site/format.js";
import { STATES } from "./batches.js";

const BUTTONS = {
  ready: "Remove",
  queued: "Cancel",
  sending: "Cancel",
  refused: "Retry",
  failed: "Retry",
  cancelled: "Retry",
};

/** Make the line of a row: what it is, how far it is, what became of it, and its button. */
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
  const sent = document.createElement("td");
  sent.className = "sent";
  const bar = document.createElement("progress");
  bar.max = 1;
  bar.setAttribute("aria-label", `${nameOf(row)}, share sent`);
  sent.append(bar);
  const outcome = document.createElement("td");
  outcome.className = "phrase";
  const changes = document.createElement("td");
  changes.className = "nowrap";
  const button = document.createElement("button");
  button.type = "button";
  button.className = "small";
  button.addEventListener("click", press);
  changes.append(button);
  line.append(name, size, sent, outcome, changes);
  return { line, bar, outcome, button };
}

function nameOf({ file }) {
  return file.folder ? `${file.folder}/${file.name}` : file.name;
}

function sizeOf({ file, logs }) {
  return [file, ...logs].reduce((sum, one) => sum + one.file.size, 0);
}

/** Say what became of it. errors: the page that explains codes. */
export function showOutcome({ parts, state, detail, code, links, share }, errors) {
  const badge = document.createElement("span");
  badge.className = `state ${STATES[state].kind}`;
  badge.textContent = STATES[state].words;
  const said = [badge];
  if (detail) {
    said.push(` ${detail}`);
  }
  if (code) {
    said.push(" (", makeLink(`${errors}#${encodeURIComponent(code)}`, code), ")");
  }
  for (const { address, words } of links) {
    said.push(" ", makeLink(address, words));
  }
  parts.outcome.replaceChildren(...said);
  parts.bar.value = share;
}

/** Show how far it is, 0 to 1. */
export function showShare(row, share) {
  row.share = share;
  row.parts.bar.value = share;
}

function makeLink(address, words) {
  const link = document.createElement("a");
  link.href = address;
  link.textContent = words;
  return link;
}

/** Offer what can be done with it now; nothing for what goes on by itself. */
export function showButton(row) {
  const words = row.isSendable ? BUTTONS[row.state] : "Remove";
  const { button } = row.parts;
  if (words === undefined && document.activeElement === button) {
    // The focus must not fall off the page with the button.
    button.closest(".table-box").focus();
  }
  button.hidden = words === undefined;
  button.textContent = words ?? "";
  button.setAttribute("aria-label", `${words ?? ""} ${nameOf(row)}`);
}
