import { execFile } from "node:child_process";
import { availableParallelism } from "node:os";
import { promisify } from "node:util";
import { buildPlan } from "./build.ts";
import { withFolder } from "./database.ts";
import { interleaved } from "./measure.ts";
import type { Benchmark, Finding } from "./target.ts";

// A hand-written script that does the work of a wave: for each task its own tree, its program, a
// commit, and a merge of its branch, one after another and without a sandbox.
const byHand = `set -eu
export GIT_AUTHOR_NAME=hand GIT_AUTHOR_EMAIL=hand@bench.invalid GIT_COMMITTER_NAME=hand GIT_COMMITTER_EMAIL=hand@bench.invalid
git init -q --initial-branch=main joined
git -C joined commit -q --allow-empty -m begin
n=0
while [ $n -lt "$1" ]; do
  git clone -q --shared joined tree-$n 2> /dev/null
  (cd tree-$n && git checkout -q -b task && sh -e -c "echo $n > file-$n" && git add -A && git commit -q -m "task $n")
  n=$((n+1))
done
n=0
while [ $n -lt "$1" ]; do
  git -C joined fetch -q ../tree-$n task
  git -C joined merge -q --no-ff -m "join $n" FETCH_HEAD
  rm -rf tree-$n
  n=$((n+1))
done
`;

export const tasks: Benchmark = {
  name: "tasks",
  about: "a wave of `run:` tasks that each write one file: tree, job, commit, join, gates and delivery",
  async run({ smoke }) {
    const [count, rounds] = smoke ? [3, 1] : [200, 5];
    const { ours, hand } = await interleaved(rounds, {
      ours: () => buildPlan(planOf(count)),
      hand: () => withFolder((cwd) => runByHand(cwd, count)),
    });
    const finding: Finding = {
      what: `${count} tasks that do next to nothing, in one wave`,
      ours,
      unit: "ms",
      floor: { what: "a shell script that does the same one after another", value: hand },
      limit: 1.5,
    };
    return [finding];
  },
};

async function runByHand(cwd: string, count: number): Promise<void> {
  // The script does not flush, so configure ours the same way where git's files can be rebuilt.
  await promisify(execFile)("sh", ["-c", byHand, "by-hand", String(count)], { cwd, maxBuffer: 1 << 26 });
}

const planOf = (count: number) => ({
  name: "bench",
  // More tasks than processors, because part of each task waits for the disk and for namespaces.
  limits: { tasksPerAgentPerWave: count, maxParallelTasks: 2 * availableParallelism() },
  tasks: Array.from({ length: count }, (_, n) => ({ id: `t-${n}`, run: `echo ${n} > file-${n}` })),
});
