// The time zone of the browser. The server learns it from a cookie, before the preference is saved and after a change.

/** Return the name of the browser's time zone. */
export function findOwnZone() {
  return Intl.DateTimeFormat().resolvedOptions().timeZone ?? "UTC";
}

/** Let pages of an account whose time zone is that of the browser be formatted in it. */
export function followBrowserZone() {
  const { followsBrowserZone, timeZone } = document.documentElement.dataset;
  document.querySelector("[data-preferences]")?.addEventListener("submit", storeZone);
  // Without cookies, and on a server without this time zone, pages stay in that of the server. The page of a refused form
  // is not sent again.
  const { responseStatus = 200 } = performance.getEntriesByType("navigation")[0] ?? {};
  if (followsBrowserZone !== undefined && findOwnZone() !== timeZone && responseStatus < 400 && storeZone()) {
    location.reload();
  }
}

// Returns whether the cookie was stored and is another one now.
function storeZone() {
  const cookie = `benchapp_time_zone=${findOwnZone()}`;
  const isStored = () => document.cookie.split("; ").includes(cookie);
  if (isStored()) {
    return false;
  }
  const secure = location.protocol === "https:" ? "; Secure" : "";
  document.cookie = `${cookie}; Path=/; Max-Age=31536000; SameSite=Lax${secure}`;
  return isStored();
}
