// Table row of one upload batch.
import { makeElement } from "../site/elements.js";
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
  const name = makeElement("th", { scope: "row", class: "phrase" }, nameOf(row));
  if (row.logs.length > 0) {
    name.append(makeElement("span", { class: "sub" }, row.logs.length === 1 ? "with 1 log" : `with ${row.logs.length} logs`));
  }
  const size = makeElement("td", { class: "number minor", title: sizeOf(row) || "" }, formatValue(sizeOf(row), "bytes"));
  const bar = makeElement("progress", { class: "sent", max: 1, "aria-label": `Progress of ${nameOf(row)}` });
  const result = makeElement("td", { class: "phrase" });
  const button = makeElement("button", { type: "button", class: "small" });
  button.addEventListener("click", press);
  const line = makeElement("tr", {}, name, size, result, makeElement("td", { class: "nowrap" }, button));
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
  const nodes = [makeElement("span", { class: `state ${STATES[state].kind}` }, STATES[state].label)];
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
    nodes.push(...makePreview(preview));
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

function makePreview({ series, omitted, isKnown, members }) {
  const lines = members ? members.map(describeMember) : series.map(describeSeries);
  if (lines.length === 0) {
    lines.push(["no measurements"]);
  }
  if (omitted > 0) {
    lines.push([`and ${omitted} more`]);
  }
  const items = lines.map((parts) => makeElement("li", {}, ...parts));
  return [...(isKnown ? [" already uploaded"] : []), makeElement("ul", { class: "previewed-series" }, ...items)];
}

function describeMember({ name, state, detail, preview }) {
  const parts = [state === "problem" ? "problem" : "", detail].filter(Boolean);
  return [[name, ...parts].join(": "), ...(preview ? makePreview(preview) : [])];
}

function describeSeries({ title, series, nearest, differences, mixing }) {
  const parts =
    series !== null
      ? ["joins ", makeLink(`/series/${series}/`, `series ${series}`), `: ${title}`]
      : [makeElement("strong", {}, "new series"), `: ${title}`];
  if (nearest !== null) {
    const link = makeLink(`/series/${nearest}/`, `series ${nearest}`);
    parts.push(makeElement("span", { class: "sub" }, "most similar: ", link, `; ${differences}`));
  }
  if (mixing) {
    parts.push(makeElement("span", { class: "sub" }, mixing));
  }
  return parts;
}

function makeLink(address, text) {
  return makeElement("a", { href: address }, text);
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
