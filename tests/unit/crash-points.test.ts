import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { expect, it } from "vitest";
import { crashPoints } from "../../src/coordinator/crash-points.ts";

const source = fileURLToPath(new URL("../../src", import.meta.url));

it("lists the crash points of every transaction that an operation names", () => {
  const files = readdirSync(source, { recursive: true })
    .map(String)
    .filter((name) => name.endsWith(".ts"));
  const texts = files.map((name) => readFileSync(join(source, name), "utf8"));
  const named = texts.flatMap((text) => [...text.matchAll(/\.transaction\(\s*"([^"]+)"/g)].map((match) => match[1]!));
  expect(named.length).toBeGreaterThan(25);
  expect(named.filter((name) => !crashPoints.includes(`${name}.after-commit`))).toEqual([]);
  expect(new Set(crashPoints).size).toBe(crashPoints.length);
});
