import { Pool } from "pg";
import { randomIds } from "../../src/domain/ids.ts";
import { createModels } from "../../src/models/models.ts";
import { createStore } from "../../src/store/store.ts";

// A process that answers calls of models on a socket and can be killed at any moment: run with tsx,
// one JSON argument. Prints what it warns of, a line each.

export interface ModelProcessInput {
  readonly databaseUrl: string;
  readonly socket: string;
  readonly projectId: string;
  /** Of the provider `anthropic`. */
  readonly providerUrl: string;
}

const { databaseUrl, socket, projectId, providerUrl } = JSON.parse(process.argv[2]!) as ModelProcessInput;
const models = createModels({
  store: createStore(new Pool({ connectionString: databaseUrl, max: 8 })),
  ids: randomIds,
  now: () => new Date(),
  prices: [],
  cassette: null,
  providers: [{ name: "anthropic", baseUrl: providerUrl, headers: { "x-api-key": "real-key" } }],
  warn: (message) => process.stdout.write(`${message}\n`),
});
models.listen(socket, projectId);
// Its own timers hold no process.
setInterval(() => undefined, 60_000);
