import { describe, expect, test } from "vitest";
import { setupInputs } from "../../src/domain/plan/setup-inputs.ts";

describe("the inputs of a setup", () => {
  test.each([
    ["npm ci", ["package-lock.json", "npm-shrinkwrap.json"]],
    ["npm ci --no-audit --ignore-scripts", ["package-lock.json", "npm-shrinkwrap.json"]],
    ["npm install", ["package.json"]],
    ["pnpm install --frozen-lockfile", ["package.json"]],
    ["go mod download", ["go.mod"]],
    [".venv/bin/pip install -q -r requirements.txt", ["requirements.txt"]],
    ["python3 -m pip install -r dev/requirements.txt", ["dev/requirements.txt"]],
    ["sh ./scripts/setup.sh --all", ["scripts/setup.sh"]],
    ["./setup.sh", ["setup.sh"]],
  ])("%s: one of %j", (run, anyOf) => {
    expect(setupInputs(run)).toEqual([{ command: run, anyOf }]);
  });

  test("are listed for each of its commands", () => {
    const found = setupInputs("python3 -m venv .venv && .venv/bin/pip install -r requirements.txt\nnpm ci");
    expect(found.map(({ anyOf }) => anyOf[0])).toEqual(["requirements.txt", "package-lock.json"]);
  });

  test.each([
    "npm install left-pad",
    "npm install -g pnpm",
    "npm ci --prefix web",
    "cd web && npm ci",
    "if test -e package-lock.json; then npm ci; fi",
    "[ -e package.json ] && npm install",
    "npm init -y && npm install",
    "echo '{}' > package.json; npm install",
    "mkdir -p node_modules",
    "make deps",
    "sh /opt/setup.sh",
  ])("is not guessed: %s", (run) => {
    expect(setupInputs(run)).toEqual([]);
  });
});
