import { mkdirSync, writeFileSync } from "node:fs";
import { planJsonSchema } from "../src/plan/json-schema.ts";

const folder = new URL("../schema/", import.meta.url);
mkdirSync(folder, { recursive: true });
writeFileSync(new URL("plan.schema.json", folder), `${JSON.stringify(planJsonSchema(), null, 2)}\n`);
