// Files of a drop or a file input, including folders if supported: {file, name, folder}.
import { isHidden } from "./batches.js";

/** List the files of a file input. */
export function listChosen(input) {
  return [...input.files].map((file) => describe(file, file.webkitRelativePath || file.name));
}

/** List dropped files. Call it in the event handler: the browser empties the list afterwards. */
export async function listDropped(transfer) {
  const entries = [...transfer.items].map((item) => item.webkitGetAsEntry?.() ?? null).filter(Boolean);
  if (entries.length === 0) {
    return [...transfer.files].map((file) => describe(file, file.name));
  }
  const found = [];
  for (const entry of entries) {
    await walk(entry, found);
  }
  return found;
}

async function walk(entry, found) {
  if (entry.isFile) {
    const file = await new Promise((resolve) => entry.file(resolve, () => resolve(null)));
    if (file !== null) {
      found.push(describe(file, entry.fullPath.replace(/^\//, "")));
    }
    return;
  }
  const children = await readAll(entry.createReader());
  children.sort((one, other) => (one.name < other.name ? -1 : 1));
  for (const child of children) {
    if (!isHidden(child.name)) {
      await walk(child, found);
    }
  }
}

// A reader returns up to 100 entries at a time, and none at the end.
async function readAll(reader) {
  const all = [];
  for (;;) {
    const some = await new Promise((resolve) => reader.readEntries(resolve, () => resolve([])));
    if (some.length === 0) {
      return all;
    }
    all.push(...some);
  }
}

function describe(file, path) {
  const cut = path.lastIndexOf("/");
  return { file, name: path.slice(cut + 1), folder: path.slice(0, Math.max(cut, 0)) };
}
