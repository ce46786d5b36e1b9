// The keys of the inbox and of one incident; all of them press what can be pressed without script.

const rows = [...document.querySelectorAll("[data-incident]")];
const links = rows.map((row) => row.querySelector("[data-open]")).filter(Boolean);
// No element has such an id: going to one of its own would take the focus away again.
const HERE = "#at-";
const help = document.querySelector("[data-keys]");

// The row that the keyboard is in; the only one of a page that shows one.
function findRow() {
  const own = document.activeElement?.closest?.("[data-incident]") ?? null;
  return own ?? (links.length === 0 ? (rows[0] ?? null) : null);
}

function move(key) {
  const from = links.indexOf(findRow()?.querySelector("[data-open]"));
  const wanted = from === -1 ? 0 : from + (key === "j" ? 1 : -1);
  const link = links[Math.min(links.length - 1, Math.max(0, wanted))];
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

// 1 to 5 where verdicts are offered.
function chooseVerdict(digit) {
  const button = findRow()?.querySelectorAll("details.verdicts[open] form button")[digit - 1];
  button?.form.requestSubmit(button);
  return button !== undefined;
}

function hear(key) {
  if (key === "?") {
    help.showModal();
    return true;
  }
  if ((key === "j" || key === "k") && links.length > 0) {
    move(key);
    return true;
  }
  if (key === "o") {
    const link = findRow()?.querySelector("[data-open]");
    link?.click();
    return Boolean(link);
  }
  if (/^[1-5]$/.test(key)) {
    return chooseVerdict(Number(key));
  }
  return "aenu".includes(key) && press(key);
}

// Back on the page the keyboard is at the row after the one that was dealt with.
function goOn(event) {
  const row = event.target.closest("tr[data-incident]");
  const field = event.target.querySelector("[name=next]");
  if (row === null || field === null) {
    return;
  }
  const place = rows.indexOf(row);
  const following = rows[place + 1] ?? rows[place - 1] ?? row;
  field.value = `${field.value.split("#")[0]}${HERE}${following.id}`;
}

function start() {
  document.addEventListener("keydown", (event) => {
    const isTyping = event.target.closest?.("input, select, textarea, [contenteditable], [role=application], dialog");
    if (isTyping || event.ctrlKey || event.metaKey || event.altKey || help === null || help.open) {
      return;
    }
    if (event.key === "Escape") {
      for (const menu of document.querySelectorAll("details.verdicts[open]")) {
        menu.open = false;
        menu.querySelector("summary").focus();
      }
    } else if (event.key.length === 1 && hear(event.key)) {
      event.preventDefault();
    }
  });
  document.addEventListener("submit", goOn);
  for (const button of document.querySelectorAll("[data-keys-help]")) {
    button.hidden = false;
    button.addEventListener("click", () => help.showModal());
  }
  if (location.hash.startsWith(HERE)) {
    const link = document.getElementById(location.hash.slice(HERE.length))?.querySelector("[data-open]");
    link?.focus();
    link?.closest("tr").scrollIntoView({ block: "nearest" });
  }
}

start();
