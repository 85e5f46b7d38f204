import { tmpdir } from "node:os";
import { resolve } from "node:path";
import { describe, expect, it } from "vitest";
import { budgetFrom, promptFrom, sourceFrom } from "../../src/cli/request/brief.ts";

describe("the lines shown with a brief", () => {
  it("is a budget by the names of a plan's, one limit or several", () => {
    expect(budgetFrom("usd=5")).toEqual({ usd: 5 });
    expect(budgetFrom("usd=0.5, tokens=2e6,wallClock=2h")).toEqual({ usd: 0.5, tokens: 2_000_000, wallClock: "2h" });
    // The plan's own check decides whether these are limits.
    expect(budgetFrom("euro=5,tokens=many")).toEqual({ euro: 5, tokens: "many" });
  });

  it.each(["", "5", "usd", "usd=", "usd=5,", "usd=5 tokens=3", "usd=5,usd=6", "__proto__=1"])(
    "is no budget when it is %j",
    (text) => {
      expect(() => budgetFrom(text)).toThrow(
        expect.objectContaining({ code: "usage", remedy: expect.stringContaining("usd=5, tokens=2000000") }),
      );
    },
  );

  it("is a source: a folder, or a repository with an optional ref", () => {
    expect(sourceFrom(".")).toEqual({ path: resolve(".") });
    expect(sourceFrom("https://example.com/r.git#main")).toEqual({ git: "https://example.com/r.git", ref: "main" });
    expect(sourceFrom("repo#v1")).toEqual({ git: resolve("repo"), ref: "v1" });
    expect(() => sourceFrom("/no/where")).toThrow(
      expect.objectContaining({ code: "usage", message: "there is no folder /no/where" }),
    );
  });

  it("is a prompt file, which has to exist", async () => {
    await expect(promptFrom("/no/where.md")).rejects.toMatchObject({
      code: "usage",
      message: expect.stringContaining("/no/where.md"),
    });
    await expect(promptFrom(tmpdir())).rejects.toMatchObject({ code: "usage" });
  });
});
