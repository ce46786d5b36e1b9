// The files of a parcel as a form, bounded, the big ones packed.

// Below this packing takes longer than what it saves.
const PACK_FROM_BYTES = 2 ** 20;
const MIB = 2 ** 20;

/** A parcel that is more than the server takes; nothing was sent. */
export class ParcelTooBig extends Error {}

/** Put the files into the fields under one name. limits, in bytes: body, of all as sent; unpacked, of each. */
export async function packParcel(fields, name, { files, limits }) {
  fields.delete(name);
  let total = 0;
  for (const one of files) {
    checkSize(one.file.size, limits.unpacked, "");
    const content = await squeeze(one.file);
    total += content.size;
    fields.append(name, content, one.name);
  }
  checkSize(total, limits.body, " to send");
  return fields;
}

function checkSize(size, limit, words) {
  if (size > limit) {
    throw new ParcelTooBig(`More than ${limit / MIB} MiB${words}, which is the most that is taken.`);
  }
}

async function squeeze(file) {
  if (file.size < PACK_FROM_BYTES || typeof CompressionStream === "undefined") {
    // Read now, so that a file that is gone is told from a server that is.
    return new Blob([await file.arrayBuffer()]);
  }
  return new Response(file.stream().pipeThrough(new CompressionStream("gzip"))).blob();
}
