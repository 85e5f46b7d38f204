// Recorded calls and answers, to repeat a build without a provider.
//
// CS1. A call is found by its agent, its conversation and its place in it, never by its order among
// all calls: agents make several at once, such as one that names the session beside the first one.
// CS2. Requests contain ids, times and paths that differ in every run, so a conversation is known
// by the plain words of its beginning.
import { createHash } from "node:crypto";
import { mkdir, readdir, readFile, rename, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { z } from "zod";
import { WavesmithError } from "../../domain/errors.ts";
import type { Cassette, CassetteAnswer, CassetteCall } from "../port.ts";
import { fieldsOf, listOf } from "../requests/parts.ts";

const answerSchema = z.object({
  status: z.number().int(),
  headers: z.record(z.string(), z.string()),
  body: z.string(),
});

interface Place {
  /** One for each agent, path, model and set of tools. */
  readonly folder: string;
  /** The digest of the conversation's beginning. */
  readonly conversation: string;
  /** How many messages it has. */
  readonly length: number;
  /** The digest of the plain words in all its messages. */
  readonly content: string;
}

const nameOf = ({ conversation, length, content }: Place, number: number): string =>
  `${String(length).padStart(4, "0")}-${conversation}-${content}-${String(number).padStart(3, "0")}.json`;

/** Keeps answers in a folder, one file per call. */
export function createCassette(folder: string, mode: "record" | "replay"): Cassette {
  const used = new Set<string>();
  const counts = new Map<string, number>();
  return {
    async find(call) {
      if (mode === "record") return null;
      const place = placeOf(folder, call);
      const names = await readdir(place.folder).catch((error: NodeJS.ErrnoException) => {
        if (error.code === "ENOENT") return [];
        throw error;
      });
      const name = chooseName(names.sort(), place, (one) => used.has(join(place.folder, one)));
      if (name === null) throw notRecorded(folder, call, place);
      used.add(join(place.folder, name));
      return answerSchema.parse(JSON.parse(await readFile(join(place.folder, name), "utf8")));
    },
    async keep(call, answer) {
      const place = placeOf(folder, call);
      const key = join(place.folder, nameOf(place, 0));
      const number = (counts.get(key) ?? 0) + 1;
      counts.set(key, number);
      await write(join(place.folder, nameOf(place, number)), place.folder, { ...answer, request: call.body });
    },
  };
}

async function write(file: string, folder: string, kept: CassetteAnswer & { request: unknown }): Promise<void> {
  await mkdir(folder, { recursive: true });
  await writeFile(`${file}.tmp`, JSON.stringify(kept, null, 1), { mode: 0o600 });
  await rename(`${file}.tmp`, file);
}

/**
 * Chooses among the answers to calls of the same length: the same content before the same
 * conversation before any, and one that was not used yet before one that is repeated.
 */
function chooseName(names: readonly string[], place: Place, isUsed: (name: string) => boolean): string | null {
  const [length, conversation, content] = nameOf(place, 0).split("-");
  const alike = names.filter((name) => name.startsWith(`${length}-`) && name.endsWith(".json"));
  const score = (name: string): number => {
    const [, itsConversation, itsContent] = name.split("-");
    const likeness = (itsConversation === conversation ? 2 : 0) + (itsContent === content ? 4 : 0);
    return likeness + (isUsed(name) ? 0 : 1);
  };
  return alike.reduce<string | null>((best, name) => (best === null || score(name) > score(best) ? name : best), null);
}

const notRecorded = (folder: string, { owner, path }: CassetteCall, { length }: Place): WavesmithError =>
  new WavesmithError("not-found", `the cassette ${folder} has no call of ${owner} to ${path} with ${length} messages`, {
    remedy: "record it again: WAVESMITH_CASSETTE=record:FOLDER",
  });

function placeOf(folder: string, { owner, provider, path, body }: CassetteCall): Place {
  const request = fieldsOf(body);
  const messages = [request.messages, request.input, request.contents].find((list) => Array.isArray(list)) ?? [];
  const tools = listOf(request.tools ?? []).map((tool) => fieldsOf(tool.function).name ?? tool.name ?? tool.type);
  const kind = digest([owner, provider, path, String(request.model), ...tools.map(String).sort()]);
  const label = owner.replace(/[^a-z0-9#-]+/gi, "-");
  const first = listOf(messages).find(({ role }) => role === undefined || role === "user");
  return {
    folder: join(folder, `${label}-${kind}`),
    conversation: digest(plainWords(first)),
    length: listOf(messages).length,
    content: digest(plainWords(messages)),
  };
}

/** The words of all texts, without whatever may be an id, a number, a time or a path. */
function plainWords(value: unknown): string[] {
  if (typeof value === "string") return value.match(/(?<![\w/.-])[A-Za-z]{2,12}(?![\w/-])/g) ?? [];
  if (Array.isArray(value)) return value.flatMap(plainWords);
  return typeof value === "object" && value !== null ? Object.values(value).flatMap(plainWords) : [];
}

const digest = (parts: readonly string[]): string =>
  createHash("sha256").update(parts.join("\0")).digest("hex").slice(0, 10);
