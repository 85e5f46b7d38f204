import { execFileSync } from "node:child_process";
import {
  chmodSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  symlinkSync,
  truncateSync,
  writeFileSync,
} from "node:fs";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { createWorkspace } from "../../src/workspace/workspace.ts";
import {
  author,
  createWorkspaceFixture,
  gitIn,
  project,
  someDate,
  type WorkspaceFixture,
  writeFiles,
} from "../support/workspace-fixture.ts";

const tree = "trees/bld_x/api.1";
const ref = `refs/heads/wavesmith/${tree}`;

let fixture: WorkspaceFixture;
let base: string;
let marker: string;
beforeEach(async () => {
  fixture = await createWorkspaceFixture();
  const main = fixture.git("rev-parse", "refs/heads/main");
  base = fixture.commit(main, { "a.txt": "one\ntwo\n", "dir/b.txt": "b\n", ".gitignore": "dist/\n*.log\n" });
  marker = join(fixture.folder, "marker");
  await fixture.open(tree, base);
});
afterEach(() => fixture.dispose());

const at = (...path: string[]) => fixture.at(tree, ...path);
const keep = () => fixture.keep(tree, base);
const baseFiles = { "a.txt": "one\ntwo\n", "dir/b.txt": "b\n", ".gitignore": "dist/\n*.log\n" };

async function keptFiles(): Promise<Record<string, string>> {
  const { commit, refused } = await keep();
  expect(refused).toEqual([]);
  return fixture.filesOf(commit!);
}

