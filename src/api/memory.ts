import { createHash } from "node:crypto";
import { WavesmithError } from "../domain/errors.ts";
import { maxMemoryBytes } from "../domain/memory.ts";
import type { Store } from "../store/port.ts";

/** A version of a project's memory, for `If-Match`. */
export const memoryTag = (memory: string): string =>
  `"${createHash("sha256").update(memory).digest("base64url").slice(0, 27)}"`;

/**
 * Replaces a project's memory. Fails with `usage` if it is too long, and with `conflict` if the
 * memory no longer has this tag; a null tag skips that check.
 */
export async function setMemory(
  { projects }: Pick<Store, "projects">,
  id: string,
  { text, tag }: { readonly text: string; readonly tag: string | null },
): Promise<void> {
  const sizeBytes = Buffer.byteLength(text);
  if (sizeBytes > maxMemoryBytes) {
    throw new WavesmithError("usage", `the memory is ${sizeBytes} bytes long, and the limit is ${maxMemoryBytes}`, {
      remedy: "keep what later builds need, and leave the rest out",
    });
  }
  const { memory } = await projects.get({ id });
  const isCurrent = tag === null || memoryTag(memory) === tag;
  // Notes that a build adds in the meantime must not be lost either.
  const [changed] = isCurrent ? await projects.update({ id, memory }, { memory: text }) : [];
  if (changed !== undefined) return;
  throw new WavesmithError("conflict", "the memory has changed since you read it", { remedy: "read it again" });
}
