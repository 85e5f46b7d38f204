import { parseArgs } from "node:util";
import type { ArchiveFormat } from "../protocol.ts";

const formats: readonly ArchiveFormat[] = ["tar.zst", "tar.gz"];

/** Reads the arguments of `pack` and `unpack`. Fails naming the one that is missing or wrong. */
export function readArchiveArguments(args: readonly string[]): {
  root: string;
  format: ArchiveFormat;
  maxBytes: number;
  whileStdin: boolean;
} {
  const text = { type: "string" } as const;
  const { values } = parseArgs({
    args: [...args],
    options: { root: text, format: text, "max-bytes": text, "while-stdin": { type: "boolean" } },
  });
  const format = formats.find((name) => name === values.format);
  const maxBytes = Number(values["max-bytes"] ?? Number.MAX_SAFE_INTEGER);
  if (values.root === undefined) throw new Error("--root is missing");
  if (format === undefined) throw new Error(`--format must be one of ${formats.join(", ")}`);
  if (!Number.isSafeInteger(maxBytes) || maxBytes < 0) throw new Error("--max-bytes must be a number, 0 or more");
  return { root: values.root, format, maxBytes, whileStdin: values["while-stdin"] ?? false };
}
