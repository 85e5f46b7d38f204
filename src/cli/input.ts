import { WavesmithError } from "../domain/errors.ts";

/** What of a stream this needs; `process.stdin` is one. */
export type InputStream = AsyncIterable<Buffer | string> & { readonly isTTY?: boolean };

const largestBytes = 16 * 1024 * 1024;
const silentMs = 2000;

/** Everything up to the end of standard input, as text; empty of a terminal. Fails with `usage` above 16 MiB and when it is no text. */
export async function readInput(input: InputStream, warn: (message: string) => void): Promise<string> {
  if (input.isTTY === true) return "";
  // Whoever left a pipe open by mistake is to know what is waited for.
  const timer = setTimeout(() => warn("waiting for the end of standard input (`< /dev/null` gives none)"), silentMs);
  const chunks: Buffer[] = [];
  let size = 0;
  try {
    for await (const chunk of input) {
      size += chunk.length;
      if (size > largestBytes) throw refused("is longer than 16 MiB");
      chunks.push(Buffer.from(chunk));
    }
  } finally {
    clearTimeout(timer);
  }
  try {
    return new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(Buffer.concat(chunks));
  } catch {
    throw refused("is not UTF-8 text"); // The decoder has nothing to add.
  }
}

const refused = (why: string): WavesmithError =>
  new WavesmithError("usage", `standard input ${why}, and is not passed to the command`, {
    remedy: "write a file in the sandbox in parts, or give the command no input: < /dev/null",
  });