describe("keeping a tree", () => {
  test("commits the changes to its base, under the request's name, date and message", async () => {
    writeFiles(fixture.at(tree), { "a.txt": "one\n2\n", "new/ü.txt": "new\n", "dir/b.txt": null });
    const kept = await keep();
    expect(kept.changed).toEqual([
      { path: "a.txt", status: "modified", from: null, addedLines: 1, deletedLines: 1, binary: false },
      { path: "dir/b.txt", status: "deleted", from: null, addedLines: 0, deletedLines: 1, binary: false },
      { path: "new/ü.txt", status: "added", from: null, addedLines: 1, deletedLines: 0, binary: false },
    ]);
    expect(fixture.git("rev-parse", ref, `${ref}^`)).toBe(`${kept.commit}\n${base}`);
    const seconds = someDate.getTime() / 1000;
    expect(fixture.git("log", "-1", "--format=%an|%ae|%at|%cn|%ce|%ct|%B", ref)).toBe(
      `backend|backend@wavesmith.invalid|${seconds}|backend|backend@wavesmith.invalid|${seconds}|Work\n\nTask: api\n`,
    );
    expect(fixture.git("fsck", "--strict", "--no-dangling")).toBe("");
  });

  test("returns null and makes no ref if nothing differs", async () => {
    writeFiles(fixture.at(tree), {
      "a.txt": "one\ntwo\n",
      "dist/out": "x",
      "debug.log": "x",
      "node_modules/m/x.js": "x",
    });
    expect(await keep()).toEqual({ commit: null, changed: [], refused: [] });
    expect(await fixture.workspace.resolve(project, ref)).toBeNull();
  });

  test("repeated gives the same SHA, even from another process and another tree", async () => {
    writeFiles(fixture.at(tree), { "a.txt": "changed\n" });
    const first = await keep();
    expect(await keep()).toEqual(first);
    const other = createWorkspace({ dataDir: fixture.dataDir, env: process.env });
    await fixture.open("trees/bld_x/api.2", base);
    writeFiles(fixture.at("trees/bld_x/api.2"), { "a.txt": "changed\n" });
    const request = {
      projectId: project,
      guest: fixture.guest,
      base,
      message: "Work\n\nTask: api\n",
      author,
      date: someDate,
    };
    const again = await other.keepTree({ ...request, treePath: "trees/bld_x/api.2", ref: "refs/heads/again" });
    expect(again.commit).toBe(first.commit);
  });

  test("needs nothing from before a reboot", async () => {
    writeFiles(fixture.at(tree), { "a.txt": "changed\n" });
    const keepFolder = fixture.at("keep", readdirSync(fixture.at("keep"))[0]!, "git");
    writeFileSync(join(keepFolder, "boot"), "4d5a-another-boot\n");
    // As a power cut leaves them.
    for (const name of ["index", "config", "HEAD", "info/exclude", "objects/info/alternates"])
      truncateSync(join(keepFolder, name));
    const { changed } = await keep();
    expect(changed.map(({ path, status }) => [path, status])).toEqual([["a.txt", "modified"]]);
    expect(fixture.git("show", `${ref}:a.txt`)).toBe("changed");
  });

  test("twice at once has the same result as once", async () => {
    writeFiles(fixture.at(tree), { "a.txt": "changed\n" });
    const [one, two] = await Promise.all([keep(), keep()]);
    expect(one).toEqual(two);
  });

  test("sees a change of the same length made at the moment the tree was opened", async () => {
    for (let round = 0; round < 5; round += 1) {
      const path = `trees/bld_x/racy.${round}`;
      await fixture.open(path, base);
      writeFileSync(fixture.at(path, "a.txt"), "ONE\nTWO\n");
      expect((await fixture.keep(path, base)).commit).not.toBeNull();
    }
  });

  test("gives the same SHA for a name that git tidies, and for a message with odd bytes", async () => {
    writeFiles(fixture.at(tree), { "a.txt": "changed\n" });
    const more = {
      author: { name: " The <Agent>. ", email: "a@b" },
      message: "Zwölf 'quotes' $(id)\n\n-- \u0000 %s\n\n\n",
    };
    const first = await fixture.keep(tree, base, more);
    expect(await fixture.keep(tree, base, more)).toEqual(first);
    expect(fixture.git("log", "-1", "--format=%an|%s", ref)).toBe("The Agent|Zwölf 'quotes' $(id)");
  });

  test("leaves out the build folder of Cargo, and keeps a folder of that name elsewhere", async () => {
    writeFiles(fixture.at(tree), { "Cargo.toml": "[package]\n", "target/o": "o", "src/target/mine.rs": "mine\n" });
    expect(await keptFiles()).toEqual({ ...baseFiles, "Cargo.toml": "[package]\n", "src/target/mine.rs": "mine\n" });
  });

  test("does not move a ref with other work", async () => {
    writeFiles(fixture.at(tree), { "a.txt": "changed\n" });
    const { commit } = await keep();
    writeFiles(fixture.at(tree), { "a.txt": "changed again\n" });
    await expect(keep()).rejects.toMatchObject({ code: "conflict" });
    expect(await fixture.workspace.resolve(project, ref)).toBe(commit);
  });

  test.each(["keep.bundled", "keep.received", "keep.moved"])(
    "repeats with the same SHA after a crash at %s",
    async (point) => {
      writeFiles(fixture.at(tree), { "a.txt": "changed\n" });
      const reached: string[] = [];
      const crashPoint = (name: string) => {
        reached.push(name);
        if (name === point) throw new Error(`crash at ${name}`);
      };
      const crashing = createWorkspace({ dataDir: fixture.dataDir, env: process.env, crashPoint });
      const request = {
        projectId: project,
        guest: fixture.guest,
        treePath: tree,
        base,
        message: "Work\n\nTask: api\n",
        author,
        date: someDate,
        ref,
      };
      await expect(crashing.keepTree(request)).rejects.toThrow(`crash at ${point}`);
      expect(reached.at(-1)).toBe(point);
      const redone = await keep();
      expect(await fixture.workspace.resolve(project, ref)).toBe(redone.commit);
      expect(fixture.filesOf(redone.commit!)["a.txt"]).toBe("changed\n");
    },
  );

  test("works after the volume's repository was lost", async () => {
    writeFiles(fixture.at(tree), { "a.txt": "changed\n" });
    rmSync(fixture.at("repo"), { recursive: true });
    expect((await keptFiles())["a.txt"]).toBe("changed\n");
  });

  test("works without the files that were recorded when the tree was opened", async () => {
    writeFiles(fixture.at(tree), { "a.txt": "changed\n" });
    rmSync(fixture.at("keep"), { recursive: true });
    expect((await keptFiles())["a.txt"]).toBe("changed\n");
  });

  test("reports a missing tree, and never mistakes it for deletions", async () => {
    rmSync(fixture.at(tree), { recursive: true });
    await expect(keep()).rejects.toMatchObject({ code: "not-found" });
    await expect(keep()).rejects.toMatchObject({ code: "not-found" });
    expect(await fixture.workspace.resolve(project, ref)).toBeNull();
  });

  test("takes twenty thousand files, and reads only the changed ones", { timeout: 180_000 }, async () => {
    const files = Object.fromEntries(
      Array.from({ length: 20_000 }, (_, index) => [`many/${index % 200}/${index}.txt`, `${index}\n`]),
    );
    writeFiles(fixture.at(tree), files);
    const first = await keep();
    expect(first.changed).toHaveLength(20_000);
    await fixture.open("trees/bld_x/api.2", first.commit!);
    writeFiles(fixture.at("trees/bld_x/api.2"), { "many/7/7.txt": "seven\n" });
    const second = await fixture.keep("trees/bld_x/api.2", first.commit!);
    expect(second.changed.map((change) => change.path)).toEqual(["many/7/7.txt"]);
  });
});

