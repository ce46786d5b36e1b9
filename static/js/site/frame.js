// Scripts of every page: theme switch, search dialog, copy buttons, menus, confirmations.
import { startPalette } from "./palette.js";
import { setParameters } from "./address.js";
import { followBrowserZone } from "./browser_zone.js";
import { forgetPages, rememberPage } from "./recent.js";

const THEME_KEY = "benchapp-theme";
const darkPreferred = matchMedia("(prefers-color-scheme: dark)");

function isDark() {
  const chosen = document.documentElement.dataset.theme;
  return chosen === undefined ? darkPreferred.matches : chosen === "dark";
}

function startThemeSwitch() {
  const button = document.querySelector("[data-theme-switch]");
  const show = () => {
    button.textContent = isDark() ? "☀" : "☾";
    const label = isDark() ? "Switch to the light theme" : "Switch to the dark theme";
    button.setAttribute("aria-label", label);
    button.title = label;
  };
  button.hidden = false;
  button.addEventListener("click", () => {
    storeTheme(isDark() ? "light" : "dark");
    show();
    document.dispatchEvent(new CustomEvent("themechange"));
  });
  darkPreferred.addEventListener("change", show);
  show();
}

// A theme equal to the system preference is not stored, so that the page follows later changes of it.
function storeTheme(theme) {
  const page = document.documentElement.dataset;
  const isPreference = (theme === "dark") === darkPreferred.matches;
  if (isPreference) {
    delete page.theme;
  } else {
    page.theme = theme;
  }
  if (page.accountTheme !== undefined) {
    saveAccountTheme(isPreference ? "system" : theme);
    return;
  }
  try {
    if (isPreference) {
      localStorage.removeItem(THEME_KEY);
    } else {
      localStorage.setItem(THEME_KEY, theme);
    }
  } catch {
    // Storage is not available: the choice applies to this page only.
  }
}

async function saveAccountTheme(theme) {
  const form = new FormData();
  form.append("csrfmiddlewaretoken", document.querySelector("[name=csrfmiddlewaretoken]").value);
  form.append("theme", theme);
  const { postForm } = await import("./api.js");
  try {
    await postForm("/account/theme", form);
    document.documentElement.dataset.accountTheme = theme;
  } catch (problem) {
    // The choice applies to this page only.
    document.querySelector("[data-theme-switch]").title = `Theme not saved: ${problem.message}`;
  }
}

// "/" leads to the search field of the page if it has one, as the documentation, else to the search dialog.
function startSearch() {
  const field = document.querySelector("[data-search]");
  const button = document.querySelector("[data-palette]");
  const palette = button && startPalette(button);
  document.addEventListener("keydown", (event) => {
    const isTyping = event.target.closest?.("input, select, textarea, [contenteditable]");
    const isSlash = event.key === "/" && !isTyping && !event.ctrlKey && !event.metaKey && !event.altKey;
    const isCtrlK = event.key === "k" && (event.ctrlKey || event.metaKey) && !event.shiftKey && !event.altKey;
    if (isSlash && field) {
      event.preventDefault();
      field.focus();
      field.select();
    } else if ((isSlash || isCtrlK) && palette) {
      event.preventDefault();
      palette.open();
    }
  });
}

function startRecentPages() {
  const { responseStatus = 200 } = performance.getEntriesByType("navigation")[0] ?? {};
  // Without the dialog, as on a page for strangers, nothing is remembered.
  if (document.querySelector("[data-palette]") && responseStatus < 400) {
    rememberPage(document.title.replace(/ · benchapp$/, ""), location.pathname + location.search);
  }
  document.addEventListener("submit", (event) => {
    if (event.target.matches("[data-sign-out]")) {
      forgetPages();
    }
  });
}

// A saved image has the theme and the zone of the page, and its address in the footer.
function startImageLinks() {
  document.addEventListener("click", ({ target }) => {
    const link = target.closest("a[data-image]");
    if (link === null) {
      return;
    }
    link.href = setParameters(link.href, {
      page: document.querySelector('link[rel="canonical"]')?.href ?? location.href,
      scale_factor: 2,
      theme: isDark() ? "dark" : "light",
      time_zone: document.documentElement.dataset.timeZone ?? "UTC",
    });
  });
}

// The button says for a while whether it copied. Pressed again meanwhile, it does nothing.
function startCopyButtons() {
  const busy = new WeakSet();
  document.addEventListener("click", async (event) => {
    const button = event.target.closest("[data-copy], [data-copy-image]");
    if (button === null || busy.has(button)) {
      return;
    }
    busy.add(button);
    const label = button.textContent;
    button.textContent = await (button.dataset.copy === undefined ? copyImageLink(button) : copyPart(button));
    setTimeout(() => {
      button.textContent = label;
      busy.delete(button);
    }, 2000);
  });
}

async function copyPart(button) {
  return (await copyText(readCopyText(button))) ? "Copied" : "Press Ctrl+C";
}

