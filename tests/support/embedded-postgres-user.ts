// A process that uses an embedded Postgres, driven by the lines of its standard input: for tests
// that need several. argv: data directory, orphan timeout in ms. It prints "ready", then one line
// for every line it receives.

import { createInterface } from "node:readline";
import { openEmbedded } from "../../src/store/embedded/launcher.ts";

const [dataDir = "", orphanTimeoutMs = "60000"] = process.argv.slice(2);
try {
  const server = await openEmbedded({ dataDir, applicationName: "user", orphanTimeoutMs: Number(orphanTimeoutMs) });
  console.log("ready");
  for await (const line of createInterface({ input: process.stdin })) {
    if (line === "close") await server.close();
    if (line === "ensure") await server.ensureRunning();
    console.log(line);
    if (line === "close") break;
  }
} catch (error) {
  console.log(`failed: ${error instanceof Error ? error.message : error}`);
}
process.exit();
