// Upload form of a batch, with size limits; large files are compressed.

// Below this size, compression costs more time than it saves.
const PACK_FROM_BYTES = 2 ** 20;
const MIB = 2 ** 20;
// First two bytes of gzip, xz, bzip2, zstd and zip: the server unpacks once.
const PACKED = [0x1f8b, 0xfd37, 0x425a, 0x28b5, 0x504b];

/** The batch exceeds a limit of the server; nothing was sent. */
export class BatchTooBig extends Error {}

/** Add the files, of one folder, to the form under one name. limits, bytes: body, of all as sent; unpacked, of each. */
export async function packBatch(fields, name, { files, limits }) {
  fields.delete(name);
  fields.set("folder", files[0]?.folder ?? "");
  let total = 0;
  for (const one of files) {
    checkSize(one.file.size, limits.unpacked, "File");
    const content = await squeeze(one.file);
    total += content.size;
    fields.append(name, content, one.name);
  }
  checkSize(total, limits.body, "Upload");
  return fields;
}

function checkSize(size, limit, name) {
  if (size > limit) {
    throw new BatchTooBig(`${name} exceeds the limit of ${limit / MIB} MiB.`);
  }
}

async function squeeze(file) {
  const beginning = file.size < PACK_FROM_BYTES ? null : new DataView(await file.slice(0, 2).arrayBuffer());
  if (beginning === null || PACKED.includes(beginning.getUint16(0)) || typeof CompressionStream === "undefined") {
    // Read now, to distinguish a missing file from an unreachable server.
    return new Blob([await file.arrayBuffer()]);
  }
  return new Response(file.stream().pipeThrough(new CompressionStream("gzip"))).blob();
}