describe("changes by an agent's own git", () => {
  test("does not matter: commits, branches and resets keep the same work", async () => {
    writeFiles(fixture.at(tree), { "a.txt": "mine\n" });
    gitIn(at(), "commit", "-q", "-a", "-m", "Agent's commit");
    gitIn(at(), "checkout", "-q", "-b", "elsewhere");
    gitIn(at(), "update-ref", "refs/heads/task", "HEAD~1");
    gitIn(at(), "commit", "-q", "--amend", "--no-edit", "--author", "Evil <e@v>");
    writeFiles(fixture.at(tree), { "more.txt": "more\n" });
    expect(await keptFiles()).toEqual({ ...baseFiles, "a.txt": "mine\n", "more.txt": "more\n" });
    expect(fixture.git("rev-list", "--count", `${base}..${ref}`)).toBe("1");
    expect(fixture.git("for-each-ref", "--format=%(refname)")).toBe(`refs/heads/main\n${ref}`);
  });

  test("does not matter when its .git is gone, or no longer a folder", async () => {
    writeFiles(fixture.at(tree), { "a.txt": "mine\n" });
    rmSync(at(".git"), { recursive: true });
    expect((await keptFiles())["a.txt"]).toBe("mine\n");
    writeFileSync(at(".git"), "gitdir: /etc\n");
    expect((await keptFiles())["a.txt"]).toBe("mine\n");
    rmSync(at(".git"));
    symlinkSync("/nowhere", at(".git"));
    expect((await keptFiles())["a.txt"]).toBe("mine\n");
  });

  test("keeps ignored files that were force-added or committed, and drops deleted ones", async () => {
    writeFiles(fixture.at(tree), {
      "dist/app.js": "app\n",
      "-rf.log": "log\n",
      "gone.log": "gone\n",
      "dist/other": "x",
      "odd\nname.log": "odd\n",
    });
    gitIn(at(), "add", "-f", "--", "dist/app.js", "-rf.log", "gone.log", "odd\nname.log");
    gitIn(at(), "commit", "-q", "-m", "Ignored ones");
    rmSync(at("gone.log"));
    expect(await keptFiles()).toEqual({
      ...baseFiles,
      "dist/app.js": "app\n",
      "-rf.log": "log\n",
      "odd\nname.log": "odd\n",
    });
  });

  test("does not fail on a corrupt index", async () => {
    writeFiles(fixture.at(tree), { "a.txt": "mine\n" });
    writeFileSync(at(".git/index"), "DIRC nonsense");
    expect((await keptFiles())["a.txt"]).toBe("mine\n");
    rmSync(at(".git/index"));
    symlinkSync("/etc/passwd", at(".git/index"));
    expect((await keptFiles())["a.txt"]).toBe("mine\n");
  });

  test("hides nothing with assume-unchanged, skip-worktree, its own excludes or sparse checkouts", async () => {
    writeFiles(fixture.at(tree), { "a.txt": "mine\n", "new.txt": "new\n" });
    gitIn(at(), "update-index", "--assume-unchanged", "a.txt");
    gitIn(at(), "update-index", "--skip-worktree", "dir/b.txt");
    writeFileSync(at(".git/info/exclude"), "*\n");
    expect(await keptFiles()).toEqual({ ...baseFiles, "a.txt": "mine\n", "new.txt": "new\n" });
  });

  test("runs no hook, filter, fsmonitor, diff driver or alias that the agent set up", async () => {
    const evil = join(fixture.folder, "evil");
    writeFileSync(evil, `#!/bin/sh\ntouch ${marker}\ncat\n`, { mode: 0o755 });
    for (const hook of [
      "pre-commit",
      "post-commit",
      "post-checkout",
      "reference-transaction",
      "post-index-change",
      "fsmonitor-watchman",
    ]) {
      mkdirSync(at(".git/hooks"), { recursive: true });
      writeFileSync(at(".git/hooks", hook), readFileSync(evil), { mode: 0o755 });
    }
    for (const [name, value] of [
      ["core.fsmonitor", evil],
      ["core.hooksPath", at(".git/hooks")],
      ["filter.evil.clean", evil],
      ["filter.evil.smudge", evil],
      ["filter.evil.process", evil],
      ["diff.evil.command", evil],
      ["core.sshCommand", evil],
      ["alias.add", `!${evil}`],
      ["core.pager", evil],
      ["core.worktree", fixture.folder],
    ] as const) {
      execFileSync("git", ["config", "-f", at(".git/config"), name, value]);
    }
    writeFiles(fixture.at(tree), { ".gitattributes": "* filter=evil diff=evil\n", "a.txt": "mine\n" });
    expect(await keptFiles()).toEqual({
      ...baseFiles,
      ".gitattributes": "* filter=evil diff=evil\n",
      "a.txt": "mine\n",
    });
    await fixture.open("trees/bld_x/next.1", fixture.git("rev-parse", ref));
    expect(existsSync(marker)).toBe(false);
  });
});

