import { request } from "node:http";
import { join } from "node:path";
import type { Duplex } from "node:stream";
import { afterEach, describe, expect, it } from "vitest";
import { reachPreview } from "../../src/coordinator/preview/reach-preview.ts";
import { ensureSandbox } from "../../src/sandbox-lifecycle/ensure-sandbox.ts";
import { type BuildFixture, createBuildFixture } from "../support/build-fixture.ts";
import { requires } from "../support/require.ts";

// W6: the preview of a passed wave runs the agents' code while the next wave is gated. Nothing it
// does reaches that gate.

/**
 * A server on which a request for `/attack` tries the named attacks and answers which of them
 * worked.
 */
const server = `
import { createServer } from "node:http";
import { connect } from "node:net";
import { existsSync, readFileSync, readdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
const attempt = (work) => { try { return work() === true; } catch { return false; } };
const reaches = (where) => new Promise((done) => {
  const socket = connect(where, () => { socket.destroy(); done(true); });
  socket.on("error", () => done(false));
});
const inside = (folder, depth) => {
  let entries = [];
  try { entries = readdirSync(folder, { withFileTypes: true }); } catch { return []; }
  return entries.flatMap((entry) => {
    const path = join(folder, entry.name);
    return [path, ...(entry.isDirectory() && depth > 0 ? inside(path, depth - 1) : [])];
  });
};
async function attack({ trees, sockets, port, mark }) {
  const worked = [];
  const note = (what, works) => works && worked.push(what);
  for (const tree of trees) note("write " + tree, attempt(() => (writeFileSync(join(tree, "evil"), "evil"), true)));
  for (const folder of ["/tmp", "/dev/shm", "/workspace"])
    for (const path of inside(folder, 4)) note("find " + path, path.includes(mark));
  note("connect to the gate", await reaches({ port, host: "127.0.0.1" }));
  for (const path of sockets) note("reach " + path, await reaches({ path }));
  note("reach the gate's abstract socket", await reaches({ path: "\\0" + mark }));
  for (const id of readdirSync("/proc").filter((name) => /^\\d+$/.test(name)))
    for (const file of ["environ", "cmdline"])
      note("read " + file, attempt(() => readFileSync("/proc/" + id + "/" + file, "utf8").includes(mark)));
  return worked;
}
createServer((request, response) => {
  if (request.url !== "/attack") return response.end("up");
  let text = "";
  request.on("data", (chunk) => (text += chunk));
  request.on("end", () => attack(JSON.parse(text)).then((worked) => response.end(JSON.stringify(worked))));
}).listen(process.env.PORT, "127.0.0.1");
`;

const mark = "wavesmith-gate-mark";

/**
 * A gate with its own port, file in /tmp, variable and abstract socket, whose tree must stay
 * unchanged. In the second wave it continues once something connects to its port.
 */
const gate = `
export GATE_SECRET=${mark}
echo x > /tmp/${mark}
node -e '
  const { createServer } = require("net");
  createServer(() => process.exit(0)).listen(process.env.PORT, "127.0.0.1", () => console.log("gate port " + process.env.PORT + "."));
  createServer().listen("\\0${mark}");
' &
server=$!
if test -e b; then wait $server; else kill $server; fi
rm -f /tmp/${mark}
test ! -e evil
echo 1..1
echo ok 1 - untouched
`;

const plan = {
  network: "none",
  gates: { testing: { command: gate }, integration: { from: "a" }, critic: false },
  preview: { command: "exec node server.mjs" },
  tasks: [
    { id: "a", run: `cat > server.mjs <<'END'\n${server}\nEND` },
    { id: "b", dependsOn: ["a"], run: "echo b > b" },
  ],
};

const drivers = [
  { sandbox: "local" as const, runs: requires("bubblewrap") },
  { sandbox: "docker" as const, runs: requires("docker") },
].filter(({ runs }) => runs);

describe.each(drivers)("a hostile preview under $sandbox", ({ sandbox }) => {
  let fixture: BuildFixture;
  afterEach(async () => {
    await fixture.close();
  }, 300_000);

  it("reaches no part of the gate that judges the next wave", { timeout: 600_000 }, async () => {
    fixture = await createBuildFixture({ sandbox, patienceMs: 240_000 });
    const { ports, store, config } = fixture.app;
    const buildId = await fixture.request(plan);
    await fixture.until(buildId, async () => (await store.previews.find({ buildId, status: "ready" })) !== null);
    let port = 0;
    const wave = async () => (await store.waves.find({ buildId, number: 2 }))?.id ?? "";
    await fixture.until(buildId, async () => {
      const run = await store.gateRuns.find({ waveId: await wave(), gate: "testing", status: "running" });
      const chunks = run?.jobKey == null ? [] : await store.logChunks.list({ jobKey: run.jobKey }, { by: "startsAt" });
      port = Number(/gate port (\d+)\./.exec(chunks.map(({ text }) => text).join(""))?.[1] ?? 0);
      return port > 0;
    });
    const build = await store.builds.get({ id: buildId });
    const { guest } = await ensureSandbox(ports, build);
    const trees = (await guest.list(`trees/${buildId}`)).map(({ path }) => path);
    expect(trees).toHaveLength(1);
    const volume = join(config.dataDir, "volumes", fixture.projectId);
    const worked = await attack(
      await connection(),
      JSON.stringify({
        port,
        mark,
        trees: [...trees, "repo"].flatMap((path) => [join("/workspace", path), join(volume, path)]).slice(0, -2),
        sockets: [join(config.dataDir, "sandboxes", fixture.projectId, "socket", "guest.sock")],
      }),
    );
    expect(worked).toEqual([]);
    (await guest.tunnel(port)).destroy();
    expect(await fixture.until(buildId)).toMatchObject({ status: "completed", reason: null });
    expect(await fixture.git("ls-tree", "--name-only", "main")).toBe("b\nserver.mjs\n");

    async function connection(): Promise<Duplex> {
      const reached = await reachPreview(ports, buildId, 10_000);
      if (reached.kind !== "connected") throw new Error(reached.why);
      return reached.connection;
    }
  });
});

function attack(connection: Duplex, body: string): Promise<string[]> {
  return new Promise((resolve, reject) => {
    const asked = request({ method: "POST", path: "/attack", createConnection: () => connection }, (response) => {
      let text = "";
      response.setEncoding("utf8").on("data", (chunk: string) => {
        text += chunk;
      });
      response.once("end", () => resolve(JSON.parse(text) as string[]));
    });
    asked.once("error", reject).end(body);
  });
}