function readCopyText(button) {
  if (button.dataset.copy === "link") {
    // The canonical link has the defaults that the page chose, so that a copied link shows the same.
    return document.querySelector('link[rel="canonical"]')?.href ?? location.href;
  }
  return document.getElementById(button.dataset.copy).textContent;
}

// A signed link to the image of a chart, made when it is asked for: each one outlives the session.
const LINK_LIFETIME = "+90d";

const escapeHtml = (text) => text.replace(/[&<>"]/g, (found) => `&#${found.codePointAt(0)};`);

// By data-copy-as: what is copied of an image, with a link to the page.
const WRITERS = {
  link: (image) => image,
  markdown: (image, page, title) => `[![${title.replace(/[[\]\\]/g, "\\$&")}](${image})](${page})`,
  embed: (...texts) => {
    const [image, page, title] = texts.map(escapeHtml);
    return `<a href="${page}"><img src="${image}" alt="${title}"></a>`;
  },
};

// Returns what the button shows then.
async function copyImageLink(button) {
  const { postJson } = await import("./api.js");
  try {
    const csrfToken = document.querySelector("[name=csrfmiddlewaretoken]").value;
    const { url } = await postJson("/api/v1/links", { url: button.dataset.copyImage, expires_at: LINK_LIFETIME }, { csrfToken });
    const title = document.querySelector("h1").textContent.trim();
    const text = WRITERS[button.dataset.copyAs ?? "link"](url, readCopyText({ dataset: { copy: "link" } }), title);
    if (!(await copyText(text))) {
      prompt("Copy:", text);
    }
    return "Copied, valid for 90 days";
  } catch (problem) {
    return problem.message;
  }
}

async function copyText(text) {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    // Without TLS the browser has no clipboard API: the user copies with Ctrl+C.
    return false;
  }
}

function startMenus() {
  document.addEventListener("click", (event) => {
    for (const menu of document.querySelectorAll("details.menu[open]")) {
      if (!menu.contains(event.target)) {
        menu.open = false;
      }
    }
  });
  document.addEventListener("keydown", (event) => {
    const menu = document.querySelector("details.menu[open]");
    if (event.key === "Escape" && menu) {
      menu.open = false;
      menu.querySelector("summary").focus();
    }
  });
}

// On a phone the tabs are one line that scrolls; it starts with the page that is shown.
function showCurrentTab() {
  const tabs = document.querySelector(".tabs > div");
  const current = tabs?.querySelector("[aria-current]");
  if (current) {
    tabs.scrollLeft = current.offsetLeft - (tabs.clientWidth - current.offsetWidth) / 2;
  }
}

function startQuestions() {
  document.addEventListener("submit", (event) => {
    const question = event.target.dataset.question;
    if (question && !confirm(question)) {
      event.preventDefault();
    }
  });
}

// A choice made with the pointer is shown at once; one made by keys waits for Enter, as arrows go through all of them.
function startAutoSubmit() {
  let isPointed = false;
  document.addEventListener("pointerdown", (event) => {
    isPointed = event.target.closest?.("[data-auto], [data-field]") !== null;
  });
  document.addEventListener("keydown", () => {
    isPointed = false;
  });
  document.addEventListener("change", (event) => {
    if (isPointed && event.target.matches("[data-auto]")) {
      event.target.form.requestSubmit();
    }
  });
}

// A word of the line of controls opens its field, and the choices of a select.
function startWords() {
  document.addEventListener("click", (event) => {
    const field = document.getElementById(event.target.closest?.("[data-field]")?.dataset.field);
    if (!field) {
      return;
    }
    event.preventDefault();
    for (let fold = field.closest("details"); fold; fold = fold.parentElement.closest("details")) {
      fold.open = true;
    }
    field.focus();
    if (field.matches("select")) {
      field.showPicker?.();
    }
  });
}

// After Back, the fields show what the page shows, not what was entered before it was left. Chromium would fill in the
// fields of a page that it loads again, too: their forms have autocomplete="off".
function startRestoredForms() {
  window.addEventListener("pageshow", ({ persisted }) => {
    if (persisted) {
      document.querySelectorAll("form[data-short-address]").forEach((form) => form.reset());
    }
  });
}

function hasDates(form) {
  return [...form.querySelectorAll(".time-range input")].some(({ value }) => value !== "");
}

// Empty fields of filter forms are left out of the address, so that links stay short.
function startShortAddresses() {
  document.addEventListener("submit", (event) => {
    if (!event.target.matches("[data-short-address]")) {
      return;
    }
    for (const field of event.target.elements) {
      // The time zone of dates says nothing without them.
      const isAlone = field.dataset.ofDates !== undefined && !hasDates(event.target);
      if (field.name && (field.value === "" || isAlone)) {
        field.disabled = true;
        setTimeout(() => {
          field.disabled = false;
        });
      }
    }
  });
}

followBrowserZone();
startWords();
startAutoSubmit();
startRestoredForms();
startThemeSwitch();
startSearch();
startRecentPages();
startImageLinks();
startCopyButtons();
startMenus();
showCurrentTab();
startQuestions();
startShortAddresses();
