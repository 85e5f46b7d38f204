import { describe, expect, it } from "vitest";
import { loadConfig } from "../../src/config.ts";

const keys = { INNGEST_EVENT_KEY: "event", INNGEST_SIGNING_KEY: "signkey-test-abcdef" };
const engine = (env: Record<string, string>) => loadConfig(env).engine;

describe("the choice of the engine", () => {
  it("is the embedded one by default", () => {
    expect(engine({})).toEqual({ kind: "embedded", serveOrigin: null });
    expect(engine({ INNGEST_DEV: "0" }).kind).toBe("embedded");
    expect(engine({ INNGEST_EVENT_KEY: "event" }).kind).toBe("embedded");
    expect(engine({ ...keys, INNGEST_DEV: "1", WAVESMITH_ENGINE: "embedded" }).kind).toBe("embedded");
  });

  it("is a dev server with INNGEST_DEV, or with --engine inngest alone", () => {
    const usual = { kind: "inngest", isDev: true, baseUrl: "http://127.0.0.1:8288", eventKey: "dev", signingKey: null };
    expect(engine({ INNGEST_DEV: "1" })).toMatchObject(usual);
    expect(engine({ WAVESMITH_ENGINE: "inngest" })).toMatchObject(usual);
    expect(engine({ INNGEST_DEV: "http://localhost:9000" })).toMatchObject({
      isDev: true,
      baseUrl: "http://localhost:9000",
    });
    expect(engine({ INNGEST_DEV: "1", ...keys })).toMatchObject({ isDev: true });
  });

  it("is the cloud or a self-hosted server with both keys", () => {
    expect(engine(keys)).toMatchObject({ kind: "inngest", isDev: false, baseUrl: null, eventKey: "event" });
    expect(engine({ ...keys, INNGEST_DEV: "false", INNGEST_BASE_URL: "http://inngest:8288" })).toMatchObject({
      isDev: false,
      baseUrl: "http://inngest:8288",
    });
  });

  it("is never a server without keys, except a dev server", () => {
    const half = { WAVESMITH_ENGINE: "inngest" };
    expect(() => engine({ ...half, INNGEST_EVENT_KEY: "event" })).toThrow(/needs INNGEST_SIGNING_KEY/);
    expect(() => engine({ ...half, INNGEST_BASE_URL: "http://inngest:8288" })).toThrow(
      /INNGEST_SIGNING_KEY and INNGEST_EVENT_KEY/,
    );
    expect(() => engine({ ...half, INNGEST_DEV: "0" })).toThrow(/needs/);
    expect(() => engine({ INNGEST_DEV: "yes" })).toThrow(/INNGEST_DEV/);
  });
});

describe("the rights of events", () => {
  it("are to come with the key of the settings or the data directory, and to use no secrets", () => {
    expect(loadConfig({})).toMatchObject({ serveKey: null, eventSecrets: [] });
    const config = loadConfig({ INNGEST_EVENT_KEY: "event", WAVESMITH_EVENT_SECRETS: "STRIPE_KEY, OTHER" });
    expect(config).toMatchObject({ serveKey: "event", eventSecrets: ["STRIPE_KEY", "OTHER"] });
    expect(() => loadConfig({ WAVESMITH_EVENT_SECRETS: "a b" })).toThrow(/WAVESMITH_EVENT_SECRETS: must be names/);
  });
});
