// The filter bar: completion of names and values (a combobox with a listbox), values with counts, shortcut "f".
import { getJson } from "./api.js";
import { complete, findPiece, fitNames, withoutPiece } from "./completion.js";
import { makeElement, setAttributes } from "./elements.js";

const API = "/api/v1/dimensions";
const WORDS = "/search/words";
// Parameters of earlier links, which are in the text of the filter.
const LEGACY = ["host", "pool", "rw", "direction", "text"];
const WORD_MINIMUM = 2;
const WAIT_MS = 120;
const LIMIT = 12;
let known = null;

// Loaded once, by the first bar that needs them.
function loadDimensions() {
  known ??= getJson(API).then((answer) => answer.dimensions);
  known.catch(() => {
    known = null;
  });
  return known;
}

function addressOf(name, parameters) {
  const query = new URLSearchParams(Object.entries(parameters).filter(([, value]) => value !== ""));
  return `${API}/${encodeURIComponent(name)}/values?${query}`;
}

// The rest of the filter may be incomplete: then all values are counted.
async function loadValues(name, { q, prefix, signal }) {
  const limit = String(LIMIT);
  try {
    return await getJson(addressOf(name, { q, prefix, limit }), { signal });
  } catch (error) {
    if (error.name === "AbortError" || q === "") {
      throw error;
    }
    return getJson(addressOf(name, { prefix, limit }), { signal });
  }
}

// Phrases and values that begin as the word at the caret; a term replaces it.
async function loadWords(typed, signal) {
  if (typed.length < WORD_MINIMUM) {
    return [];
  }
  const answer = await getJson(`${WORDS}?${new URLSearchParams({ text: typed })}`, { signal });
  return answer.completions.map((word) => ({ ...word, isTerm: true }));
}

function startCompletion(input) {
  const list = makeList(input);
  let piece = null;
  let active = -1;
  let options = [];
  let timer = null;
  let asked = null;

  function show(entries) {
    // Responses may arrive after an entry was selected: it stays selected if it is still listed.
    const chosen = active < 0 ? undefined : options[active].written;
    options = entries;
    list.replaceChildren(...entries.map(makeOption));
    list.hidden = entries.length === 0;
    input.setAttribute("aria-expanded", String(!list.hidden));
    select(entries.findIndex(({ written }) => written === chosen));
  }

  function select(index) {
    active = index;
    [...list.children].forEach((option, place) => option.setAttribute("aria-selected", String(place === index)));
    const option = list.children[index];
    if (option) {
      input.setAttribute("aria-activedescendant", option.id);
      option.scrollIntoView({ block: "nearest" });
    } else {
      input.removeAttribute("aria-activedescendant");
    }
  }

  function hide() {
    clearTimeout(timer);
    asked?.abort();
    show([]);
  }

  function take(index) {
    const { written, isTerm } = options[index];
    const done = complete(input.value, isTerm ? { ...piece, kind: "value" } : piece, written);
    input.value = done.text;
    input.setSelectionRange(done.caret, done.caret);
    hide();
    if (piece.kind === "name" && !isTerm) {
      offer();
    }
  }

  async function offer() {
    clearTimeout(timer);
    asked?.abort();
    asked = new AbortController();
    const { signal } = asked;
    piece = findPiece(input.value, input.selectionStart);
    const current = piece;
    try {
      const entries = await listEntries(input.value, current, signal);
      if (!signal.aborted && document.activeElement === input) {
        show(entries);
      }
    } catch {
      // Without completion the bar still works as a text field.
      if (!signal.aborted) {
        show([]);
      }
    }
  }

  function wait() {
    clearTimeout(timer);
    timer = setTimeout(offer, WAIT_MS);
  }

  const keys = {
    ArrowDown: () => (list.hidden ? offer() : select((active + 1) % options.length)),
    ArrowUp: () => (list.hidden ? offer() : select((active <= 0 ? options.length : active) - 1)),
    Home: () => (active >= 0 ? select(0) : false),
    End: () => (active >= 0 ? select(options.length - 1) : false),
    Enter: () => (active >= 0 ? take(active) : false),
    Tab: () => (active >= 0 ? take(active) : false),
    Escape: () => (list.hidden ? false : hide()),
  };
  input.addEventListener("keydown", (event) => {
    const isPlain = !event.ctrlKey && !event.metaKey && !event.altKey && !event.shiftKey && !event.isComposing;
    if (isPlain && keys[event.key] !== undefined && keys[event.key]() !== false) {
      event.preventDefault();
    }
  });
  input.addEventListener("input", wait);
  input.addEventListener("click", wait);
  input.addEventListener("blur", hide);
  input.form.addEventListener("submit", hide);
  list.addEventListener("pointerdown", (event) => {
    // The field keeps the focus.
    event.preventDefault();
    const place = [...list.children].indexOf(event.target.closest("[role=option]"));
    if (place >= 0) {
      take(place);
    }
  });
}

function makeList(input) {
  const id = `${input.id}-list`;
  const list = makeElement("div", { id, class: "completion-list", role: "listbox", "aria-label": "Completions", hidden: "" });
  input.after(list);
  setAttributes(input, { role: "combobox", "aria-autocomplete": "list", "aria-expanded": "false", "aria-controls": id });
  return list;
}

