import { describe, expect, it } from "vitest";
import { readPrices, shippedPrices } from "../../src/models/prices/price-list.ts";
import { costMicroUsd, familyPriceIn, type Price, priceIn } from "../../src/models/prices/prices.ts";

const list = shippedPrices.prices;
const million = 1_000_000;
const nothing = { inputTokens: 0, cachedTokens: 0, cacheWriteTokens: 0, outputTokens: 0 };
const usd = (price: Price | null, usage: object): number => costMicroUsd(price!, { ...nothing, ...usage }) / million;

describe("what a model costs", () => {
  it("has a date and the models of each provider", () => {
    expect(shippedPrices.date).toMatch(/^\d{4}-\d\d-\d\d$/);
    expect(new Set(list.map(({ provider }) => provider))).toEqual(new Set(["anthropic", "openai", "google"]));
    for (const price of list) expect(price.cached, price.model).toBeLessThanOrEqual(price.input);
  });

  it("depends on the cache's lifetime, the context's length, and whether the provider may take its time", () => {
    const sonnet = priceIn(list, "anthropic", "claude-sonnet-4-5-20250929");
    const written = { inputTokens: million, cacheWriteTokens: million };
    expect(usd(sonnet, written)).toBe(3.75);
    expect(usd(sonnet, { ...written, cacheWriteLongTokens: million })).toBe(6);
    expect(usd(sonnet, { inputTokens: million, cachedTokens: million })).toBe(0.3);
    const gpt = priceIn(list, "openai", "gpt-5.4");
    expect(usd(gpt, { inputTokens: 272_000, outputTokens: 1_000 })).toBe(0.695);
    expect(usd(gpt, { inputTokens: 272_001, outputTokens: 1_000 })).toBeCloseTo(1.360005 + 0.0225, 6);
    expect(usd(gpt, { inputTokens: 100_000, outputTokens: 100_000, isBatch: true })).toBe((0.25 + 1.5) / 2);
  });

  it.each([
    ["anthropic", "claude-opus-9", "claude-opus-5-5"],
    ["anthropic", "claude-3-5-haiku-20241022", "claude-haiku-4-5"],
    ["anthropic", "claude-opus-4-1-20250805", "claude-opus-4-5"],
    ["openai", "gpt-7", "gpt-5.6"],
    ["openai", "gpt-6.5-sol", "gpt-6-sol"],
    ["openai", "gpt-5.5-mini", "gpt-5.4-mini"],
    ["openai", "o9-mini", "o4-mini"],
    ["google", "gemini-4-pro-preview", "gemini-3.1-pro-preview"],
    ["google", "gemini-3.9-flash", "gemini-3.8-flash"],
    ["google", "gemini-9-flash-lite", "gemini-3.5-flash-lite"],
  ])("of %s is for %s that of %s, the nearest version of its family", (provider, model, like) => {
    expect(priceIn(list, provider, model)).toBeNull();
    expect(familyPriceIn(list, provider, model)?.model).toBe(like);
  });

  it("is unknown for an unknown family, and for another provider", () => {
    expect(familyPriceIn(list, "openai", "nova-1")).toBeNull();
    expect(familyPriceIn(list, "compatible", "gpt-7")).toBeNull();
  });

  it("can be set by a person, briefly or in full", () => {
    const brief = [{ provider: "openai", model: "x", input: 1, output: 2 }];
    const price = { ...brief[0], cached: 1, cacheWrite: 1, cacheWriteLong: 1 };
    expect(readPrices(JSON.stringify(brief), "f")).toEqual([price]);
    const whole = { date: "2026-11-22", source: "us", prices: brief };
    expect(readPrices(JSON.stringify(whole), "f")).toEqual([price]);
    expect(() => readPrices('[{"provider":"p","model":"m","input":-1,"output":0}]', "f")).toThrow("the prices in f");
  });
});
