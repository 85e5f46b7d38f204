import { expect, it } from "vitest";
import { eachBuildFixture } from "../support/build-fixture.ts";

// The view of a wave's changes that the gates' agents get, in whole builds.

const fixture = eachBuildFixture();
/** A program applied to the task file: `diff` is the wave's changes. */
const onDiff = (script: string): string =>
  `node -e 'const { diff } = JSON.parse(require("fs").readFileSync(process.env.WAVESMITH_TASK_FILE, "utf8")); ${script}'`;
const command = (script: string) => ({ runtime: "command", command: onDiff(script) });

it("a fixer has the diff of the wave whose gate failed", async () => {
  const fixer = command('if (diff.includes("+broken line")) require("fs").writeFileSync("work.txt", "whole\\n")');
  const { status, id } = await fixture.build({
    agents: { fixer },
    gates: {
      testing: { command: "echo 1..1; grep -q whole work.txt && echo ok 1 || { echo not ok 1; exit 1; }" },
      integration: false,
    },
    tasks: [{ id: "work", run: "echo broken line > work.txt" }],
  });
  expect(status).toBe("completed");
  expect(await fixture.git("show", "main:work.txt")).toBe("whole\n");
  expect(await fixture.app.store.attempts.list({ buildId: id, kind: "fix" })).toMatchObject([{ outcome: "succeeded" }]);
});

it("a critic has the diff without its lock files", async () => {
  const script = `const seen = diff.includes("b/code.txt") && !diff.includes("left-pad");
    const findings = seen ? [] : [{ title: "wrong diff", body: diff, severity: "critical", confidence: 1 }];
    require("fs").writeFileSync(process.env.WAVESMITH_RESULT_FILE, JSON.stringify({ findings }));`;
  const { status, reason } = await fixture.build({
    agents: { critic: command(script) },
    gates: { testing: false, integration: false, maxFixRounds: 0 },
    tasks: [
      {
        id: "work",
        run: "echo code > code.txt; echo '{ \"left-pad\": 1 }' > package-lock.json; mkdir p; echo left-pad > p/yarn.lock",
      },
    ],
  });
  expect([status, reason]).toEqual(["completed", null]);
});
