import { mkdirSync, mkdtempSync, realpathSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { findTools } from "../../src/sandbox/drivers/local/tool-roots.ts";

let root = "";
let home = "";
beforeEach(() => {
  root = realpathSync(mkdtempSync(join(tmpdir(), "wavesmith-tools-")));
  home = join(root, "home");
  mkdirSync(home);
});
afterEach(() => rmSync(root, { recursive: true, force: true }));

const folder = (path: string) => {
  mkdirSync(join(home, path), { recursive: true });
  return join(home, path);
};
const file = (path: string) => {
  folder(dirname(path));
  writeFileSync(join(home, path), "");
  return join(home, path);
};
const tools = (PATH: string, readOnly: string[] = []) =>
  findTools({ PATH, HOME: home, execPath: "/usr/bin/env", readOnly, dataDir: join(home, "work/.wavesmith") });
const sourcesOf = (PATH: string) => tools(PATH).shown.map(({ source }) => source);

describe("the folders a sandbox shows", () => {
  it("are a version's whole folder for nvm, and the manager's for shims", () => {
    const nvm = folder(".nvm/versions/node/v20.1.0/bin");
    const pyenv = folder(".pyenv/shims");
    expect(sourcesOf(`${nvm}:${pyenv}:/usr/bin`)).toEqual([join(home, ".pyenv"), dirname(nvm)]);
    expect(tools(`${nvm}:${pyenv}:/usr/bin`).path).toBe(`${nvm}:${pyenv}:/usr/bin`);
  });

  it("are only a folder of programs if the folder above may hold credentials or is the home", () => {
    const bins = [folder(".local/bin"), folder(".cargo/bin"), folder("bin")];
    expect(sourcesOf(bins.join(":")).sort()).toEqual([...bins].sort());
  });

  it("show only a folder of programs if it is in somebody's project", () => {
    const bin = folder("project/bin");
    file("project/.git/config");
    expect(sourcesOf(bin)).toEqual([bin]);
    const conda = folder("miniconda3/bin");
    folder("miniconda3/lib");
    expect(sourcesOf(conda)).toEqual([dirname(conda)]);
  });

  it("are never the home, a folder above it, the data folder, or a folder known for credentials", () => {
    folder(".ssh/bin");
    folder("work/.wavesmith/bin");
    const path = [home, root, "/", join(home, ".ssh"), join(home, ".ssh/bin"), join(home, "work/.wavesmith/bin")].join(
      ":",
    );
    expect(tools(path).shown).toEqual([]);
    expect(tools(path).path).toBe("/usr/bin");
  });

  it("leave out npm's script folders, relative folders and missing folders", () => {
    const bin = folder("app/node_modules/.bin");
    expect(tools(`${bin}:node_modules/.bin:${home}/none:/usr/bin`)).toEqual({ shown: [], path: "/usr/bin" });
  });

  it("include the targets of links in a folder of programs", () => {
    const bin = folder(".local/bin");
    symlinkSync(file(".local/share/pipx/venvs/black/bin/black"), join(bin, "black"));
    symlinkSync(file(".local/share/agent/versions/2.0"), join(bin, "agent"));
    symlinkSync(file(".ssh/id"), join(bin, "stolen"));
    symlinkSync(file("Documents/letter"), join(bin, "letter"));
    expect(sourcesOf(bin).sort()).toEqual(
      [
        bin,
        join(home, ".local/share/pipx/venvs/black"),
        join(home, ".local/share/agent/versions/2.0"),
        join(home, "Documents/letter"),
      ].sort(),
    );
  });

  it("are shown where PATH says they are, even if a link is on the way", () => {
    folder(".nvm/versions/v20/bin");
    symlinkSync(join(home, ".nvm/versions/v20"), join(home, ".nvm/current"));
    const { shown, path } = tools(join(home, ".nvm/current/bin"));
    expect(shown).toContainEqual({ source: join(home, ".nvm/versions/v20"), target: join(home, ".nvm/current") });
    expect(path).toBe(`${home}/.nvm/current/bin:/usr/bin`);
  });

  it("put rustup's toolchain itself on PATH, because its proxies would look for it in the home", () => {
    const bin = dirname(file(".cargo/bin/rustup"));
    const toolchain = dirname(folder(".rustup/toolchains/stable-x/bin"));
    writeFileSync(join(home, ".rustup/settings.toml"), 'version = "12"\ndefault_toolchain = "stable-x"\n');
    expect(tools(bin).path).toBe(`${toolchain}/bin:${bin}:/usr/bin`);
    expect(sourcesOf(bin)).toContain(toolchain);
  });

  it("include those of the setting, and refuse the ones that hold credentials", () => {
    const named = folder("datasets");
    expect(tools("/usr/bin", [named]).shown).toEqual([{ source: named, target: named }]);
    file("other/.npmrc");
    symlinkSync(home, join(root, "alias"));
    const refused = [
      "/",
      home,
      root,
      "/etc",
      "relative",
      join(home, "none"),
      join(root, "alias"),
      join(home, "other"),
      join(home, "work"),
    ];
    folder("work/.wavesmith");
    for (const name of refused) expect(() => tools("/usr/bin", [name]), name).toThrow(/sandbox\.readOnly names/);
  });
});
