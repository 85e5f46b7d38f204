import { mkdirSync, writeFileSync } from "node:fs";
import { planJsonSchema } from "../src/plan/json-schema.ts";
import { standingJsonSchema } from "../src/plan/standing/standing-file.ts";

const folder = new URL("../schema/", import.meta.url);
mkdirSync(folder, { recursive: true });
const schemas = { "plan.schema.json": planJsonSchema(), "wavesmith.schema.json": standingJsonSchema() };
for (const [name, schema] of Object.entries(schemas))
  writeFileSync(new URL(name, folder), `${JSON.stringify(schema, null, 2)}\n`);
