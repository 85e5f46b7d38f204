// A process that runs only the model proxy, to measure its memory. argv: data directory, socket,
// project, the provider's address.
import { setInterval } from "node:timers";
import { randomIds } from "../src/domain/ids.ts";
import { createModels } from "../src/models/models.ts";
import { openDatabase } from "../src/store/connection/connection.ts";
import { createStore } from "../src/store/store.ts";

const [dataDir = "", socket = "", projectId = "", baseUrl = ""] = process.argv.slice(2);
const database = await openDatabase({ dataDir, applicationName: "bench" });
const models = createModels({
  store: createStore(database.pool),
  ids: randomIds,
  now: () => new Date(),
  prices: [],
  cassette: null,
  providers: [{ name: "anthropic", baseUrl, headers: { "x-api-key": "real-key" } }],
  warn: (message) => process.stderr.write(`${message}\n`),
});
models.listen(socket, projectId);
setInterval(() => undefined, 60_000);
process.once("SIGTERM", async () => {
  await models.close();
  await database.close();
  process.exit();
});
