// The search dialog of every page ("/" or Ctrl-K): a combobox with a listbox of links in groups.
import { getPage } from "./api.js";
import { makeElement } from "./elements.js";
import { listRecent } from "./recent.js";

const WAIT_MS = 150;

/** Make the search dialog of a page; button: what opens it. Returns {open}. */
export function startPalette(button) {
  const { resultsUrl, searchUrl } = button.dataset;
  const { dialog, input, list, status } = makeDialog();
  let options = [];
  let active = -1;
  let timer = null;
  let asked = null;
  let opener = null;

  function select(index) {
    active = index;
    options.forEach((option, place) => option.setAttribute("aria-selected", String(place === index)));
    if (index < 0) {
      input.removeAttribute("aria-activedescendant");
    } else {
      input.setAttribute("aria-activedescendant", options[index].id);
      options[index].scrollIntoView({ block: "nearest" });
    }
  }

  function show(groups, text) {
    list.replaceChildren(...groups.filter(({ links }) => links.length > 0).map(makeGroup));
    options = [...list.querySelectorAll("[role=option]")];
    options.forEach((option, place) => {
      option.id = `palette-option-${place}`;
    });
    input.setAttribute("aria-expanded", String(options.length > 0));
    select(text !== "" && options.length > 0 ? 0 : -1);
    const count = `${options.length} ${options.length === 1 ? "result" : "results"}`;
    report(options.length > 0 || text === "" ? (text === "" ? "" : count) : `Nothing matches “${text}”.`, { isShown: options.length === 0 });
  }

  function report(text, { isShown = true, isError = false } = {}) {
    status.textContent = text;
    status.classList.toggle("visually-hidden", !isShown);
    status.classList.toggle("field-error", isError);
  }

  async function search() {
    clearTimeout(timer);
    asked?.abort();
    asked = new AbortController();
    const { signal } = asked;
    const text = input.value.trim();
    try {
      const page = await getPage(`${resultsUrl}?${new URLSearchParams({ text })}`, { signal });
      if (!signal.aborted) {
        const recent = text === "" ? [{ title: "Recent pages", links: listRecent(location.href) }] : [];
        show([...recent, ...readGroups(page)], text);
      }
    } catch (error) {
      if (!signal.aborted) {
        show(text === "" ? [{ title: "Recent pages", links: listRecent(location.href) }] : [], "");
        report(error.message, { isError: true });
      }
    }
  }

  function follow(option, { inNewTab = false } = {}) {
    if (inNewTab) {
      window.open(option.dataset.url, "_blank", "noopener");
    } else {
      dialog.close();
      location.assign(option.dataset.url);
    }
  }

  function open() {
    if (dialog.open) {
      return;
    }
    opener = document.activeElement;
    dialog.showModal();
    input.select();
    search();
  }

  const keys = {
    ArrowDown: () => options.length > 0 && select((active + 1) % options.length),
    ArrowUp: () => options.length > 0 && select((active <= 0 ? options.length : active) - 1),
    PageDown: () => options.length > 0 && select(Math.min(active + 5, options.length - 1)),
    PageUp: () => options.length > 0 && select(Math.max(active - 5, 0)),
    Home: () => options.length > 0 && select(0),
    End: () => options.length > 0 && select(options.length - 1),
  };
  input.addEventListener("keydown", (event) => {
    if (event.isComposing) {
      return;
    }
    if (event.key === "Enter") {
      event.preventDefault();
      if (active >= 0) {
        follow(options[active], { inNewTab: event.ctrlKey || event.metaKey });
      } else if (input.value.trim() !== "") {
        location.assign(`${searchUrl}?${new URLSearchParams({ text: input.value.trim() })}`);
      }
    } else if (keys[event.key] !== undefined && !event.ctrlKey && !event.metaKey && !event.altKey && !event.shiftKey) {
      event.preventDefault();
      keys[event.key]();
    }
  });
  input.addEventListener("input", () => {
    clearTimeout(timer);
    timer = setTimeout(search, WAIT_MS);
  });
  list.addEventListener("pointerdown", (event) => event.preventDefault());
  list.addEventListener("click", (event) => {
    const option = event.target.closest("[role=option]");
    if (option !== null) {
      follow(option, { inNewTab: event.ctrlKey || event.metaKey });
    }
  });
  dialog.addEventListener("click", (event) => {
    // The area around the dialog belongs to it, too.
    if (event.target === dialog) {
      dialog.close();
    }
  });
  dialog.addEventListener("close", () => {
    clearTimeout(timer);
    asked?.abort();
    opener?.focus();
  });
  button.addEventListener("click", open);
  return { open };
}

/** Return the groups of the results page: {title, links: [{title, url, note}]}. */
function readGroups(page) {
  const corrections = [...page.querySelectorAll("[data-correction]")].map(readLink);
  const groups = [...page.querySelectorAll("[data-group]")].map((group) => ({
    title: group.dataset.group,
    links: [...group.querySelectorAll("li")].map((item) => ({
      ...readLink(item.querySelector("a")),
      note: item.querySelector(".muted")?.textContent ?? "",
    })),
  }));
  return [{ title: "Did you mean", links: corrections }, ...groups];
}

function readLink(link) {
  return { title: link.textContent, url: link.getAttribute("href"), note: "" };
}

function makeGroup({ title, links }, place) {
  const id = `palette-group-${place}`;
  // The head names the group; in a listbox only options are children.
  const head = makeElement("div", { id, class: "palette-head", role: "presentation" }, title);
  return makeElement("div", { role: "group", "aria-labelledby": id }, head, ...links.map(makeOption));
}

function makeOption({ title, url, note }) {
  const label = makeElement("span", {}, title);
  return makeElement("div", { role: "option", "data-url": url }, label, makeElement("span", { class: "muted" }, note));
}

function makeDialog() {
  const input = makeElement("input", {
    type: "text",
    maxlength: 200,
    autocomplete: "off",
    autocapitalize: "off",
    spellcheck: "false",
    placeholder: "Host, run, page, filter or question",
    role: "combobox",
    "aria-label": "Search",
    "aria-autocomplete": "list",
    "aria-expanded": "false",
    "aria-controls": "palette-list",
  });
  const close = makeElement("button", { type: "button" }, "Close");
  const status = makeElement("p", { class: "palette-status", role: "status" });
  const list = makeElement("div", { id: "palette-list", class: "palette-list", role: "listbox", "aria-label": "Results" });
  const keys = makeElement("p", { class: "palette-keys muted" }, "↑ ↓ select · Enter open · Ctrl+Enter new tab · Esc close");
  const bar = makeElement("div", { class: "palette-bar" }, input, close);
  const dialog = makeElement("dialog", { class: "palette", "aria-label": "Search" }, bar, status, list, keys);
  close.addEventListener("click", () => dialog.close());
  document.body.append(dialog);
  return { dialog, input, list, status };
}
