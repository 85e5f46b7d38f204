import { randomUUID } from "node:crypto";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { createCassette } from "../../src/models/call/cassette.ts";
import type { Cassette, CassetteAnswer, CassetteCall } from "../../src/models/port.ts";

// A recording can be replayed even though agents make several calls at once, in any order, with
// other ids, times and paths each time.

let folder: string;
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), "wavesmith-cassette-"));
});
afterEach(() => rmSync(folder, { recursive: true, force: true }));

const tools = [{ name: "Bash" }, { name: "Write" }];
const about = (task: string): string =>
  `Your tree is /workspace/trees/${randomUUID()}, today is ${new Date().toISOString()}. ${task}`;

/**
 * The calls of one agent: one names its session, two are sub-tasks, and the first one continues.
 */
function callsOf(owner: string, steps: number): { readonly call: CassetteCall; readonly text: string }[] {
  const path = "/v1/messages?beta=true";
  const made = (name: string, body: object) => ({ call: { owner, provider: "anthropic", path, body }, text: name });
  const conversation = (task: string, length: number): object => {
    const turns = Array.from({ length }, (_, at) => [
      { role: "assistant", content: [{ type: "tool_use", id: `toolu_${randomUUID()}`, name: "Bash", input: {} }] },
      { role: "user", content: [{ type: "tool_result", content: `took ${Math.random()} s, step ${at}` }] },
    ]).flat();
    return { model: "claude", tools, messages: [{ role: "user", content: about(task) }, ...turns] };
  };
  return [
    made(`${owner} title`, { model: "claude", messages: [{ role: "user", content: about("Name this") }] }),
    ...Array.from({ length: steps }, (_, at) => made(`${owner} main ${at}`, conversation("Build the shop", at))),
    ...Array.from({ length: steps }, (_, at) => made(`${owner} look ${at}`, conversation("Explore the tree", at))),
  ];
}

const answerOf = (text: string): CassetteAnswer => ({ status: 200, headers: {}, body: text });

/** Shuffles in an order that depends only on the seed. */
function shuffled<Item>(items: readonly Item[], seed: number): Item[] {
  let state = seed;
  const random = (below: number): number => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
    return Math.floor((state / 2 ** 32) * below);
  };
  const left = [...items];
  return items.map(() => left.splice(random(left.length), 1)[0]!);
}

async function record(calls: ReturnType<typeof callsOf>): Promise<void> {
  const cassette = createCassette(folder, "record");
  for (const { call, text } of calls) {
    expect(await cassette.find(call)).toBeNull();
    await cassette.keep(call, answerOf(text));
  }
}

const made = () => [...callsOf("api #1", 4), ...callsOf("page #1", 4)];
const found = async (cassette: Cassette, { call, text }: ReturnType<typeof callsOf>[number]) => [
  text,
  (await cassette.find(call))?.body,
];

describe("a cassette", () => {
  it.each(Array.from({ length: 10 }, (_, at) => at + 1))("answers calls in any order (seed %i)", async (seed) => {
    await record(shuffled(made(), seed));
    const cassette = createCassette(folder, "replay");
    const answers = await Promise.all(shuffled(made(), seed + 100).map((one) => found(cassette, one)));
    for (const [wanted, given] of answers) expect(given).toBe(wanted);
  });

  it("answers a repeated call as before, and refuses a call that was never recorded", async () => {
    await record(made());
    const cassette = createCassette(folder, "replay");
    const [title] = made();
    for (const _ of [1, 2]) expect(await cassette.find(title!.call)).toEqual(answerOf("api #1 title"));
    const other = { ...title!.call, owner: "nobody #1" };
    await expect(cassette.find(other)).rejects.toThrow("has no call of nobody #1");
  });
});
