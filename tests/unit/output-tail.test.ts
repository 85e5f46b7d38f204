import { expect, it } from "vitest";
import { withoutUsage } from "../../src/domain/gate/output-tail.ts";

it("keeps npm's error and leaves out its usage", () => {
  const usage = ["Usage:", "npm ci", "", "Options:", "[--no-audit]", "", "  --omit", "    Dependency types to omit"];
  const lines = [
    "making the tree ready",
    "npm error code EUSAGE",
    "npm error",
    "npm error The `npm ci` command can only install with an existing package-lock.json",
    ...usage.map((line) => `npm error ${line}`.trimEnd()),
    'npm error Run "npm help ci" for more info',
    "npm error A complete log of this run can be found in: /tmp/log",
    "usage: of something else",
  ];
  expect(withoutUsage(lines)).toEqual([...lines.slice(0, 4), ...lines.slice(4 + usage.length)]);
  expect(withoutUsage(["npm error Usage:", "npm error x", "another program"])).toEqual(["another program"]);
});
