import { spawn } from "node:child_process";
import { readdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { withFolder } from "./database.ts";
import { median } from "./measure.ts";
import type { Benchmark } from "./target.ts";

// The task itself records when it ran, which is stricter than the time when the wave's row says
// `running`.
const plan = JSON.stringify({ name: "tiny", tasks: [{ id: "a", run: "date +%s%N > ran-at" }] });
const command = fileURLToPath(new URL("../bin/wavesmith.js", import.meta.url));

export const startUp: Benchmark = {
  name: "start-up",
  about: "from `wavesmith build` being started until the first task's own command runs",
  async run({ smoke }) {
    const rounds = smoke ? 1 : 5;
    const first: number[] = [];
    const warm: number[] = [];
    for (let round = 0; round < rounds; round += 1) {
      await withFolder(async (folder) => {
        await writeFile(join(folder, "plan.json"), plan);
        first.push(await untilFirstTask(folder));
        for (let again = 0; again < (smoke ? 1 : 2); again += 1) warm.push(await untilFirstTask(folder));
      });
    }
    return [
      { what: "first task runs, warm data directory", ours: median(warm), unit: "ms", floor: null, limit: 2_000 },
      { what: "first task runs, first run ever", ours: median(first), unit: "ms", floor: null, limit: 6_000 },
    ];
  },
};

/** Builds the tiny plan. Without a data directory it is a very first run, which copies Postgres. */
async function untilFirstTask(folder: string): Promise<number> {
  const begun = Date.now();
  // TMPDIR and HOME move the caches outside the data directory here; docs/performance.md explains
  // the difference for root.
  const env = { ...process.env, HOME: folder };
  const argv = [command, "build", "plan.json", "--json", "--data", "data", "--no-wait"];
  const child = spawn(process.execPath, argv, { cwd: folder, env, stdio: ["ignore", "ignore", "inherit"] });
  const code = await new Promise((resolve) => child.on("close", resolve));
  if (code !== 0) throw new Error(`wavesmith build ended with exit code ${code}`);
  const repositories = join(folder, "data", "repositories");
  const repository = (await readdir(repositories)).find((name) => name.endsWith(".git"));
  return (await ranAt(join(repositories, repository!))) - begun;
}

async function ranAt(gitDir: string): Promise<number> {
  const git = spawn("git", ["--git-dir", gitDir, "show", "main:ran-at"], { stdio: ["ignore", "pipe", "inherit"] });
  let text = "";
  for await (const chunk of git.stdout) text += String(chunk);
  return Number(BigInt(text.trim()) / 1_000_000n);
}
