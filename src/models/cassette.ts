import { createHash } from "node:crypto";
import { mkdir, readFile, rename, writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { z } from "zod";
import { WavesmithError } from "../domain/errors.ts";
import type { Cassette, CassetteCall } from "./port.ts";

const answerSchema = z.object({
  status: z.number().int(),
  headers: z.record(z.string(), z.string()),
  body: z.string(),
});

/**
 * Keeps answers in a folder, one file per call. The key is the n-th call of an owner (`api #1`) to
 * a path, because that is the same in every run, while requests contain ids, times and paths that
 * differ.
 */
export function createCassette(folder: string, mode: "record" | "replay"): Cassette {
  const calls = new Map<string, number>();
  const next = (call: CassetteCall): number => {
    const key = `${call.owner}\0${call.path}`;
    const number = (calls.get(key) ?? 0) + 1;
    calls.set(key, number);
    return number;
  };
  const pending = new WeakMap<CassetteCall, string>();
  return {
    async find(call) {
      const file = fileOf(folder, call, next(call));
      if (mode === "record") {
        pending.set(call, file);
        return null;
      }
      const text = await readFile(file, "utf8").catch((error: NodeJS.ErrnoException) => {
        if (error.code === "ENOENT") return null;
        throw error;
      });
      if (text !== null) return answerSchema.parse(JSON.parse(text));
      throw new WavesmithError("not-found", `the cassette ${folder} has no such call of ${call.owner} (${file})`, {
        remedy: "record it again: WAVESMITH_CASSETTE=record:FOLDER",
      });
    },
    async keep(call, answer) {
      const file = pending.get(call);
      if (file === undefined) return;
      await mkdir(dirname(file), { recursive: true });
      await writeFile(`${file}.tmp`, JSON.stringify({ ...answer, request: call.body }, null, 1), { mode: 0o600 });
      await rename(`${file}.tmp`, file);
    },
  };
}

function fileOf(folder: string, { owner, provider, path }: CassetteCall, number: number): string {
  const name = owner.replace(/[^a-z0-9#-]+/gi, "-");
  const hash = createHash("sha256").update(`${owner}\0${provider}\0${path}`).digest("hex").slice(0, 8);
  return join(folder, `${name}-${hash}`, `${String(number).padStart(4, "0")}.json`);
}
