// Keeps the address in sync with changes on the page, so that a copied link shows the same.

/** Set parameters in the address; null removes one. */
export function keepInAddress(changes) {
  const address = new URL(location.href);
  for (const [name, value] of Object.entries(changes)) {
    if (value === null) {
      address.searchParams.delete(name);
    } else {
      address.searchParams.set(name, value);
    }
  }
  history.replaceState(null, "", address.href.replaceAll("%3A", ":").replaceAll("%2C", ","));
}
