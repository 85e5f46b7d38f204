import { describe, expect, it } from "vitest";
import { phaseOf } from "../../src/api/waiting.ts";
import { createPaint } from "../../src/cli/output/palette.ts";
import { renderLive } from "../../src/cli/view/live.ts";
import { createScreen } from "../../src/cli/view/screen.ts";
import { cutRow, plainText, segment, widthOf } from "../../src/cli/view/segments.ts";
import type { BuildView } from "../../src/coordinator/build/build-view.ts";
import { attempt, gate, moment, view, wave } from "./cli-views.ts";

const rows = (given: BuildView, height = 40): string[] =>
  renderLive(given, { rows: height, columns: 100, now: moment(20), frame: 0 }).map((row) => plainText(row).trimEnd());

const running = { status: "running", outcome: null, startedAt: moment(13), endedAt: null } as const;
const inWave2 = view({
  tasks: {
    db: { status: "completed", waveNumber: 1, attempts: 1 },
    api: { status: "running", waveNumber: 2, attempts: 2 },
    ui: { status: "assigned", waveNumber: 2 },
  },
  waves: [
    wave({ status: "passed", headSha: "c".repeat(40), endedAt: moment(5), attempts: [attempt({})] }),
    wave({
      number: 2,
      createdAt: moment(6),
      taskKeys: ["api", "ui"],
      attempts: [
        attempt({ taskKey: "api", number: 1, outcome: "failed" }),
        attempt({ taskKey: "api", number: 2, ...running, lastAction: "bash: npm test" }),
      ],
    }),
  ],
});

describe("the live view", () => {
  it("shows waves and tasks, elapsed times, and what each task waits for", () => {
    expect(rows(inWave2)).toEqual([
      "",
      "⠋ shop  bld_1  1/4 tasks, 1 running  0:20  wave 2: running tasks",
      "  ✓ wave 1  db  5.0s",
      "  ⠋ wave 2",
      "      ⠋ api  backend         0:07  attempt 2  bash: npm test",
      "      · ui   frontend        waiting for capacity (1 at work)",
      "      gates  · testing   · critic   · integration",
      "      · docs  default         waiting for api, ui",
    ]);
  });

  it("says that tasks wait for the gates of the wave before them", () => {
    const gating = view({
      tasks: { db: { status: "completed", waveNumber: 1 } },
      waves: [wave({ status: "gating", headSha: "a".repeat(40), gates: [gate({ status: "running", verdict: null })] })],
    });
    expect(phaseOf(gating)).toBe("wave 1: testing gate");
    expect(rows(gating)).toContain("      · api   backend         waiting for the gates of wave 1");
    expect(rows(gating)).toContain("      gates  ⠋ testing 0:16   · critic   · integration");
  });

  it("shows only the gates that are switched on", () => {
    const gatesOf = (off: Partial<BuildView["build"]["plan"]["gates"]>) => {
      const { plan } = inWave2.build;
      const given = { ...inWave2, build: { ...inWave2.build, plan: { ...plan, gates: { ...plan.gates, ...off } } } };
      return rows(given).find((row) => row.includes("gates"));
    };
    expect(gatesOf({ critic: false })).toBe("      gates  · testing   · integration");
    expect(gatesOf({ testing: false, critic: false, integration: false })).toBe("      gates are off");
  });

  it("fits into a terminal of any height", () => {
    for (let height = 1; height < 12; height += 1) expect(rows(inWave2, height).length).toBeLessThanOrEqual(height);
    expect(rows(inWave2, 3)[0]).toContain("shop");
  });
});

describe("the live view of many tasks", () => {
  /** A wave of this many tasks: one failed, two at work, half of the rest done and half waiting. */
  function crowd(size: number): BuildView {
    const definition = view().tasks[0]!.definition;
    const tasks = Array.from({ length: size }, (_, index) => {
      const isBusy = index === 11 || index === 13;
      const status =
        index === 7
          ? ("failed" as const)
          : isBusy
            ? ("running" as const)
            : index % 2 === 0
              ? ("joining" as const)
              : ("assigned" as const);
      const key = `task-with-a-rather-long-name-${index}`;
      return { ...view().tasks[0]!, key, definition: { ...definition, key }, status, waveNumber: 1 };
    });
    const attempts = tasks.flatMap(({ key, status }) =>
      status === "running"
        ? attempt({ taskKey: key, status: "running", outcome: null, endedAt: null, inSetup: true })
        : [],
    );
    return { ...view({ waves: [wave({ taskKeys: tasks.map(({ key }) => key), attempts })] }), tasks };
  }
  const shown = (size: number, columns: number, height = 24): string[] =>
    renderLive(crowd(size), { rows: height, columns, now: moment(20), frame: 0 }).map((row) =>
      plainText(cutRow(row, columns - 1)).trimEnd(),
    );

  it.each([20, 60, 300].flatMap((size) => [60, 200].map((columns) => [size, columns] as const)))(
    "%i at %i columns: what fails, runs and waits comes first, the rest is counted",
    (size, columns) => {
      const text = shown(size, columns);
      expect(text.length).toBeLessThanOrEqual(24);
      const done = Math.ceil(size / 2);
      expect(text[1]).toContain(`${done}/${size} tasks, 2 running, 1 failed  0:20  wave 1`.slice(0, columns - 10));
      const rows = text.slice(3, -1).join("\n");
      expect(rows.match(/✗/g)).toHaveLength(1);
      expect(rows.match(/⠋ .* setup 0:19/g)).toHaveLength(columns === 200 && size > 20 ? 1 : 2);
      expect(text.at(-1)).toMatch(/^ {6}gates {2}/);
      const hidden = [...(text.at(-2)!.match(/\d+(?= (waiting|done))/g) ?? [])].reduce(
        (all, one) => all + Number(one),
        0,
      );
      const visible = rows.match(/task-with-a-/g)!.length;
      expect(size <= 20 ? visible : visible + hidden).toBe(size);
    },
  );

  it("says which role is full for tasks of later waves", () => {
    const first = crowd(3);
    const later = { ...first.tasks[0]!, key: "later", status: "pending" as const, waveNumber: null };
    const text = renderLive(
      { ...first, tasks: [...first.tasks, later] },
      { rows: 24, columns: 100, now: moment(20), frame: 0 },
    );
    expect(plainText(text.at(-1)!)).toMatch(/· later +database +role database is full \(3 per wave\)$/);
  });
});

