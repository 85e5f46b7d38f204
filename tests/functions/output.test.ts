import { describe, expect, it } from "vitest";
import { createCut, createMask } from "../../src/coordinator/masking/masking.ts";
import type { SandboxEndpoint } from "../../src/sandbox/port.ts";
import { eachBuildFixture } from "../support/build-fixture.ts";

// W12: whatever an agent prints is data, and secrets are masked before it is stored.

const pem = "-----BEGIN KEY-----\nMIIabcdefghijkl\nshort1\nend=\n-----END-----";

describe("output", () => {
  const fixture = eachBuildFixture({ env: { SIGNING_KEY: pem } });

  it("may contain bytes that Postgres does not store, and characters that are cut in two", async () => {
    const odd = "node -e \"process.stdout.write('nul:\\0 '+'🦀'.repeat(3001)+'x\\n')\"";
    const build = await fixture.build({
      gates: { testing: { command: `${odd}; echo 1..1; echo "not ok 1 - $(${odd})"; exit 1`, minTests: 1 } },
      tasks: [{ id: "a", run: `${odd}; echo a > a; test "$(basename $PWD)" != a.1`, retries: 1 }],
    });
    const attempts = await fixture.app.store.attempts.list({ buildId: build.id }, { by: "number" });
    expect(attempts.map((attempt) => attempt.outcome)).toEqual(["failed", "succeeded"]);
    expect(attempts[0]!.outputTail).toContain("🦀🦀x");
    const run = await fixture.app.store.gateRuns.get({ buildId: build.id, gate: "testing" });
    expect([run.verdict, run.losses]).toEqual(["failed", 0]);
  });

  it("waits for output without a line end instead of polling", async () => {
    let reads = 0;
    const counted = (endpoint: SandboxEndpoint): SandboxEndpoint => ({
      ...endpoint,
      guest: {
        ...endpoint.guest,
        readOutput: (...args) => {
          reads += 1;
          return endpoint.guest.readOutput(...args);
        },
      },
    });
    const { driver } = fixture.app.ports;
    Object.assign(fixture.app.ports, {
      driver: (name: string) => {
        const real = driver(name);
        return { ...real, ensure: async (spec: never) => counted(await real.ensure(spec)) };
      },
    });
    const build = await fixture.build({ tasks: [{ id: "a", run: "printf working; sleep 3; echo a > a" }] });
    expect(build.status).toBe("completed");
    expect(reads).toBeGreaterThan(0);
    expect(reads).toBeLessThan(60);
  });

  it("never shows a secret of several lines, however slowly it is printed", async () => {
    const build = await fixture.build({
      secrets: ["SIGNING_KEY"],
      tasks: [
        {
          id: "a",
          run: 'printf "%s\\n" "$SIGNING_KEY" | while read -r line; do echo "$line"; sleep 0.4; done; echo done; echo a > a',
        },
      ],
    });
    expect(build.status).toBe("completed");
    const chunks = await fixture.app.store.logChunks.list({}, { by: "startsAt" });
    const text = chunks.map((chunk) => chunk.text).join("");
    expect(text).toContain("done");
    expect(text).not.toContain("short1");
    expect(text).not.toContain("end=");
  });
});

describe("a mask", () => {
  const value = "tok-1234567890-abcdefghijklmnopqrstuvwxyz-ABCDEFGHIJKLMNOPQRSTUVWXYZ-0987654321";
  const mask = createMask({ TOKEN: value, "": "" });

  it("masks base64 wherever the secret is in the encoded text, also when it is wrapped", () => {
    for (const before of ["", "x", "xy", "user:"]) {
      const encoded = Buffer.from(`${before}${value}\n`).toString("base64");
      expect(mask(encoded), before).toContain("[secret TOKEN]");
      expect(mask(encoded), before).not.toContain(Buffer.from(value.slice(6, 36)).toString("base64").slice(4, -4));
      const wrapped = encoded.replace(/.{76}/g, "$&\n");
      expect(Buffer.from(mask(wrapped), "base64").toString(), before).not.toContain("abcdefghijklmnop");
    }
    expect(mask(Buffer.from(value).toString("base64url"))).toContain("[secret TOKEN]");
    expect(mask(Buffer.from(value).toString("hex"))).toContain("[secret TOKEN]");
  });

  it("covers a secret whose lines the agent host has prefixed, and one within JSON", () => {
    const wrapped = Buffer.from(value).toString("base64").replace(/.{20}/g, "$&\n");
    const noise = wrapped
      .split("\n")
      .map((line) => `| ${line}`)
      .join("\n");
    for (const text of [wrapped, noise, JSON.stringify({ text: wrapped })])
      expect(mask(text)).toMatch(/^(\| |\{"text":")?\[secret TOKEN\]("\})?$/);
    expect(mask(JSON.stringify({ line: JSON.stringify({ value: 'a"b' }) }))).toContain("value");
    const quoted = createMask({ ODD: 'with "quotes" and \\ in it' });
    expect(quoted(JSON.stringify({ text: JSON.stringify({ v: 'with "quotes" and \\ in it' }) }))).not.toContain(
      "quotes",
    );
  });

  it("masks every token of the model proxy, announced or not", () => {
    expect(mask("WAVESMITH_MODEL_TOKEN=wst_attempt.att_x1-y.3.AbC_d-efgh; done")).toBe(
      "WAVESMITH_MODEL_TOKEN=[secret WAVESMITH_MODEL_TOKEN]; done",
    );
  });

  it("holds back lines that may begin a wrapped encoding until the next line decides", () => {
    const cut = createCut({ TOKEN: value }, 256 * 1024);
    const held = (text: string) => text.length - cut(Buffer.from(text)).length;
    const [first = "", second = ""] =
      Buffer.from(value)
        .toString("base64")
        .match(/.{1,40}/g) ?? [];
    expect(held(`before\n${first}\n`)).toBe(first.length + 1);
    expect(held(`before\n| ${first}\n| ${second}\n`)).toBe(first.length + second.length + 6);
    expect(held(`before\n${first}\nand something else\n`)).toBe(0);
    expect(held("\n")).toBe(0);
  });
});
