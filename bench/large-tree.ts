import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { createWorkspaceFixture, gitIn, type WorkspaceFixture } from "../tests/support/workspace-fixture.ts";
import { interleaved } from "./measure.ts";
import type { Benchmark } from "./target.ts";

const perFolder = 100;

export const largeTree: Benchmark = {
  name: "large-tree",
  about: "keeping an attempt's tree of very many new files, against `git add` and `git commit` of the same ones",
  async run({ smoke }) {
    const [count, rounds] = smoke ? [200, 1] : [60_000, 1];
    const found = await interleaved(rounds, {
      plain: () => withTree(count, (fixture, tree) => timed(() => addAndCommit(fixture.at(tree)))),
      kept: () => withTree(count, keep),
      forced: () =>
        withTree(count, async (fixture, tree) => {
          writeFileSync(join(fixture.at(tree), ".gitignore"), "*\n");
          gitIn(fixture.at(tree), "add", "-f", "-A");
          return keep(fixture, tree);
        }),
    });
    const floor = { what: "git add and git commit", value: found.plain };
    const what = `keeping ${count} new files`;
    return [
      { what, ours: found.kept, unit: "ms", floor, limit: 3.5 },
      { what: `${what} that are ignored and were added by force`, ours: found.forced, unit: "ms", floor, limit: 5 },
    ];
  },
};

async function withTree(
  count: number,
  work: (fixture: WorkspaceFixture, tree: string) => Promise<number>,
): Promise<number> {
  const tree = "trees/bld_bench/big.1";
  const fixture = await createWorkspaceFixture();
  try {
    await fixture.open(tree, fixture.git("rev-parse", "refs/heads/main"));
    for (let file = 0; file < count; file += 1) {
      const folder = join(fixture.at(tree), `folder-${Math.floor(file / perFolder)}`);
      if (file % perFolder === 0) mkdirSync(folder);
      writeFileSync(join(folder, `file-${file}`), `line ${file}\n`);
    }
    return await work(fixture, tree);
  } finally {
    await fixture.dispose();
  }
}

/** Runs git in the tree's own repository, without flushing, as in the sandbox. */
function addAndCommit(folder: string): void {
  gitIn(folder, "-c", "core.fsync=none", "add", "-A");
  gitIn(folder, "-c", "core.fsync=none", "commit", "-q", "-m", "by hand");
}

const keep = (fixture: WorkspaceFixture, tree: string): Promise<number> =>
  timed(() => fixture.keep(tree, fixture.git("rev-parse", "refs/heads/main")));

async function timed(work: () => unknown): Promise<number> {
  const begun = performance.now();
  await work();
  return performance.now() - begun;
}
