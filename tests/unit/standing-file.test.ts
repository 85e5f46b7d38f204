import { readFileSync } from "node:fs";
import { describe, expect, it } from "vitest";
import { countCronTimes, nextCronTime } from "../../src/plan/standing/cron-times.ts";
import { parseStandingFile, standingJsonSchema } from "../../src/plan/standing/standing-file.ts";

const parse = (text: string) => parseStandingFile(text, {});
const faults = (text: string) => parse(text).faults.map(({ line, code, path }) => `${line} ${code} ${path}`);

describe("wavesmith.yaml", () => {
  it("says when builds start and what they do", () => {
    const { file } = parse(`
on:
  schedule:
    - { name: nightly, cron: "0 3 * * *", timezone: Europe/Paris }
    - { cron: "30 9 * * 1" }
plan: plans/upkeep.yaml
x-note: ignored
`);
    expect(file).toEqual({
      plan: { path: "plans/upkeep.yaml" },
      ...{ brief: null, yes: false, budget: undefined },
      schedules: [
        { name: "nightly", cron: "0 3 * * *", timezone: "Europe/Paris" },
        { name: "30 9 * * 1", cron: "30 9 * * 1", timezone: "UTC" },
      ],
      ...{ branches: [], label: null },
    });
    const asked = parse("on: { push: { branches: [main, release/*] }, label: build-me }\nplan: a.yaml\n").file;
    expect(asked).toMatchObject({ branches: ["main", "release/*"], label: "build-me" });
    const brief = parse("on: {}\nbrief: Update what is old.\nyes: true\n").file;
    expect(brief).toMatchObject({ plan: null, brief: "Update what is old.", yes: true });
  });

  it("has its faults reported together, each with its line, including its plan's", () => {
    expect(
      faults(`on:
  schedule:
    - { cron: "61 * * * *" }
    - { cron: "0 0 30 2 *" }
    - { cron: "0 0 * * * *" }
    - { cron: "0 0 * * *", timezone: Mars/Olympus }
    - { cron: "0 5 * * *", timezon: UTC }
`),
    ).toEqual([
      "1 invalid ",
      "3 invalid on.schedule[0].cron",
      "4 invalid on.schedule[1].cron",
      "5 invalid on.schedule[2].cron",
      "6 invalid on.schedule[3].timezone",
      "7 unknown-key on.schedule[4].timezon",
    ]);
    expect(faults("on:\n  push:\n    branches: [wavesmith/x]\nbrief: b\n")).toEqual(["3 invalid on.push.branches[0]"]);
    expect(faults("on: {}\n")).toEqual(["1 invalid "]);
    expect(faults("on: {}\nplan: a.yaml\nbrief: b\n")).toEqual(["1 invalid "]);
    expect(faults("on: {}\nplan: ../a.yaml\n")).toEqual(["2 escaping-file plan"]);
    expect(faults('on:\n  schedule:\n    - { cron: "0 5 * * *" }\n    - { cron: "0 5 * * *" }\nbrief: b\n')).toEqual([
      "4 duplicate-id on.schedule[1].cron",
    ]);
    expect(faults("on: {}\nplan:\n  name: p\n  tasks:\n    - { id: a, rum: x }\n")).toContain(
      "5 unknown-key plan.tasks[0].rum",
    );
    expect(faults("on: [\n")[0]).toMatch(/syntax/);
  });

  it("has a JSON Schema for editors, which is shipped", () => {
    const shipped = readFileSync(new URL("../../schema/wavesmith.schema.json", import.meta.url), "utf8");
    expect(JSON.parse(shipped)).toEqual(JSON.parse(JSON.stringify(standingJsonSchema())));
  });
});

describe("a cron", () => {
  it("follows its time zone through clock changes", () => {
    const paris = { cron: "30 2 * * *", timezone: "Europe/Paris" };
    const next = (after: string) => nextCronTime(paris, new Date(after))?.toISOString();
    expect(next("2026-01-10T00:00:00Z")).toBe("2026-01-10T01:30:00.000Z");
    expect(next("2026-07-10T00:00:00Z")).toBe("2026-07-10T00:30:00.000Z");
    const days = (from: string, until: string) => countCronTimes(paris, new Date(from), new Date(until), 100);
    expect(days("2026-03-27T12:00:00Z", "2026-03-31T12:00:00Z"), "the clock goes forward").toBe(4);
    expect(days("2026-10-23T12:00:00Z", "2026-10-27T12:00:00Z"), "the clock goes back").toBe(4);
    expect(countCronTimes({ cron: "* * * * *", timezone: "UTC" }, new Date(0), new Date(1e12), 7)).toBe(7);
  });
});
