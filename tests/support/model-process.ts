import { Pool } from "pg";
import { randomIds } from "../../src/domain/ids.ts";
import { createModels } from "../../src/models/models.ts";
import { createStore } from "../../src/store/store.ts";

// A process that answers model calls on a socket and can be killed at any moment. Its argument is
// JSON. Prints its warnings, one per line.

export interface ModelProcessInput {
  readonly databaseUrl: string;
  readonly socket: string;
  readonly projectId: string;
  /** The base URL for the provider `anthropic`. */
  readonly providerUrl: string;
}

const { databaseUrl, socket, projectId, providerUrl } = JSON.parse(process.argv[2]!) as ModelProcessInput;
const models = createModels({
  store: createStore(new Pool({ connectionString: databaseUrl, max: 8 })),
  ids: randomIds,
  now: () => new Date(),
  prices: [],
  cassette: null,
  patienceMs: 0,
  providers: [{ name: "anthropic", baseUrl: providerUrl, headers: { "x-api-key": "real-key" } }],
  warn: (message) => process.stdout.write(`${message}\n`),
});
models.listen(socket, projectId);
// Its own timers do not keep a process alive.
setInterval(() => undefined, 60_000);
