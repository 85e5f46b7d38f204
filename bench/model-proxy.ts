import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { readFileSync } from "node:fs";
import { createServer, request, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { tokenOf } from "../src/models/token.ts";
import { openDatabase } from "../src/store/connection/connection.ts";
import { migrate } from "../src/store/migrate.ts";
import { createStore } from "../src/store/store.ts";
import { liveModelAttempt, modelAttempt, modelProject } from "../tests/support/model-builds.ts";
import { withFolder } from "./database.ts";
import { interleaved } from "./measure.ts";
import type { Benchmark, Finding } from "./target.ts";

export const modelProxy: Benchmark = {
  name: "model-proxy",
  about: "what the model proxy adds to the first byte of an answer, and the memory it takes for 50 streams at once",
  run: ({ smoke }) =>
    withFolder(async (dataDir) => {
      const provider = await startProvider();
      const database = await openDatabase({ dataDir, applicationName: "bench" });
      const socketPath = join(dataDir, "model.sock");
      let proxy: ChildProcess | null = null;
      try {
        await migrate(database.pool, fileURLToPath(new URL("../drizzle", import.meta.url)));
        const store = createStore(database.pool);
        // With a token budget, the more expensive case: open calls are checked before each call.
        await liveModelAttempt(store, { tokens: 1_000_000_000, usd: null });
        const token = tokenOf(await store.modelSecret("x".repeat(40)), { kind: "attempt", ...modelAttempt });
        const program = fileURLToPath(new URL("./model-process.ts", import.meta.url));
        const args = ["--import", "tsx", program, dataDir, socketPath, modelProject, provider.url];
        proxy = spawn(process.execPath, args, { stdio: ["ignore", "ignore", "inherit"] });
        const through: Way = { socketPath, path: "/anthropic/v1/messages", token };
        const direct: Way = { port: provider.port, path: "/v1/messages", token };
        await listening(through);
        return [...(await firstBytes(direct, through, smoke)), ...(await streams(through, proxy, provider, smoke))];
      } finally {
        if (proxy !== null) await ended(proxy);
        await database.close();
        await provider.close();
      }
    }),
};

type Way = { readonly path: string; readonly token: string } & (
  | { readonly socketPath: string }
  | { readonly port: number }
);

async function firstBytes(direct: Way, through: Way, smoke: boolean): Promise<Finding[]> {
  const rounds = smoke ? 2 : 300;
  // The first calls open connections and warm up the code.
  for (let round = 0; round < (smoke ? 1 : 50); round += 1) await ask(through, "short");
  const median = await interleaved(rounds, {
    direct: () => ask(direct, "short"),
    through: () => ask(through, "short"),
  });
  const added = median.through - median.direct;
  return [
    { what: "first byte of an answer: what the proxy adds", ours: added, unit: "ms", floor: null, limit: 3 },
    {
      what: "first byte of an answer through the proxy",
      ours: median.through,
      unit: "ms",
      floor: { what: "from the provider directly", value: median.direct },
      limit: null,
    },
  ];
}

/** The number of concurrent streams, each of about 2 MB in small events. */
async function streams(way: Way, proxy: ChildProcess, provider: Provider, smoke: boolean): Promise<Finding[]> {
  const count = smoke ? 3 : 50;
  const before = residentBytes(proxy);
  let most = before;
  const look = setInterval(() => {
    most = Math.max(most, residentBytes(proxy));
  }, 20);
  const all = Array.from({ length: count }, () => ask(way, "long"));
  await provider.until(count);
  await Promise.all(all);
  clearInterval(look);
  const ours = (most - before) / 1e6;
  return [
    { what: `${count} streams at once: memory of the proxy over its own`, ours, unit: "MB", floor: null, limit: 100 },
  ];
}

/** Requests an answer and reads it to its end; returns the time to its first byte in ms. */
function ask({ path, token, ...where }: Way, kind: "short" | "long"): Promise<number> {
  const body = {
    model: kind,
    max_tokens: 1_000,
    stream: true,
    messages: [{ role: "user", content: "x".repeat(20_000) }],
  };
  return new Promise((resolve, reject) => {
    const begun = performance.now();
    const headers = { authorization: `Bearer ${token}`, "content-type": "application/json" };
    const outgoing = request({ ...where, path, method: "POST", headers }, (reply) => {
      let first = 0;
      reply.on("data", () => {
        if (first === 0) first = performance.now() - begun;
      });
      reply.once("end", () =>
        reply.statusCode === 200 ? resolve(first) : reject(new Error(`answered with ${reply.statusCode}`)),
      );
      reply.once("error", reject);
    });
    outgoing.once("error", reject);
    outgoing.end(JSON.stringify(body));
  });
}

/** Resolves as soon as a server answers there. */
async function listening(way: Way): Promise<void> {
  for (const deadline = Date.now() + 60_000; ; ) {
    try {
      await ask(way, "short");
      return;
    } catch (error) {
      if (!["ENOENT", "ECONNREFUSED"].includes((error as NodeJS.ErrnoException).code ?? "") || Date.now() > deadline)
        throw error;
      await new Promise((wake) => setTimeout(wake, 50));
    }
  }
}

interface Provider {
  readonly url: string;
  readonly port: number;
  /** Resolves once this many long answers are open; only then do they continue. */
  until(count: number): Promise<void>;
  close(): Promise<void>;
}

const event = (data: { readonly type: string; readonly [key: string]: unknown }): string =>
  `event: ${data.type}\ndata: ${JSON.stringify(data)}\n\n`;
const start = event({ type: "message_start", message: { usage: { input_tokens: 10, output_tokens: 1 } } });
const delta = event({
  type: "content_block_delta",
  index: 0,
  delta: { type: "text_delta", text: "some words of it" },
});
const end = event({ type: "message_delta", usage: { output_tokens: 9 } }) + event({ type: "message_stop" });

/** A provider that answers at once, or with a stream of two seconds. */
async function startProvider(): Promise<Provider> {
  let open = 0;
  const server = createServer(async (incoming, response) => {
    let text = "";
    for await (const chunk of incoming) text += chunk;
    response.writeHead(200, { "content-type": "text/event-stream" });
    response.write(start);
    if (JSON.parse(text).model === "long") {
      open += 1;
      await flow(response);
    }
    response.end(end);
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  const { port } = server.address() as AddressInfo;
  return {
    port,
    url: `http://127.0.0.1:${port}`,
    async until(count) {
      while (open < count) await new Promise((wake) => setTimeout(wake, 5));
    },
    close: () =>
      new Promise((done) => {
        server.close(() => done());
        server.closeAllConnections();
      }),
  };
}

async function flow(response: ServerResponse): Promise<void> {
  for (let part = 0; part < 100; part += 1) {
    if (!response.write(delta.repeat(150))) await once(response, "drain");
    await new Promise((wake) => setTimeout(wake, 20));
  }
}

/** Returns another process's memory, which only Linux reports. */
function residentBytes({ pid }: ChildProcess): number {
  const status = readFileSync(`/proc/${pid}/status`, "utf8");
  return Number(/^VmRSS:\s+(\d+) kB$/m.exec(status)?.[1] ?? 0) * 1024;
}

async function ended(child: ChildProcess): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return;
  const exited = once(child, "exit");
  child.kill();
  await exited;
}
