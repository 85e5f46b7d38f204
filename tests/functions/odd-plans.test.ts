import { execFileSync } from "node:child_process";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { eachBuildFixture } from "../support/build-fixture.ts";

describe("a plan with odd names", () => {
  const fixture = eachBuildFixture();

  it("may name roles and tasks like parts of the language, in any script", async () => {
    const key = "k".repeat(100);
    const build = await fixture.build({
      agents: { constructor: { runtime: "command", command: "cat > prompt; echo done" } },
      tasks: [
        { id: "constructor", agent: "constructor", title: "Größe 日本語 🦀", instructions: "本".repeat(100_000) },
        { id: "prototype", dependsOn: ["constructor"], run: "echo p > p" },
        { id: key, dependsOn: ["constructor"], title: "t".repeat(150), run: "echo k > k" },
      ],
    });
    expect([build.status, build.reason]).toEqual(["completed", null]);
    const subject = await fixture.git("log", "-1", "--format=%s%n%an", `wavesmith/${build.id}/task/constructor/1`);
    expect(subject).toBe("Größe 日本語 🦀\nconstructor agent\n");
    expect(await fixture.git("show", `wavesmith/${build.id}/task/${key}/1:k`)).toBe("k\n");
  });

  it("starts from a repository's default branch, whatever its name", async () => {
    const folder = mkdtempSync(join(tmpdir(), "wavesmith-source-"));
    try {
      const git = (...args: string[]) =>
        execFileSync("git", ["-C", folder, "-c", "user.name=a", "-c", "user.email=a@example.com", ...args]);
      git("init", "-q", "-b", "trunk");
      writeFileSync(join(folder, "seed"), "seed\n");
      git("add", "-A");
      git("commit", "-q", "-m", "Seed");
      const build = await fixture.build({
        source: { git: folder },
        tasks: [{ id: "a", run: "cat seed > a" }],
      });
      expect([build.status, build.reason]).toEqual(["completed", null]);
      expect(await fixture.git("show", "main:a")).toBe("seed\n");
    } finally {
      rmSync(folder, { recursive: true, force: true });
    }
  });
});
