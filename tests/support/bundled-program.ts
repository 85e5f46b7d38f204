import { join } from "node:path";
// @ts-expect-error A script without types.
import { bundleTogether } from "../../scripts/bundle-sources.mjs";

// With tsx, each start of a program would load hundreds of sources one by one, which takes seconds.

const support = [
  "brief-process",
  "build-process",
  "crash-process",
  "critic-process",
  "embedded-postgres-user",
  "forge-process",
  "killed-restore",
  "letter-process",
  "lifecycle-process",
  "model-process",
] as const;
const contract = ["egress-process", "sandbox-process"] as const;

const entries = [
  ...support.map((name) => `tests/support/${name}.ts`),
  ...contract.map((name) => `tests/contract/${name}.ts`),
];
const folders = ["src", "functions", "scripts", "tests/support", "tests/contract"];

/** Returns the path of a bundled test program, to be run with node. */
export async function bundledProgram(name: (typeof support | typeof contract)[number]): Promise<string> {
  return join(await bundleTogether(entries, folders), `${name}.js`);
}