describe("odd trees", () => {
  test("names with newlines, quotes, leading dashes and invalid UTF-8 are kept", async () => {
    const names = [
      'say "hi"',
      "two\nlines",
      "-rf",
      "--force",
      "a\tb",
      "*",
      ":(exclude)a",
      "ü",
      "back\\slash",
      " ",
      "$(touch x)",
      "'",
    ];
    writeFiles(fixture.at(tree), Object.fromEntries(names.map((name) => [name, `${name}!`])));
    writeFileSync(Buffer.concat([Buffer.from(`${at()}/`), Buffer.from([0xff, 0xfe])]), "bytes");
    const { commit, changed, refused } = await keep();
    expect(refused).toEqual([]);
    expect(changed).toHaveLength(names.length + 1);
    for (const name of names) {
      expect((await fixture.workspace.readBlob(project, commit!, name))?.toString()).toBe(`${name}!`);
    }
  });

  test("symlinks are kept as links, loops and those that leave the tree included", async () => {
    symlinkSync("loop", at("loop"));
    symlinkSync("/etc/passwd", at("absolute"));
    symlinkSync("../../..", at("dir/up"));
    rmSync(at("a.txt"));
    symlinkSync("dir", at("a.txt"));
    const files = await keptFiles();
    expect(files).toMatchObject({ loop: "loop", absolute: "/etc/passwd", "dir/up": "../../..", "a.txt": "dir" });
    expect(
      (await fixture.workspace.listFiles(project, fixture.git("rev-parse", ref))).filter(
        (file) => file.mode === "120000",
      ),
    ).toHaveLength(4);
  });

  test("a folder in a file's place and a file in a folder's are kept", async () => {
    writeFiles(fixture.at(tree), { "a.txt": null, dir: null });
    writeFiles(fixture.at(tree), { "a.txt/inner": "inner\n", dir: "file\n" });
    expect(await keptFiles()).toEqual({
      ".gitignore": baseFiles[".gitignore"],
      "a.txt/inner": "inner\n",
      dir: "file\n",
    });
  });

  test("bytes are kept unchanged, whatever attributes say", async () => {
    const attributes = "* text eol=crlf ident\n*.u16 working-tree-encoding=UTF-16\n";
    writeFiles(fixture.at(tree), {
      ".gitattributes": attributes,
      "crlf.txt": "a\r\nb\n",
      "x.u16": "not utf-16 \u0001",
      id: "$Id: x $\n",
    });
    const files = await keptFiles();
    expect(files).toMatchObject({ "crlf.txt": "a\r\nb\n", "x.u16": "not utf-16 \u0001", id: "$Id: x $\n" });
    await fixture.open("trees/bld_x/api.2", fixture.git("rev-parse", ref));
    expect(readFileSync(fixture.at("trees/bld_x/api.2/crlf.txt"), "utf8")).toBe("a\r\nb\n");
    expect((await fixture.keep("trees/bld_x/api.2", fixture.git("rev-parse", ref))).commit).toBeNull();
  });

  test("executable bits are kept", async () => {
    chmodSync(at("a.txt"), 0o755);
    const { changed } = await keep();
    expect(changed).toMatchObject([{ path: "a.txt", status: "modified" }]);
    expect(fixture.git("ls-tree", ref, "a.txt")).toMatch(/^100755/);
  });

  test("a file above 50 MiB is refused by name, a tracked one keeps its last version, and the rest is kept", async () => {
    writeFiles(fixture.at(tree), { "big.bin": "", "dist/ignored.bin": "", "ok.txt": "ok\n" });
    for (const name of ["big.bin", "dist/ignored.bin", "a.txt"]) truncateSync(at(name), 51 * 1024 * 1024);
    const { commit, refused } = await keep();
    expect(refused.sort()).toEqual(["a.txt: larger than 50 MiB", "big.bin: larger than 50 MiB"]);
    expect(fixture.filesOf(commit!)).toEqual({ ...baseFiles, "ok.txt": "ok\n" });
    expect(statSync(at("big.bin")).size).toBe(51 * 1024 * 1024);
  });

  test("repositories inside the tree are kept as plain files and named", async () => {
    const make = (folder: string, files: Record<string, string>, commit: boolean) => {
      mkdirSync(at(folder), { recursive: true });
      gitIn(at(folder), "init", "-q");
      writeFiles(at(folder), files);
      if (!commit) return;
      gitIn(at(folder), "add", "-A");
      gitIn(at(folder), "commit", "-q", "-m", "Inner");
    };
    make("lib", { "l.txt": "lib\n", ".gitignore": "*.o\n", "x.o": "o", "big.bin": "" }, true);
    truncateSync(at("lib/big.bin"), 51 * 1024 * 1024);
    make("lib/deep", { "d.txt": "deep\n" }, true);
    make("fresh", { "f.txt": "fresh\n" }, false);
    make("dist/cloned", { "c.txt": "ignored\n" }, true);
    make("dir", { "b.txt": "b2\n", "odd\n'name": "odd\n" }, true);
    make("with\nnewline", { n: "n\n" }, true);
    const { commit, refused } = await keep();
    expect(fixture.filesOf(commit!)).toEqual({
      ...baseFiles,
      "lib/l.txt": "lib\n",
      "lib/.gitignore": "*.o\n",
      "lib/deep/d.txt": "deep\n",
      "fresh/f.txt": "fresh\n",
      "dir/b.txt": "b2\n",
      "dir/odd\n'name": "odd\n",
      "with\nnewline/n": "n\n",
    });
    expect(refused.map((line) => line.slice(0, line.lastIndexOf(": "))).sort()).toEqual([
      "dir",
      "fresh",
      "lib",
      "lib/big.bin",
      "lib/deep",
      "with\nnewline",
    ]);
    expect((await keep()).commit).toBe(commit);
  });

  test("a submodule the agent put into its index by hand never reaches a commit", async () => {
    writeFiles(fixture.at(tree), { ".gitignore": "!node_modules\n", "node_modules/m/x": "x\n", "a.txt": "mine\n" });
    gitIn(at("node_modules/m"), "init", "-q");
    gitIn(at("node_modules/m"), "commit", "-q", "--allow-empty", "-m", "x");
    const { commit, refused } = await keep();
    expect(fixture.filesOf(commit!)).toEqual({ ...baseFiles, ".gitignore": "!node_modules\n", "a.txt": "mine\n" });
    expect(refused).toEqual([expect.stringMatching(/^node_modules\/m: /)]);
  });

  test("pipes and names that git cannot hold are named, and the rest is kept", async () => {
    rmSync(at("a.txt"));
    execFileSync("mkfifo", [at("a.txt"), at("other")]);
    mkdirSync(at("sub"));
    writeFiles(fixture.at(tree), { "sub/git~1": "x", "ok.txt": "ok\n" });
    const { commit, refused } = await keep();
    expect(fixture.filesOf(commit!)["ok.txt"]).toBe("ok\n");
    expect(refused.join("\n")).toMatch(/a\.txt: /);
    expect(refused.join("\n")).toMatch(/sub\/git~1: /);
  });
});

