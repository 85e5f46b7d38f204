import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, it } from "vitest";
import { newestPrices } from "../../src/models/prices/kept-prices.ts";
import { shippedPrices } from "../../src/models/prices/price-list.ts";
import { priceIn } from "../../src/models/prices/prices.ts";
import { type CommandPlace, createCommandPlace } from "../support/command.ts";

// A public price list on loopback, in LiteLLM's format, and the command that fetches it.

let place: CommandPlace;
let folder: string;
let answer: { status: number; text: string };
let server: ReturnType<typeof createServer>;
let url: string;

beforeEach(async () => {
  folder = mkdtempSync(join(tmpdir(), "wavesmith-prices-"));
  server = createServer((_request, response) => response.writeHead(answer.status).end(answer.text));
  await new Promise<void>((done) => server.listen(0, "127.0.0.1", done));
  url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/prices.json`;
  place = createCommandPlace({ WAVESMITH_PRICES_URL: url });
});
afterEach(async () => {
  await new Promise((done) => server.close(done));
  place.close();
  rmSync(folder, { recursive: true, force: true });
});

const dataDir = () => place.data;
const run = (...words: string[]) => place.run("prices", ...words);

const chat = { mode: "chat", litellm_provider: "openai" };
const published = {
  sample_spec: { litellm_provider: "one of https://docs.litellm.ai/docs/providers", mode: "one of: chat" },
  "gpt-9": {
    ...chat,
    input_cost_per_token: 1.1e-6,
    output_cost_per_token: 9e-6,
    cache_read_input_token_cost: 1.1e-7,
    input_cost_per_token_above_272k_tokens: 2.2e-6,
    output_cost_per_token_above_272k_tokens: 1.8e-5,
    input_cost_per_token_batches: 5.5e-7,
    output_cost_per_token_batches: 4.5e-6,
  },
  "claude-opus-9": {
    ...{ mode: "chat", litellm_provider: "anthropic", input_cost_per_token: 4e-6, output_cost_per_token: 2e-5 },
    cache_creation_input_token_cost: 5e-6,
    cache_creation_input_token_cost_above_1hr: 8e-6,
  },
  "gemini/gemini-9-pro": {
    ...{ mode: "chat", litellm_provider: "gemini", input_cost_per_token: 2e-6, output_cost_per_token: 1.2e-5 },
  },
  "bedrock/claude": { mode: "chat", litellm_provider: "bedrock", input_cost_per_token: 1, output_cost_per_token: 1 },
  "no-price": chat,
  "a-lie": { ...chat, input_cost_per_token: -1, output_cost_per_token: "free" },
};

it("is fetched, checked and kept, and overrides the one that came with this version", async () => {
  answer = { status: 200, text: JSON.stringify(published) };
  const { code, text } = await run("update");
  expect({ code, text }).toMatchObject({ code: 0, text: expect.stringContaining("3 models, as of ") });
  const { source, prices } = await newestPrices(dataDir());
  expect(source).toBe(url);
  expect(priceIn(prices, "openai", "gpt-9")).toEqual({
    ...{
      provider: "openai",
      model: "gpt-9",
      input: 1.1,
      cached: 0.11,
      cacheWrite: 1.1,
      cacheWriteLong: 1.1,
      output: 9,
    },
    long: { aboveTokens: 272_000, input: 2.2, cached: 2.2, cacheWrite: 2.2, cacheWriteLong: 2.2, output: 18 },
    batch: { input: 0.55, output: 4.5 },
  });
  expect(priceIn(prices, "anthropic", "claude-opus-9")).toMatchObject({ cacheWrite: 5, cacheWriteLong: 8 });
  expect(priceIn(prices, "google", "gemini-9-pro")).toMatchObject({ input: 2, output: 12 });
  expect((await run()).text).toContain(`from ${url}`);
});

it.each([
  ["an error", 500, "sorry"],
  ["no JSON", 200, "<html>"],
  ["another list", 200, JSON.stringify({ models: [1, 2, 3] })],
])("leaves the prices as they were when the list is %s", async (_what, status, text) => {
  answer = { status, text };
  const { code, text: told } = await run("update");
  expect({ code, told }).toMatchObject({ code: 4, told: expect.stringContaining("WAVESMITH_PRICES_URL") });
  expect(await newestPrices(dataDir())).toBe(shippedPrices);
});

it("is not used when the one that came with this version is newer", async () => {
  const list = { date: "2020-01-01", source: "old", prices: [{ provider: "p", model: "m", input: 1, output: 1 }] };
  writeFileSync(join(folder, "model-prices.json"), JSON.stringify(list));
  expect(await newestPrices(folder)).toBe(shippedPrices);
  writeFileSync(join(folder, "model-prices.json"), JSON.stringify({ ...list, date: "2999-01-01" }));
  expect(await newestPrices(folder)).toMatchObject({ source: "old" });
});
