// Pages that were opened in this browser, newest first, for the search dialog; forgotten at sign-out.

const KEY = "benchapp-recent";
const MAXIMUM = 8;
// Addresses that let in whoever has them: links to set up an account, to confirm an address, and to a shared study.
const SECRET_PATH = /^\/(setup|reset-password|confirm-address|shared|account\/email)\/./;

/** Remember a page; its title and its path with the query. One whose address is a secret is left out. */
export function rememberPage(title, path) {
  if (SECRET_PATH.test(path)) {
    return;
  }
  const others = read().filter((page) => page.url !== path && page.title !== title);
  write([{ title, url: path }, ...others].slice(0, MAXIMUM));
}

/** Return the remembered pages as {title, url, note}, without that of an address. */
export function listRecent(address) {
  const { pathname, search } = new URL(address);
  return read()
    .filter((page) => page.url !== `${pathname}${search}`)
    .map((page) => ({ ...page, note: "" }));
}

/** Forget all pages. */
export function forgetPages() {
  try {
    localStorage.removeItem(KEY);
  } catch {
    // Storage is not available: nothing was remembered.
  }
}

function read() {
  try {
    const pages = JSON.parse(localStorage.getItem(KEY) ?? "[]");
    // Only paths of this server: another page cannot write here, but an older version may have.
    return pages.filter(
      ({ title, url }) => typeof title === "string" && /^\/(?!\/)/.test(url) && !SECRET_PATH.test(url),
    );
  } catch {
    return [];
  }
}

function write(pages) {
  try {
    localStorage.setItem(KEY, JSON.stringify(pages));
  } catch {
    // Storage is not available or full: nothing is remembered.
  }
}