// Root reads files whatever their mode, so these tests mean something only for an ordinary user.
describe.runIf(process.getuid?.() !== 0)("files without permissions", () => {
  test("are made readable and kept", async () => {
    writeFiles(fixture.at(tree), { "shut/in": "in\n", secret: "s\n" });
    chmodSync(at("secret"), 0o000);
    chmodSync(at("shut"), 0o000);
    chmodSync(at("dir"), 0o000);
    expect(await keptFiles()).toEqual({ ...baseFiles, "shut/in": "in\n", secret: "s\n" });
  });
});

describe("a sandbox that lies", () => {
  test("cannot bring in objects that fsck refuses", async () => {
    writeFiles(fixture.at(tree), { "a.txt": "mine\n" });
    const script = `
      evil=$(printf '100644 .git\\0aaaaaaaaaaaaaaaaaaaa' | git hash-object -t tree -w --literally --stdin)
      printf '%s' "$evil"`;
    const real = join(fixture.folder, "bin");
    mkdirSync(real);
    const git = execFileSync("sh", ["-c", "command -v git"], { encoding: "utf8" }).trim();
    writeFileSync(
      join(real, "git"),
      `#!/bin/sh\nPATH=${process.env.PATH}\nif [ "$1" = write-tree ]; then ${script}; else exec ${git} "$@"; fi\n`,
      { mode: 0o755 },
    );
    const guest = {
      ...fixture.guest,
      exec: (spec: Parameters<typeof fixture.guest.exec>[0]) =>
        fixture.guest.exec({ ...spec, env: { ...spec.env, PATH: `${real}:${process.env.PATH}` } }),
    };
    await expect(fixture.keep(tree, base, { guest })).rejects.toMatchObject({ code: expect.stringMatching(/^git$/) });
    expect(await fixture.workspace.resolve(project, ref)).toBeNull();
  });

  test("cannot send another base's work, an empty bundle or none", async () => {
    writeFiles(fixture.at(tree), { "a.txt": "mine\n" });
    const answers: (Buffer | null)[] = [Buffer.alloc(0), null, Buffer.from(`# v2 git bundle\n${base} refs/x\n\nPACK`)];
    for (const answer of answers) {
      const guest = { ...fixture.guest, readFile: async () => answer };
      await expect(fixture.keep(tree, base, { guest })).rejects.toMatchObject({ code: "guest-protocol" });
    }
    expect(await fixture.workspace.resolve(project, ref)).toBeNull();
  });

  test("fails with a clear message when its bundle is too large", async () => {
    writeFiles(fixture.at(tree), { "a.txt": "mine\n" });
    const guest = {
      ...fixture.guest,
      readFile: () => Promise.reject(new Error("413")),
      stat: async (path: string) => ({
        path,
        type: "file" as const,
        sizeBytes: 300 * 1024 * 1024,
        mode: 0o644,
        modifiedAt: "",
      }),
    };
    await expect(fixture.keep(tree, base, { guest })).rejects.toMatchObject({
      code: "unsupported",
      message: expect.stringContaining("300 MiB packed"),
    });
  });
});

