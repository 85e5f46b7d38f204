import { describe, expect, it } from "vitest";
import type { Finding } from "../../src/domain/gate/finding.ts";
import { createGates } from "../../src/gates/gates.ts";
import type { ChangedFile } from "../../src/workspace/port.ts";

const gates = createGates();
const finding = (fields: Partial<Finding>): Finding => ({
  rule: "review",
  severity: "high",
  message: "wrong",
  file: null,
  line: null,
  confidence: 0.9,
  ...fields,
});
const change = (path: string, fields: Partial<ChangedFile> = {}): ChangedFile => ({
  path,
  status: "modified",
  from: null,
  addedLines: 1,
  deletedLines: 1,
  binary: false,
  ...fields,
});
const changed = [
  change("a.ts"),
  change("gone.ts", { status: "deleted" }),
  change("new.ts", { status: "renamed", from: "former.ts" }),
  change("picture.png", { binary: true }),
];
const diff = `diff --git a/a.ts b/a.ts
@@ -1,3 +1,4 @@
 one
-@@ -1 +500,9 @@
+two
+three
 four
@@ -40 +41 @@ function x() {
-old
+new
@@ -60,2 +61,0 @@
-gone
-too
`;
const sort = (findings: Finding[]) => gates.sortReview(findings, { block: "high", changed, diffOf: async () => diff });

describe("a critic's findings", () => {
  it.each([
    ["in a changed line", { file: "a.ts", line: 2 }],
    ["in the lines around a change", { file: "./a.ts", line: 4 }],
    ["in a change of one line", { file: "a.ts", line: 41 }],
    ["where lines were taken away", { file: "a.ts", line: 61 }],
    ["in a changed file, without a line", { file: "a.ts" }],
    ["in a file that was deleted", { file: "gone.ts", line: 900 }],
    ["in a file by its former name", { file: "former.ts", line: 1 }],
    ["in a file without lines", { file: "picture.png", line: 7 }],
    ["about the wave as a whole", {}],
  ])("may block %s", async (_, place) => {
    expect(await sort([finding(place)])).toEqual({ candidates: [finding(place)], aside: [] });
  });

  it.each([
    ["in a line the wave left alone", { file: "a.ts", line: 5 }],
    ["in a line that a file's text makes look changed", { file: "a.ts", line: 501 }],
    ["in a file the wave left alone", { file: "b.ts", line: 1 }],
  ])("are kept and cannot block %s", async (_, place) => {
    const { candidates, aside } = await sort([finding(place)]);
    expect(candidates).toEqual([]);
    expect(aside).toMatchObject([{ severity: "low", ...place }]);
    expect(aside[0]!.message).toBe("outside this wave's changes, so it cannot block (reported as high): wrong");
  });

  it("are left unchanged if they are not severe or certain enough to block", async () => {
    const mild = [finding({ severity: "medium", file: "b.ts" }), finding({ confidence: 0.3, severity: "critical" })];
    expect(await sort(mild)).toEqual({ candidates: [], aside: mild });
  });
});

describe("a second look", () => {
  const asked = [finding({ message: "first" }), finding({ message: "second", file: "a.ts", line: 3 })];
  const look = (result: unknown) => gates.parseSecondLook(JSON.stringify(result), asked);

  it("confirms by number; what it does not mention is not confirmed, and its last word counts", () => {
    expect(look({ verdicts: [{ finding: 2, confirmed: true, reason: " seen " }] })).toEqual([
      { confirmed: false, reason: null },
      { confirmed: true, reason: "seen" },
    ]);
    const twice = [1, 2].map((finding) => ({ finding, confirmed: true }));
    const changedItsMind = look({
      verdicts: [...twice, { finding: 1, confirmed: false }, { finding: 9, confirmed: true }],
    });
    expect(changedItsMind.map(({ confirmed }) => confirmed)).toEqual([false, true]);
  });

  it("may be a program that reports its findings; those it reports again are confirmed", () => {
    const again = { title: "second", severity: "low", file: "a.ts", line: 30 };
    expect(look({ findings: [again] }).map(({ confirmed }) => confirmed)).toEqual([false, true]);
    expect(look({ findings: [] }).map(({ confirmed }) => confirmed)).toEqual([false, false]);
  });

  it.each(["", "{}", "[]", '{"verdicts":[{"finding":0,"confirmed":true}]}', '{"verdicts":[{"finding":1}]}'])(
    "of another shape is refused: %s",
    (text) => {
      expect(() => gates.parseSecondLook(text, asked)).toThrowError(expect.objectContaining({ code: "usage" }));
    },
  );
});
