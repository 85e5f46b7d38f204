import { describe, expect, it } from "vitest";
import { maxMemoryBytes, withBuildNote } from "../../src/domain/memory.ts";

const own = "## House\n\nUse UTC.";

describe("a project's memory", () => {
  it("keeps one note per build, the newest last, below what people wrote", () => {
    const once = withBuildNote(own, "bld_a", ["completed"]);
    const twice = withBuildNote(withBuildNote(once, "bld_b", ["failed"]), "bld_a", ["completed again"]);
    expect(twice).toBe(`${own}\n\n## Build bld_b\n\n- failed\n\n## Build bld_a\n\n- completed again\n`);
  });

  it("stays within its limit by dropping the oldest notes, and keeps what people wrote", () => {
    let memory = own;
    for (let at = 0; at < 30; at += 1) memory = withBuildNote(memory, `bld_${at}`, ["é".repeat(5_000)]);
    expect(Buffer.byteLength(memory)).toBeLessThanOrEqual(maxMemoryBytes);
    expect(memory).toContain("Use UTC.");
    expect(memory).toContain("## Build bld_29\n");
    expect(memory).not.toContain("## Build bld_0\n");
    const full = "x".repeat(maxMemoryBytes);
    expect(withBuildNote(full, "bld_a", ["completed"])).toBe(full);
  });
});
