// Keeps the address in sync with changes on the page, so that a copied link shows the same.

/** Return an address with other parameters; null removes one. */
export function setParameters(href, changes) {
  const address = new URL(href, location.href);
  for (const [name, value] of Object.entries(changes)) {
    if (value === null) {
      address.searchParams.delete(name);
    } else {
      address.searchParams.set(name, value);
    }
  }
  return address.href.replaceAll("%3A", ":").replaceAll("%2C", ",");
}

/** Set parameters in the address of the page; null removes one. */
export function keepInAddress(changes) {
  history.replaceState(null, "", setParameters(location.href, changes));
}