function makeOption({ shown, note }, place) {
  const texts = [shown, note].map((text) => makeElement("span", {}, text));
  return makeElement("div", { id: `completion-${place}`, role: "option" }, ...texts);
}

async function listEntries(text, piece, signal) {
  const dimensions = await loadDimensions();
  if (piece.kind === "name") {
    const names = fitNames(dimensions, piece.typed)
      .slice(0, LIMIT)
      .map(({ name, short, label }) => ({ written: short, shown: `${short}:`, note: short === name ? label : `${label} (${name})` }));
    return [...names, ...(await loadWords(piece.typed, signal))];
  }
  const dimension = dimensions.find(({ name, aliases }) => name === piece.name || aliases.includes(piece.name));
  if (dimension === undefined) {
    return [];
  }
  const answer = await loadValues(dimension.name, { q: withoutPiece(text, piece), prefix: piece.typed, signal });
  return answer.values.map((value) => ({ written: value.text, shown: value.text, note: describeCount(value) }));
}

// Profiles, sweeps and labels are counted in runs.
function describeCount({ series, runs }) {
  return series === null ? `${runs} ${runs === 1 ? "run" : "runs"}` : `${series} series`;
}

function startFacets(panel, form) {
  const list = panel.querySelector("[data-facet-list]");
  panel.hidden = false;
  panel.addEventListener("toggle", async () => {
    if (!panel.open || list.children.length > 0) {
      return;
    }
    try {
      const dimensions = await loadDimensions();
      list.replaceChildren(...dimensions.map((dimension) => makeFacet(dimension, form)));
    } catch (error) {
      list.replaceChildren(makeError(error.message));
    }
  });
}

function makeFacet(dimension, form) {
  const facet = makeElement("details", { class: "facet" }, makeElement("summary", {}, dimension.label));
  facet.addEventListener("toggle", async () => {
    if (!facet.open || facet.children.length > 1) {
      return;
    }
    try {
      const answer = await loadValues(dimension.name, { q: form.dataset.filter, prefix: "" });
      facet.append(makeValues(answer, form));
    } catch (error) {
      facet.append(makeError(error.message));
    }
  });
  return facet;
}

function makeValues(answer, form) {
  const items = answer.values.map(({ text, series, runs, q, is_chosen: isChosen }) => [
    makeElement("a", { href: addressWith(form, q), "aria-current": isChosen ? "true" : null }, text),
    makeElement("span", { class: "muted" }, series === null ? describeCount({ series, runs }) : series),
  ]);
  if (answer.values.length === 0) {
    items.push(["nothing matches the rest of the filter"]);
  } else if (answer.is_cut) {
    items.push([`${answer.count} values in total; type in the filter to find more`]);
  }
  if (answer.is_partial) {
    items.push(["of the newest 10 000 runs"]);
  }
  return makeElement("ul", {}, ...items.map((parts) => makeElement("li", {}, ...parts)));
}

// This page with another filter: other parameters stay, pagination restarts.
function addressWith(form, q) {
  const query = new URLSearchParams(location.search);
  for (const name of ["after", "add", "value", ...LEGACY]) {
    query.delete(name);
  }
  query.set("q", q);
  return `${form.getAttribute("action")}?${query}`;
}

function makeError(text) {
  return makeElement("p", { class: "field-error" }, text);
}

function startKey(input) {
  document.addEventListener("keydown", (event) => {
    const isTyping = event.target.closest?.("input, select, textarea, [contenteditable]");
    if (event.key === "f" && !isTyping && !event.ctrlKey && !event.metaKey && !event.altKey) {
      event.preventDefault();
      input.closest("details")?.setAttribute("open", "");
      input.focus();
      input.setSelectionRange(input.value.length, input.value.length);
    }
  });
}

// A word of the scope line opens its choices: of a filter the values, in a long list with a field that narrows it.
function startWord(menu) {
  const list = menu.querySelector(".menu-list");
  menu.addEventListener("toggle", async () => {
    if (!menu.open || list.dataset.isReady) {
      return;
    }
    list.dataset.isReady = "1";
    const { values: name } = list.dataset;
    if (name) {
      const form = document.querySelector("[data-filter-bar]");
      try {
        const { values } = await loadValues(name, { q: form.dataset.filter, prefix: "" });
        list.append(...values.map(({ text, q, is_chosen: isChosen }) =>
          makeElement("a", { href: addressWith(form, q), "aria-current": isChosen ? "true" : null }, text)));
      } catch (error) {
        list.append(makeError(error.message));
      }
    }
    if (list.children.length > LIMIT) {
      list.prepend(makeNarrowing(list));
      list.firstChild.focus();
    }
  });
}

function makeNarrowing(list) {
  const items = [...list.children];
  const input = makeElement("input", { type: "search", placeholder: "Find", "aria-label": "Find in the list" });
  input.addEventListener("input", () => {
    const typed = input.value.trim().toLowerCase();
    items.forEach((item) => {
      item.hidden = typed !== "" && !(item.matches("a") && item.textContent.toLowerCase().includes(typed));
    });
  });
  return input;
}

document.querySelectorAll(".scope .menu").forEach(startWord);
for (const form of document.querySelectorAll("[data-filter-bar]")) {
  const input = form.querySelector("[name=q]");
  startCompletion(input);
  startFacets(form.querySelector("[data-facets]"), form);
  startKey(input);
}
for (const input of document.querySelectorAll("[data-completion]")) {
  startCompletion(input);
}
