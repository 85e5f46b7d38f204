import { mkdtempSync, rmSync } from "node:fs";
import { createServer, type RequestListener, type Server } from "node:http";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { createGuestClient } from "../../src/sandbox/guest/guest-client.ts";
import type { GuestClient, SandboxDriver, SandboxEndpoint } from "../../src/sandbox/port.ts";
import { type BuildFixture, createBuildFixture } from "../support/build-fixture.ts";

// A compromised guest can answer anything. Whatever it says, the build neither hangs nor believes
// it: the sandbox is replaced, and what ran in it is lost and repeated.

const asJson = (value: unknown): RequestListener => {
  return (_request, response) => response.end(JSON.stringify(value));
};
const state = { status: "running", revision: 1, createdAt: "", endedAt: null, cancelReason: null, labels: {} };

/** A call that a build makes, and a lie in its answer. */
const lies: readonly (readonly [string, keyof GuestClient, RequestListener])[] = [
  ["starting a job, in no JSON", "startJob", (_request, response) => response.end("{{{")],
  ["a job's state, of another job", "findJob", asJson({ ...state, key: "other", stages: [], outputBytes: 0 })],
  ["a job's state, in a shape of its own", "findJob", asJson([state])],
  [
    "output, which it promises and never gives",
    "findJob",
    (request, response) => {
      const key = decodeURIComponent(request.url!.replace(/^.*\/|\?.*$/g, ""));
      response.end(JSON.stringify({ ...state, key, stages: [], outputBytes: 1_000_000 }));
    },
  ],
  [
    "output, more than was asked for",
    "readOutput",
    (_request, response) => response.end(Buffer.alloc(4 * 1024 * 1024, "x")),
  ],
  ["output, from another place", "readOutput", (_request, response) => response.setHeader("x-next-offset", 7).end("x")],
  ["writing a file, with an endless answer", "writeFile", (_request, response) => response.end("x".repeat(1 << 20))],
  ["commands that keep work, with no exit code", "exec", asJson({ stdout: "", stderr: "" })],
  ["removing, with a refusal that gives no reason", "remove", (_request, response) => response.writeHead(418).end("")],
];

describe("a guest that lies about", () => {
  let fixture: BuildFixture;
  let server: Server | null;
  let folder: string;
  beforeEach(async () => {
    folder = mkdtempSync(join(tmpdir(), "wavesmith-liar-"));
    fixture = await createBuildFixture();
  });
  afterEach(async () => {
    await fixture.close();
    server?.closeAllConnections();
    server?.close();
    rmSync(folder, { recursive: true, force: true });
  });

  /** Makes this call answer with the lie, in this many boots; returns the boots that were used. */
  async function lie(call: keyof GuestClient, listener: RequestListener, mostBoots: number): Promise<Set<string>> {
    server = createServer(listener);
    const socket = join(folder, "liar.sock");
    await new Promise<void>((resolve) => server?.listen(socket, resolve));
    const liar = createGuestClient({ connect: socket, name: "the liar" });
    const boots = new Set<string>();
    const lying = (endpoint: SandboxEndpoint): SandboxEndpoint => {
      boots.add(endpoint.bootId);
      if ([...boots].indexOf(endpoint.bootId) >= mostBoots) return endpoint;
      const guest = new Proxy(endpoint.guest, { get: (real, name) => Reflect.get(name === call ? liar : real, name) });
      return { ...endpoint, guest };
    };
    const { ports } = fixture.app;
    const real = ports.driver;
    const driver = (name: string): SandboxDriver => {
      const found = real(name as never);
      return new Proxy(found, {
        get: (target, method) => {
          if (method === "ensure") return async (spec: never) => lying(await target.ensure(spec));
          return Reflect.get(target, method);
        },
      });
    };
    Object.assign(ports, { driver });
    return boots;
  }

  it.each(lies)("%s: is replaced, and the build continues", { timeout: 180_000 }, async (_what, call, listener) => {
    const boots = await lie(call, listener, 1);
    const build = await fixture.build({ tasks: [{ id: "one", run: "echo said; echo 1 > one.txt" }] });
    expect([build.status, build.reason]).toEqual(["completed", null]);
    expect(boots.size).toBe(2);
    const { store } = fixture.app.ports;
    const rows = await store.outbox.list({ name: "sandbox/lost" });
    expect(rows.map(({ data }) => String(data.reason))).toEqual([expect.stringMatching(/^replaced: .*guest/)]);
  });

  it("a job that never ends: is replaced once its time limits are long over", { timeout: 120_000 }, async () => {
    const { store } = fixture.app;
    const boots = await lie(
      "findJob",
      (request, response) => {
        const key = decodeURIComponent(request.url!.replace(/^.*\/|\?.*$/g, ""));
        response.end(JSON.stringify({ ...state, key, stages: [], outputBytes: 0 }));
      },
      1,
    );
    const buildId = await fixture.request({ tasks: [{ id: "one", run: "echo 1 > one.txt", timeout: "10m" }] });
    const job = async () => store.jobs.find({ buildId, ownerKind: "attempt" });
    await fixture.until(buildId, async () => (await job())?.status === "running");
    const { key, longestMs } = (await job())!;
    expect(longestMs).toBeGreaterThan(600_000);
    expect(longestMs).toBeLessThan(900_000);
    // As if that time had passed when a watcher next looks.
    await store.jobs.update({ key }, { longestMs: 1, leaseOwner: "nobody", leaseUntil: new Date(0) });
    const build = await fixture.until(buildId);
    expect([build.status, build.reason]).toEqual(["completed", null]);
    expect(boots.size).toBe(2);
    const attempts = await store.attempts.list({ buildId }, { by: "number" });
    expect(attempts.map(({ outcome }) => outcome)).toEqual(["lost", "succeeded"]);
    expect(attempts[0]!.reason).toMatch(/still runs, long after its time limits/);
  });

  it("everything, boot after boot: the build ends and says why", { timeout: 240_000 }, async () => {
    const boots = await lie("findJob", (_request, response) => response.end("no json"), Number.POSITIVE_INFINITY);
    const build = await fixture.build({ tasks: [{ id: "one", run: "true" }] });
    expect(build.status).toBe("failed");
    const attempts = await fixture.app.store.attempts.list({ buildId: build.id });
    expect(attempts.every(({ outcome }) => outcome === "lost")).toBe(true);
    expect(attempts.length).toBeLessThanOrEqual(4);
    expect(attempts.at(-1)!.reason).toMatch(/does not follow the protocol/);
    expect(boots.size).toBeLessThan(40);
  });
});