interface Visible {
  readonly lines: readonly string[];
  readonly row: number;
  readonly column: number;
}

/**
 * The lines that a terminal of this size shows after this output. Knows the few sequences that the
 * screen uses, and wrapping.
 */
function emulate(text: string, size: { columns: number; rows: number }, before?: Visible): Visible {
  const lines = Array.from({ length: size.rows }, (_, index) => before?.lines[index] ?? "");
  let { row, column } = before ?? { row: 0, column: 0 };
  const down = (): void => {
    if (row < size.rows - 1) row += 1;
    else lines.push(...lines.splice(0, 1).map(() => ""));
  };
  for (const [found, numbers, command] of text.matchAll(/\x1b\[([?\d;]*)([A-Za-z])|[^\x1b]/g)) {
    if (command === "A") row = Math.max(0, row - Number(numbers));
    else if (command === "H") [row, column] = [Number(/^\d*/.exec(numbers!)![0] || 1) - 1, 0];
    else if (command === "K" && numbers === "2") lines[row] = "";
    else if (command === "K") lines[row] = lines[row]!.slice(0, column);
    else if (command === "J") lines.fill("", row + 1).splice(row, 1, lines[row]!.slice(0, column));
    else if (found === "\r") column = 0;
    else if (found === "\n") {
      down();
      column = 0;
    } else if (command === undefined) {
      if (column === size.columns) {
        down();
        column = 0;
      }
      lines[row] = lines[row]!.padEnd(column).slice(0, column) + found + lines[row]!.slice(column + 1);
      column += 1;
    }
  }
  return { lines: lines.slice(0, lines.findLastIndex((line) => line !== "") + 1), row, column };
}

describe("the region of a terminal", () => {
  function terminal(columns: number) {
    const written: string[] = [];
    const size = { columns, rows: 10 };
    const out = { raw: (text: string) => void written.push(text), size: () => size, paint: createPaint(false) };
    return { screen: createScreen(out), written, size };
  }

  it("writes nothing when nothing has changed, and only what has when something did", () => {
    const { screen, written } = terminal(40);
    screen.show([[segment("plain", "first")], [segment("plain", "second")]]);
    screen.show([[segment("plain", "first")], [segment("plain", "second")]]);
    expect(written).toHaveLength(1);
    screen.show([[segment("plain", "first")], [segment("plain", "third")]]);
    expect(written[1]).not.toContain("first");
    expect(written[1]).toContain("third");
  });

  it.each([
    ["narrower", 20],
    ["wider", 80],
  ])("redraws everything on a terminal that became %s, however its rows were rewrapped", (_name, columns) => {
    const { screen, written, size } = terminal(40);
    screen.log(["one", "two", "three ".repeat(4).trim()]);
    screen.show([[segment("plain", "x".repeat(39))], [segment("plain", "end")]]);
    const visible = emulate(written.join(""), { columns: 40, rows: 10 });
    expect(visible.lines).toEqual(["one", "two", "three three three three", "x".repeat(39), "end"]);
    size.columns = columns;
    // We do not know how the terminal wrapped it, and where it left the cursor.
    const torn = { lines: Array.from({ length: 10 }, (_, row) => `torn ${row}`), row: 4, column: 0 };
    screen.show([[segment("plain", "x".repeat(39))], [segment("plain", "end")]]);
    const after = emulate(written.at(-1)!, size, torn);
    const row = columns === 20 ? `${"x".repeat(18)}…` : "x".repeat(39);
    const three = columns === 20 ? ["three three three th", "ree"] : ["three three three three"];
    expect(after.lines).toEqual(["one", "two", ...three, row, "end"]);
    screen.log(["four"]);
    expect(emulate(written.at(-1)!, size, after).lines).toEqual(["one", "two", ...three, "four", row, "end"]);
  });

  it("shows as much of the log again as there is room for", () => {
    const { screen, written, size } = terminal(40);
    screen.log(Array.from({ length: 30 }, (_, line) => `line ${line}`));
    screen.show([[segment("plain", "region")]]);
    size.columns = 50;
    screen.show([[segment("plain", "region")]]);
    const { lines } = emulate(written.at(-1)!, size);
    expect(lines).toEqual([...Array.from({ length: 8 }, (_, line) => `line ${line + 22}`), "region"]);
  });

  it("prints the log above the region and gives the cursor back at the end", () => {
    const { screen, written } = terminal(40);
    screen.show([[segment("plain", "region")]]);
    screen.log(["happened"]);
    expect(written[1]!.indexOf("happened")).toBeLessThan(written[1]!.indexOf("region"));
    screen.close();
    expect(written.at(-1)).toContain("\x1b[?25h");
    screen.close();
    expect(written).toHaveLength(3);
  });

  it("cuts rows so that they never wrap, also where characters are wide", () => {
    expect(plainText(cutRow([segment("plain", "abc"), segment("dim", "defgh")], 6))).toBe("abcde…");
    expect(widthOf("日本")).toBe(4);
    expect(widthOf(plainText(cutRow([segment("plain", "日本語です")], 5)))).toBeLessThanOrEqual(5);
  });
});
