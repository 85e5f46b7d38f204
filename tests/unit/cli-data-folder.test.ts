import { mkdirSync, mkdtempSync, realpathSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { findDataFolder } from "../../src/cli/data/data-folder.ts";

describe("the data directory", () => {
  let folder = "";
  const at = (...path: string[]): string => join(folder, ...path);
  beforeEach(() => {
    folder = realpathSync(mkdtempSync(join(tmpdir(), "wavesmith-data-")));
    mkdirSync(at("repo", "packages", "api"), { recursive: true });
  });
  afterEach(() => rmSync(folder, { recursive: true, force: true }));

  it("is the nearest .wavesmith at or above the current folder", () => {
    expect(findDataFolder(at("repo", "packages"))).toBe(at("repo", "packages", ".wavesmith"));
    mkdirSync(at("repo", ".wavesmith"));
    expect(findDataFolder(at("repo", "packages", "api"))).toBe(at("repo", ".wavesmith"));
    mkdirSync(at("repo", "packages", ".wavesmith"));
    expect(findDataFolder(at("repo", "packages", "api"))).toBe(at("repo", "packages", ".wavesmith"));
  });

  it("is at the top of the git repository, and never above it", () => {
    mkdirSync(at(".wavesmith"));
    mkdirSync(at("repo", ".git"));
    expect(findDataFolder(at("repo", "packages", "api"))).toBe(at("repo", ".wavesmith"));
    mkdirSync(at("tree"));
    writeFileSync(at("tree", ".git"), "gitdir: ../repo/.git/worktrees/tree\n");
    expect(findDataFolder(at("tree"))).toBe(at("tree", ".wavesmith"));
  });

  it("is not a file of that name", () => {
    writeFileSync(at("repo", ".wavesmith"), "");
    expect(findDataFolder(at("repo", "packages"))).toBe(at("repo", "packages", ".wavesmith"));
  });
});
