import { mkdirSync, mkdtempSync, rmSync } from "node:fs";
import { createServer } from "node:http";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { requires } from "../support/require.ts";
import {
  eventually,
  type GuestFixture,
  job,
  outcome,
  outputOf,
  processesSaying,
  shell,
  startGuest,
  until,
} from "./guest-fixture.ts";

const node = process.execPath;
/** Sends `text` to every connection to the port. */
const serving = (port: number, text: string): string =>
  `${node} -e "require('http').createServer((_, reply) => reply.end('${text}')).listen(${port}, '127.0.0.1')"`;
const onAbstract = (name: string): string =>
  `${node} -e "require('net').createServer((caller) => caller.end('${name}')).listen('\\0${name}', () => console.log('up'))"`;
const toAbstract = (name: string): string =>
  `${node} -e "require('net').connect('\\0${name}').on('data', (said) => console.log('said ' + said)).on('error', (error) => console.log(error.code))"`;

describe.runIf(requires("bubblewrap"))("the loopback of a job", () => {
  let folder: string;
  let guest: GuestFixture;
  beforeEach(async () => {
    folder = mkdtempSync(join(tmpdir(), "wavesmith-guest-test-"));
    mkdirSync(join(folder, "egress"));
    guest = await startGuest({
      isolation: "bubblewrap",
      folder,
      args: ["--network", "allowlist", "--egress", join(folder, "egress")],
    });
  });
  afterEach(async () => {
    await guest.stop();
    await eventually(() => processesSaying(folder).length === 0, "nothing of the guest is left");
    rmSync(folder, { recursive: true, force: true });
  });

  const said = async (key: string, script: string): Promise<string> => {
    await guest.client.startJob(key, job(shell(script)));
    await outcome(guest.client, key);
    return outputOf(guest.client, key);
  };
  const background = async (key: string, script: string, port: number): Promise<void> => {
    const server = shell(`exec ${script}`, { background: true, ready: { http: { port, path: "/" } } });
    await guest.client.startJob(key, { ...job(server), ports: [port] });
    await until(guest.client, key, (state) => state.stages[0]?.status === "ready");
  };

  it("is separate: no other job answers on its ports, and all may use the same one", async () => {
    await background("first", serving(8080, "first"), 8080);
    expect(await said("peer", "curl -sS --max-time 5 http://127.0.0.1:8080/ || echo nobody")).toMatch(/nobody\n$/);
    await background("second", serving(8080, "second"), 8080);
    expect((await guest.client.findJob("first"))?.status).toBe("running");
  });

  it("has separate abstract sockets", async () => {
    await guest.client.startJob("owner", job(shell(`exec ${onAbstract("of-owner")}`, { background: true })));
    await until(guest.client, "owner", (state) => state.outputBytes > 0);
    expect(await said("peer", toAbstract("of-owner"))).toBe("ECONNREFUSED\n");
    expect(await said("itself", `${onAbstract("own")} & sleep 1; ${toAbstract("own")}; kill $!`)).toBe(
      "up\nsaid own\n",
    );
  });

  it("is shared by the stages of the job, and reached only by its tunnels", async () => {
    const server = shell(`exec ${serving(8081, "hello")}`, {
      name: "server",
      background: true,
      ready: { http: { port: 8081, path: "/" } },
    });
    const fetch = shell("curl -sS http://127.0.0.1:8081/", { name: "fetch" });
    const last = shell("sleep 60", { name: "last" });
    await guest.client.startJob("shown", { ...job(server, fetch, last), ports: [8081] });
    await until(guest.client, "shown", (state) => state.stages[2]?.status === "running");
    const answer = async (): Promise<string> => {
      const tunnel = await guest.client.tunnel(8081);
      tunnel.end("GET / HTTP/1.0\r\n\r\n");
      let text = "";
      for await (const chunk of tunnel) text += String(chunk);
      return text;
    };
    expect(await answer()).toMatch(/hello$/);
    await guest.client.cancelJob("shown", { reason: "enough", graceMs: 0 });
    expect(await outputOf(guest.client, "shown")).toBe("hello");
    await expect(answer()).rejects.toThrow(/nothing answers on port 8081/);
  });

  it("leads out through the same ports in every job, and ends with the job", async () => {
    const server = createServer((_request, response) => response.end("from the proxy\n"));
    await new Promise<void>((resolve) => server.listen(join(folder, "egress", "proxy.sock"), resolve));
    try {
      const fetch = "curl -sS http://somewhere.test/";
      expect(await Promise.all(["a", "b", "c"].map((key) => said(key, fetch)))).toEqual(
        Array(3).fill("from the proxy\n"),
      );
    } finally {
      server.close();
    }
    const { egress } = await guest.client.health();
    expect(egress).toMatchObject({ proxyPort: expect.any(Number), modelPort: expect.any(Number) });
  });

  it("is never that of an earlier job, whose socket may live on in another job", async () => {
    const names = await Promise.all(["a", "b"].map((key) => said(key, "readlink /proc/self/ns/net")));
    expect(new Set(names).size).toBe(2);
  });
});
