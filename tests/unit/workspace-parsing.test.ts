import { describe, expect, test } from "vitest";
import { WavesmithError } from "../../src/domain/errors.ts";
import { isRefName } from "../../src/domain/refs/ref-name.ts";
import { bundleHeader, readBundle } from "../../src/workspace/authority/bundle.ts";
import { parseChanges } from "../../src/workspace/authority/history.ts";
import { parseMergeTree } from "../../src/workspace/authority/join-branches.ts";
import { excludedFolders } from "../../src/workspace/trees/excludes.ts";
import { assertVolumePath, readFacts } from "../../src/workspace/trees/sandbox-git.ts";

const sha = (digit: string) => digit.repeat(40);

describe("ref names", () => {
  test.each([
    "refs/heads/main",
    "refs/heads/wavesmith/bld_x/task/api/1",
    "refs/tags/wavesmith-restore/bld_x/0",
    "refs/rescue/bld_x/a@b",
  ])("%s is one", (ref) => expect(isRefName(ref)).toBe(true));

  test.each([
    "main",
    "HEAD",
    "heads/main",
    "refs/heads",
    "refs/heads/",
    "refs/heads/a..b",
    "refs/heads/a b",
    "refs/heads/a\nb",
    "refs/heads/.a",
    "refs/heads/a.lock",
    "refs/heads/a.lock/b",
    "refs/heads/a.",
    "refs/heads//a",
    "refs/heads/a~1",
    "refs/heads/a^",
    "refs/heads/a:b",
    "refs/heads/a*",
    "refs/heads/a?",
    "refs/heads/[a",
    "refs/heads/a\\b",
    "refs/heads/a@{1}",
    "refs/heads/../../config",
    "-d",
  ])("%j is none", (ref) => expect(isRefName(ref)).toBe(false));
});

describe("paths for trees on the volume", () => {
  test("plain names below the root are accepted", () => {
    expect(assertVolumePath("trees/bld_x/api.1")).toBe("trees/bld_x/api.1");
  });

  test.each(["/etc", "..", "trees/../x", "trees//x", "trees/-rf", "trees/.git", "", "trees/a b", "trees/$(id)"])(
    "%j is refused",
    (path) => expect(() => assertVolumePath(path)).toThrow(WavesmithError),
  );
});

test("changes are read with renames, binary files and odd names in the right places", () => {
  const fields = [
    `:100644 100755 ${sha("1")} ${sha("2")} M`,
    'a "quoted"\nname',
    `:100644 100644 ${sha("1")} ${sha("1")} R090`,
    "old",
    "new",
    `:000000 120000 ${sha("0")} ${sha("3")} A`,
    "link",
    `:100644 120000 ${sha("1")} ${sha("3")} T`,
    "file",
    '3\t1\ta "quoted"\nname',
    "2\t2\t",
    "old",
    "new",
    "-\t-\tlink",
    "1\t1\tfile",
  ];
  expect(parseChanges(fields)).toEqual([
    {
      path: 'a "quoted"\nname',
      status: "modified",
      from: null,
      addedLines: 3,
      deletedLines: 1,
      binary: false,
      mode: "100755",
      blob: sha("2"),
    },
    {
      path: "new",
      status: "renamed",
      from: "old",
      addedLines: 2,
      deletedLines: 2,
      binary: false,
      mode: "100644",
      blob: sha("1"),
    },
    {
      path: "link",
      status: "added",
      from: null,
      addedLines: null,
      deletedLines: null,
      binary: true,
      mode: "120000",
      blob: sha("3"),
    },
    {
      path: "file",
      status: "type-changed",
      from: null,
      addedLines: 1,
      deletedLines: 1,
      binary: false,
      mode: "120000",
      blob: sha("3"),
    },
  ]);
});

test("a merge's conflicts are read, and a path that git renamed because of a folder keeps its name", () => {
  const output = [
    sha("a"),
    `100644 ${sha("1")} 1\tplain`,
    `100644 ${sha("2")} 2\tplain`,
    `100644 ${sha("3")} 3\tfolder~${sha("b")}`,
    "",
    "1",
    "plain",
    "Auto-merging",
    "Auto-merging plain\n",
    "1",
    "plain",
    "CONFLICT (contents)",
    "CONFLICT (content): Merge conflict in plain\n",
    "",
  ].join("\0");
  expect(parseMergeTree(Buffer.from(output), [sha("b"), sha("c")])).toEqual({
    tree: sha("a"),
    paths: ["folder", "plain"],
    messages: ["CONFLICT (content): Merge conflict in plain"],
  });
});

describe("bundles from a sandbox", () => {
  const pack = Buffer.concat([Buffer.from("PACK"), Buffer.alloc(40)]);
  const bundle = (header: string) => Buffer.concat([Buffer.from(header), pack]);

  test("one tip on the expected base is parsed", () => {
    const read = readBundle(bundle(bundleHeader(sha("1"), [sha("2")])), sha("2"));
    expect(read.tip).toBe(sha("1"));
    expect(read.pack.equals(pack)).toBe(true);
  });

  test.each([
    ["needs another base", bundleHeader(sha("1"), [sha("3")])],
    ["has two tips", `# v2 git bundle\n${sha("1")} refs/a\n${sha("2")} refs/b\n\n`],
    ["has no tip", `# v2 git bundle\n-${sha("2")} \n\n`],
    ["is of another version", `# v3 git bundle\n@object-format=sha256\n${sha("1")} refs/a\n\n`],
    ["has a tip that is no SHA", "# v2 git bundle\n--upload-pack=evil refs/a\n\n"],
    ["is empty", ""],
  ])("one that %s is refused", (_, header) => {
    expect(() => readBundle(bundle(header), sha("2"))).toThrow(/malformed bundle/);
  });
});

test("a script's output is read in pairs, including values with newlines", () => {
  expect(readFacts("tree\0abc\0odd\0a\nb\0")).toEqual([
    ["tree", "abc"],
    ["odd", "a\nb"],
  ]);
});

test("a dependency folder that has files in the base is the project's own", () => {
  expect(excludedFolders(["src", "src/venv", "src/venv/x"])).not.toContain("venv");
  expect(excludedFolders(["src"])).toEqual(expect.arrayContaining(["venv", "node_modules"]));
});
