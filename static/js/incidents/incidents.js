// Keyboard shortcuts of the inbox and of one incident; each presses a button or follows a link of the page. With selected
// incidents the shortcuts are those of the bar for all of them.
import { watchBoxes } from "../site/selection.js";

const rows = [...document.querySelectorAll("[data-incident]")];
const links = rows.map((row) => row.querySelector("[data-open]")).filter(Boolean);
// No element has such an id, so that the browser does not move the focus.
const FOCUS_PREFIX = "#at-";
const help = document.querySelector("[data-keys]");
const bulk = document.querySelector("[data-bulk]");
const boxes = bulk === null ? [] : [...bulk.elements].filter((field) => field.name === "incident");

// Returns the row with the focus, or the only one of an incident's page.
function findRow() {
  const focused = document.activeElement?.closest?.("[data-incident]") ?? null;
  return focused ?? (links.length === 0 ? (rows[0] ?? null) : null);
}

function focusNeighbor(key) {
  const current = links.indexOf(findRow()?.querySelector("[data-open]"));
  const next = current === -1 ? 0 : current + (key === "j" ? 1 : -1);
  const link = links[Math.min(links.length - 1, Math.max(0, next))];
  link.focus();
  link.closest("tr").scrollIntoView({ block: "nearest" });
}

function press(key) {
  const scope = key === "u" ? document : findRow();
  const target = scope?.querySelector(`[data-key="${key}"]`) ?? null;
  if (target === null) {
    return false;
  }
  if (target.tagName === "DETAILS") {
    target.open = true;
    target.querySelector("form button").focus();
  } else {
    target.form.requestSubmit(target);
  }
  return true;
}

// Selects the row, or takes it out of the selection.
function toggleRow() {
  const box = findRow()?.querySelector("[name=incident]") ?? null;
  box?.click();
  return box !== null;
}

// Presses the button, or moves to the field, for all selected incidents.
function pressForSelected(key) {
  const target = bulk?.querySelector(`[data-bulk-key="${key}"]`) ?? null;
  if (target === null || !boxes.some((box) => box.checked)) {
    return false;
  }
  if (target.tagName === "SELECT") {
    target.focus();
  } else {
    bulk.requestSubmit(target);
  }
  return true;
}

function showSelected() {
  const count = boxes.filter((box) => box.checked).length;
  const most = Number(bulk.dataset.most);
  bulk.classList.toggle("has-selected", count > 0);
  bulk.querySelector("[data-selected]").textContent = `${count} selected${count > most ? `: at most ${most} at once` : ""}`;
  bulk.querySelector("[data-clear]").hidden = count === 0;
  for (const button of bulk.querySelectorAll("button[name=action]")) {
    button.disabled = count === 0 || count > most;
  }
}

// 1 to 5 while the verdicts are open.
function chooseVerdict(digit) {
  const button = findRow()?.querySelectorAll("details.verdicts[open] form button")[digit - 1];
  button?.form.requestSubmit(button);
  return button !== undefined;
}

function handleKey(key) {
  if (key === "?") {
    help.showModal();
    return true;
  }
  if ((key === "j" || key === "k") && links.length > 0) {
    focusNeighbor(key);
    return true;
  }
  if (key === "o") {
    const link = findRow()?.querySelector("[data-open]");
    link?.click();
    return Boolean(link);
  }
  if (key === "x") {
    return toggleRow();
  }
  if (pressForSelected(key)) {
    return true;
  }
  if (/^[1-5]$/.test(key)) {
    return chooseVerdict(Number(key));
  }
  return "aenu".includes(key) && press(key);
}

// After the redirect the focus is on the row after the submitted one.
function setNextRow(event) {
  const row = event.target.closest("tr[data-incident]");
  const field = event.target.querySelector("[name=next]");
  if (row === null || field === null) {
    return;
  }
  const index = rows.indexOf(row);
  const following = rows[index + 1] ?? rows[index - 1] ?? row;
  field.value = `${field.value.split("#")[0]}${FOCUS_PREFIX}${following.id}`;
}

function start() {
  document.addEventListener("keydown", (event) => {
    const isTyping = event.target.closest?.("input:not([type=checkbox]), select, textarea, [contenteditable], [role=application], dialog");
    if (isTyping || event.ctrlKey || event.metaKey || event.altKey || help === null || help.open) {
      return;
    }
    if (event.key === "Escape") {
      bulk?.querySelector("[data-clear]:not([hidden])")?.click();
      for (const menu of document.querySelectorAll("details.verdicts[open]")) {
        menu.open = false;
        menu.querySelector("summary").focus();
      }
    } else if (event.key.length === 1 && handleKey(event.key)) {
      event.preventDefault();
    }
  });
  document.addEventListener("submit", setNextRow);
  if (bulk !== null) {
    watchBoxes(bulk, boxes, showSelected);
  }
  for (const button of document.querySelectorAll("[data-keys-help]")) {
    button.hidden = false;
    button.addEventListener("click", () => help.showModal());
  }
  if (location.hash.startsWith(FOCUS_PREFIX)) {
    const link = document.getElementById(location.hash.slice(FOCUS_PREFIX.length))?.querySelector("[data-open]");
    link?.focus();
    link?.closest("tr").scrollIntoView({ block: "nearest" });
  }
}

start();
