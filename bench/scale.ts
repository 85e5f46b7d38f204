import { execFile } from "node:child_process";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { median } from "./measure.ts";
import type { ScaleFigures } from "./scale-process.ts";
import type { Benchmark, Finding } from "./target.ts";

const program = fileURLToPath(new URL("./scale-process.ts", import.meta.url));
type Shape = "nothing" | "files";

async function measure(tasks: number, shape: Shape): Promise<ScaleFigures> {
  const argv = ["--import", "tsx", program, String(tasks), shape];
  const { stdout } = await promisify(execFile)(process.execPath, argv);
  return JSON.parse(stdout) as ScaleFigures;
}

/** Runs each size once per round, so that other load on the machine affects all sizes equally. */
async function measureAll(sizes: readonly number[], rounds: number, shape: Shape) {
  const found = new Map<number, ScaleFigures[]>(sizes.map((size) => [size, []]));
  for (let round = 0; round < rounds; round += 1)
    for (const size of round % 2 === 0 ? sizes : [...sizes].reverse())
      found.get(size)!.push(await measure(size, shape));
  return (size: number, key: keyof ScaleFigures) => median(found.get(size)!.map((figures) => figures[key]));
}

export const scale: Benchmark = {
  name: "scale",
  about: "what a task costs in small and in large plans, in layers of ten; `--large`: up to 2,000 tasks",
  async run({ smoke, large }) {
    const sizes = smoke ? [10, 20] : large ? [50, 200, 800, 2_000] : [50, 200, 800];
    const first = sizes[0]!;
    const of = await measureAll(sizes, smoke || large ? 1 : 3, "nothing");
    const compare = (size: number, key: "wallMs" | "statements", unit: Finding["unit"]): Finding => ({
      what: `a task that does nothing, of ${size}`,
      ours: of(size, key) / size,
      unit,
      floor: { what: `of ${first}`, value: of(first, key) / first },
      limit: 1.5,
    });
    const larger = sizes.slice(1);
    const last = larger.at(-1)!;
    const files = await measureAll([first, smoke ? last : 200], 1, "files");
    const grown = smoke ? last : 200;
    return [
      ...larger.map((size) => compare(size, "wallMs", "ms")),
      ...larger.map((size) => compare(size, "statements", "statements")),
      {
        what: `memory of the process at most, with ${last} tasks`,
        ours: of(last, "peakMegabytes"),
        unit: "MB",
        floor: { what: `with ${first}`, value: of(first, "peakMegabytes") },
        limit: 2,
      },
      {
        what: `a task that adds a file, of ${grown}: each tree has all files so far`,
        ours: files(grown, "wallMs") / grown,
        unit: "ms",
        floor: { what: `of ${first}`, value: files(first, "wallMs") / first },
        limit: null,
      },
    ];
  },
};
