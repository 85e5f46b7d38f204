import { describe, expect, it } from "vitest";
import { terminalSvg } from "../../scripts/terminal-svg.ts";

const options = { columns: 20, rows: 3, everyMs: 100, showMs: 50, lastMs: 1_000 };

describe("a recording of a terminal", () => {
  it("has a frame for each moment at which the picture changed", async () => {
    const svg = await terminalSvg(
      [
        { atMs: 0, text: "$ run\r\n" },
        { atMs: 120, text: "\x1b[32mdone\x1b[39m 1 < 2\r" },
        { atMs: 900, text: "" },
        { atMs: 950, text: "\x1b[2Kover & out" },
      ],
      options,
    );
    expect(svg.match(/translateY/g), "two frames before the last, and the end").toHaveLength(4);
    expect(svg).toContain('<tspan x="14.0" class="c2">done</tspan><tspan x="56.0">1\u00a0&lt;\u00a02</tspan>');
    expect(svg).toContain("over\u00a0&amp;\u00a0out");
    // A row that is in every frame is in the file only once.
    expect(svg.match(/\$\u00a0run/g)).toHaveLength(1);
    expect(svg).toMatch(/animation: film 1\.1s step-end infinite/);
    expect(svg).not.toMatch(/<script|href="http/);
  });
});