test("a tree that was moved away and put back is still kept", async () => {
  writeFiles(fixture.at(tree), { "a.txt": "mine\n" });
  renameSync(at(), `${at()}.aside`);
  renameSync(`${at()}.aside`, at());
  expect((await keptFiles())["a.txt"]).toBe("mine\n");
});

describe("a tree that is too much", () => {
  test("holes of sparse files count: the file that makes it too large is named, and the rest is kept", async () => {
    writeFiles(fixture.at(tree), { "small.txt": "small\n", "ignored.log": "", "holes/terabyte": "" });
    truncateSync(at("holes/terabyte"), 2 ** 40);
    // Each is below the limit for a file, and together they are above the limit for a tree. An
    // ignored file does not count.
    truncateSync(at("ignored.log"), 2 ** 40);
    for (let n = 0; n < 120; n += 1) {
      writeFileSync(at(`holes/${n}`), "");
      truncateSync(at(`holes/${n}`), 40 * 2 ** 20);
    }
    const { commit, refused } = await keep();
    expect(Object.keys(fixture.filesOf(commit!)).sort()).toEqual([...Object.keys(baseFiles), "small.txt"].sort());
    expect(refused).toHaveLength(121);
    const why = "larger than 1600 KiB, and the changes exceed 4 GiB in total, counting holes in sparse files";
    expect(refused).toContain(`holes/7: ${why}`);
    expect(refused).toContain(`holes/terabyte: ${why}`);
  });

  test("too many files that git cannot add are refused as a whole", async () => {
    mkdirSync(at("holes"));
    for (let n = 0; n < 1_100; n += 1) {
      writeFileSync(at(`holes/${n}`), "");
      truncateSync(at(`holes/${n}`), 60 * 2 ** 20);
    }
    const { commit, refused } = await keep();
    expect(commit).toBeNull();
    expect(refused).toEqual([expect.stringMatching(/^1100 paths such as holes\/\d+ are larger than 50 MiB.*nothing/)]);
  });

  test("thousands of force-added files do not need a process each", async () => {
    mkdirSync(at("dist"));
    for (let n = 0; n < 5_000; n += 1) writeFileSync(at(`dist/-${n} '"\n.js`), `${n}\n`);
    const begun = performance.now();
    gitIn(at(), "add", "-f", "-A");
    const plain = performance.now() - begun;
    const { changed, refused } = await keep();
    expect(refused).toEqual([]);
    expect(changed).toHaveLength(5_000);
    // It once took 80 times as long; bench/large-tree.ts measures it exactly.
    expect(performance.now() - begun - plain).toBeLessThan(15 * plain + 2_000);
  });
});

