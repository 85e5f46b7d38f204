import { existsSync } from "node:fs";
import { join } from "node:path";
import { afterEach, describe, expect, it } from "vitest";
import type { BuildRow } from "../../src/store/port.ts";
import { type BuildFixture, createBuildFixture } from "../support/build-fixture.ts";
import { requires } from "../support/require.ts";

// W5, W8: whatever a task does to what it can reach, the work of the others and the repository outside the sandbox stand.

describe("a task that does all the harm it can", () => {
  let fixture: BuildFixture;
  afterEach(async () => {
    await fixture.close();
  });

  /** Hooks, drivers and a monitor that would leave a mark if anybody's git ran them. */
  const plantHooks = (repository: string, mark: string): string[] => [
    `for hook in pre-commit post-commit post-checkout post-merge pre-receive update post-update reference-transaction; do
       mkdir -p ${repository}/hooks && printf '#!/bin/sh\\ntouch ${mark}\\n' > ${repository}/hooks/$hook && chmod +x ${repository}/hooks/$hook
     done`,
    `git config -f ${repository}/config core.fsmonitor 'touch ${mark}'`,
    `git config -f ${repository}/config core.hooksPath ${repository}/hooks`,
    `git config -f ${repository}/config filter.evil.clean 'touch ${mark}; cat'`,
    `git config -f ${repository}/config merge.evil.driver 'touch ${mark}'`,
  ];

  /** Moves refs and plants hooks, in its own repository and in others. */
  const meddle = (volume: string, repositories: readonly string[]): string[] => [
    "git update-ref -d HEAD; git symbolic-ref HEAD refs/heads/evil; git commit --allow-empty -qm evil",
    ...repositories.map(
      (repository) =>
        `git -C ${repository} update-ref refs/heads/main $(git rev-parse HEAD); git -C ${repository} update-ref -d HEAD`,
    ),
    ...[".git", ...repositories].flatMap((repository) => plantHooks(repository, `${volume}/cache/hooked`)),
    "echo '* filter=evil merge=evil' > .gitattributes",
  ];
  const destroy = (repositories: readonly string[]): string[] => [
    `rm -rf ${repositories.join(" ")}`,
    "rm -rf .git; echo gitdir: /nowhere > .git",
  ];
  const harmOthers = (volume: string, data: string): string[] => [
    `for tree in ../victim.* ${volume}/trees/*/victim.*; do echo evil > $tree/evil; rm -rf $tree/victim $tree/.git; done`,
    `rm -rf ${volume}/.guest ${data}/postgres* ${data}/volumes ${data}/sandboxes`,
  ];

  /** Each line is tried, and none fails its task. */
  const tried = (lines: readonly string[]): string =>
    lines.map((line) => `( ${line} ) > /dev/null 2>&1 || true`).join("\n");

  const plan = (harm: { first: readonly string[]; later: readonly string[] }) => ({
    limits: { maxParallelTasks: 2 },
    tasks: [
      {
        id: "victim",
        run: `echo mine > victim; touch ../../../cache/ready
while ! test -e ../../../cache/done; do sleep 0.05; done
cat victim > copy`,
        retries: 0,
      },
      {
        id: "hostile",
        run: `while ! test -e ../../../cache/ready; do sleep 0.05; done
echo work > work
${tried(harm.first)}
touch ../../../cache/done`,
        retries: 0,
      },
      {
        id: "next",
        dependsOn: ["victim", "hostile"],
        run: `cat copy work > next; rm .gitattributes\n${tried(harm.later)}`,
        retries: 0,
      },
      { id: "last", dependsOn: ["next"], run: "cp next last", retries: 0 },
    ],
  });

  it.runIf(requires("bubblewrap"))("harms nothing but its own tree in a sandbox", async () => {
    fixture = await createBuildFixture({ sandbox: "local" });
    const { dataDir } = fixture.app.config;
    const authority = fixture.app.ports.workspace.repositoryPath(fixture.projectId as never);
    const repositories = ["/workspace/repo", "/workspace/repo/.git", authority];
    const first = [...harmOthers("/workspace", dataDir), ...meddle("/workspace", repositories)];
    await holds(await fixture.build(plan({ first, later: destroy(repositories) })));
  });

  it("harms no work by what it does to the repositories of its volume where nothing keeps it from it", async () => {
    fixture = await createBuildFixture({ sandbox: "local-unsafe" });
    const volume = join(fixture.app.config.dataDir, "volumes", fixture.projectId);
    const repositories = [`${volume}/repo`, `${volume}/repo/.git`];
    await holds(await fixture.build(plan({ first: meddle(volume, repositories), later: destroy(repositories) })));
  });

  /** All work is in main, no hook was run by anybody, and the refs are those that a build makes. */
  async function holds(build: BuildRow): Promise<void> {
    expect([build.status, build.reason]).toEqual(["completed", null]);
    const files = (await fixture.git("ls-tree", "-r", "--name-only", "main")).trim().split("\n");
    expect(files).toEqual(["copy", "last", "next", "victim", "work"]);
    expect(await fixture.git("show", "main:last")).toBe("mine\nwork\n");
    const { dataDir } = fixture.app.config;
    expect(existsSync(join(dataDir, "volumes", fixture.projectId, "cache", "hooked"))).toBe(false);
    const refs = (await fixture.git("for-each-ref", "--format=%(refname)")).trim().split("\n");
    expect(
      refs.filter((ref) => !/^refs\/(heads\/main$|heads\/wavesmith\/|tags\/wavesmith-restore\/)/.test(ref)),
    ).toEqual([]);
  }
});
