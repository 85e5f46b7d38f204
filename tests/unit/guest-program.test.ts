import { execFileSync } from "node:child_process";
import { mkdtempSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { guestProgram } from "../../src/sandbox/guest/guest-program.ts";

describe("the guest's program", () => {
  let folder: string;
  beforeEach(() => {
    folder = mkdtempSync(join(tmpdir(), "wavesmith-guest-test-"));
  });
  afterEach(() => rmSync(folder, { recursive: true, force: true }));

  it("is bundled once per content, even if several ask at once", async () => {
    const cache = join(folder, "cache");
    const paths = await Promise.all([guestProgram(cache), guestProgram(cache), guestProgram(cache)]);
    expect(new Set(paths).size).toBe(1);
    expect(await guestProgram(join(folder, "other"))).toBe(paths[0]);
    const programs = ["agent-host.mjs", "builtin-agent.mjs", "guest.mjs"];
    expect(readdirSync(dirname(paths[0] ?? "")).sort()).toEqual(programs);
  });

  it("has the same bytes when the build script bundles it, because the image's label is a hash of them", async () => {
    const made = join(folder, "made");
    // Anybody may call it from anywhere, and the bundles hold paths of their sources.
    const script = new URL("../../scripts/bundle-programs.mjs", import.meta.url).href;
    const code = `import(${JSON.stringify(script)}).then(({ bundlePrograms }) => bundlePrograms(${JSON.stringify(made)}))`;
    execFileSync(process.execPath, ["-e", code], { cwd: folder });
    const bundled = dirname(await guestProgram(join(folder, "cache")));
    for (const name of readdirSync(bundled)) {
      expect(readFileSync(join(made, name)).equals(readFileSync(join(bundled, name))), name).toBe(true);
    }
  });

  it("needs only Node", async () => {
    const text = readFileSync(await guestProgram(folder), "utf8");
    const imported = [...text.matchAll(/^import .* from "(.*)";$/gm)].map((found) => found[1] ?? "");
    expect(imported.length).toBeGreaterThan(5);
    expect(imported.filter((name) => !name.startsWith("node:"))).toEqual([]);
  });
});
