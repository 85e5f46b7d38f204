import { execFileSync } from "node:child_process";
import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createLocalForge } from "../../src/forge/local.ts";
import { forgeContract } from "./forge.ts";

forgeContract("local", async () => {
  const folder = mkdtempSync(join(tmpdir(), "wavesmith-forge-"));
  const pathOf = (name: string, ...rest: string[]): string => join(folder, `${name}.git`, ...rest);
  let count = 0;
  return {
    forge: createLocalForge(folder, process.env),
    newName: () => {
      count += 1;
      return `team/app-${count}`;
    },
    writesFiles: false,
    async closeRequest({ name }, number) {
      const file = pathOf(name, "wavesmith", "requests", `${number}.json`);
      writeFileSync(file, JSON.stringify({ ...JSON.parse(readFileSync(file, "utf8")), state: "closed" }));
    },
    async commit({ name }, branch) {
      const identity = ["-c", "user.name=p", "-c", "user.email=p@example.org"];
      const git = (...args: string[]): string =>
        execFileSync("git", ["-C", pathOf(name), ...identity, ...args])
          .toString()
          .trim();
      const sha = git("commit-tree", `${branch}^{tree}`, "-p", branch, "-m", "A person's");
      git("update-ref", `refs/heads/${branch}`, sha);
      return sha;
    },
    async counts({ name }) {
      const files = (kind: string) =>
        readdirSync(pathOf(name, "wavesmith", kind)).map((file) =>
          JSON.parse(readFileSync(pathOf(name, "wavesmith", kind, file), "utf8")),
        );
      const requests = files("requests");
      const comments = requests.flatMap((request) => Object.keys(request.comments));
      return {
        requests: requests.length,
        comments: comments.length,
        checks: files("checks").flatMap(Object.keys).length,
      };
    },
    stop: async () => rmSync(folder, { recursive: true, force: true }),
  };
});
