import { describe, expect, it } from "vitest";
import { createJsonLog } from "../../src/cli/output/json-log.ts";
import { about } from "../../src/domain/log-facts.ts";

describe("the log as JSON", () => {
  const lines: string[] = [];
  const now = () => new Date("2026-11-23T01:02:03.004Z");
  const log = createJsonLog({ write: (line) => lines.push(line), secrets: { A_KEY: "s3cret-value-of-a-key" }, now });
  const parsed = () => lines.splice(0).map((line) => JSON.parse(line) as object);

  it("says on each line what the code that logs is working on, through every promise", async () => {
    const work = async (build: string) => {
      await Promise.resolve();
      await about({ task: "api", attempt: 2 }, async () => {
        await Promise.resolve();
        log.warn("odd");
      });
      log.info("done");
      return build;
    };
    await Promise.all(["bld_a", "bld_b"].map((build) => about({ build }, () => work(build))));
    const time = "2026-11-23T01:02:03.004Z";
    const lineOf = (build: string) => ({ time, level: "warn", message: "odd", build, task: "api", attempt: 2 });
    expect(parsed()).toEqual(
      expect.arrayContaining([
        ...["bld_a", "bld_b"].map(lineOf),
        ...["bld_a", "bld_b"].map((build) => ({ time, level: "info", message: "done", build })),
      ]),
    );
    log.info("about nothing");
    expect(parsed()).toEqual([{ time, level: "info", message: "about nothing" }]);
  });

  it("logs an event with its subject and its request's metadata, never its plan", () => {
    const data = {
      ...{ tenantId: "ten_1", projectId: "proj_1", buildId: "bld_1", waveNumber: 2, taskKey: "api", attempt: 1 },
      ...{ requestedBy: "ada", metadata: { ticket: 7 }, plan: { name: "x" } },
    };
    const event = { name: "agent/attempt.finished", id: "e:1:0", data };
    about({ build: "bld_other", gate: "critic" }, () => log.event(event));
    expect(parsed()).toEqual([
      {
        ...{ time: "2026-11-23T01:02:03.004Z", level: "info", message: "agent/attempt.finished", eventId: "e:1:0" },
        ...{ tenant: "ten_1", project: "proj_1", build: "bld_1", wave: 2, task: "api", attempt: 1 },
        ...{ requestedBy: "ada", metadata: { ticket: 7 } },
      },
    ]);
  });

  it("is one line whatever a message contains, and has no secret", () => {
    log.warn('two\nlines "s3cret-value-of-a-key"\u001b[31m');
    expect(lines).toHaveLength(1);
    expect(lines[0]).toMatch(/^[^\n\u001b]*\n$/);
    expect(lines[0]).not.toContain("s3cret");
    expect(parsed()).toMatchObject([{ message: 'two\nlines "[secret A_KEY]"\u001b[31m' }]);
  });
});