describe("a tree that fsck refuses", () => {
  const modules = '[submodule "a"]\n\tpath = a\n\turl = --upload-pack=touch /tmp/x\n';

  test.each([
    ["few", 1],
    ["many", 150],
  ])("is refused each time, and its work kept beside the repository, with %s files", async (_, number) => {
    const files = Object.fromEntries(Array.from({ length: number }, (__, index) => [`f${index}.txt`, `${index}\n`]));
    writeFiles(fixture.at(tree), { ...files, ".gitmodules": modules });
    for (let times = 0; times < 2; times += 1) {
      const kept = await keep();
      expect(kept).toMatchObject({ commit: null, changed: [] });
      expect(kept.refused).toEqual([
        expect.stringMatching(/fsck rejected its files \(.*gitmodules.*refused\/.*\.bundle/i),
      ]);
    }
    const folder = join(fixture.workspace.repositoryPath(project), "refused");
    const [bundle, ...others] = readdirSync(folder);
    expect(others).toEqual([]);
    // A person can look into it, in a repository of their own.
    const copy = join(fixture.folder, "copy.git");
    execFileSync("git", ["clone", "-q", "--bare", fixture.workspace.repositoryPath(project), copy]);
    gitIn(copy, "fetch", "-q", fixture.workspace.repositoryPath(project), base);
    gitIn(copy, "fetch", "-q", join(folder, bundle!), "refs/wavesmith/kept:refs/heads/rescued");
    expect(gitIn(copy, "show", "rescued:f0.txt")).toBe("0");
    expect(() => fixture.git("rev-parse", "--verify", "-q", ref)).toThrow();
  });
});
