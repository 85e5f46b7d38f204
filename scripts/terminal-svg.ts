import xterm from "@xterm/headless";

// Turns what a program wrote to a terminal into an animated SVG, with no script in it: a strip of
// frames that moves up step by step.

/** A piece of output and when it was written, in milliseconds from the start. */
export interface Piece {
  readonly atMs: number;
  readonly text: string;
}

export interface FilmOptions {
  readonly columns: number;
  readonly rows: number;
  /** Time between frames of the recording. */
  readonly everyMs: number;
  /** How long each frame is shown, and the last one. */
  readonly showMs: number;
  readonly lastMs: number;
}

const columnWidth = 8.4;
const rowHeight = 18;
const margin = 14;
const colours = ["#5c6370", "#e06c75", "#98c379", "#e5c07b", "#61afef", "#c678dd", "#56b6c2", "#dcdfe4"];

/** Returns the SVG. Frames that show the same are one frame. */
export async function terminalSvg(pieces: readonly Piece[], options: FilmOptions): Promise<string> {
  const frames = await framesOf(pieces, options);
  const rows = new Map<string, string>();
  const idOf = (row: string): string => {
    const id = rows.get(row) ?? `r${rows.size}`;
    rows.set(row, id);
    return id;
  };
  const width = Math.ceil(options.columns * columnWidth + 2 * margin);
  const height = options.rows * rowHeight + 2 * margin;
  const strip = frames.flatMap((frame, index) =>
    frame.flatMap((row, line) =>
      row === "" ? [] : `<use href="#${idOf(row)}" y="${index * height + margin + (line + 1) * rowHeight - 5}"/>`,
    ),
  );
  const symbols = [...rows].map(([row, id]) => `<text id="${id}">${row}</text>`);
  return `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${width} ${height}" width="${width}" height="${height}">
<style>
text { font: 14px ui-monospace, SFMono-Regular, Menlo, Consolas, "DejaVu Sans Mono", monospace; fill: #dcdfe4 }
${colours.map((colour, index) => `.c${index} { fill: ${colour} }`).join(" ")} .b { font-weight: bold } .d { fill-opacity: 0.6 }
${animation(frames.length, height, options)}
</style>
<rect width="${width}" height="${height}" rx="8" fill="#1e2127"/>
<defs>${symbols.join("\n")}</defs>
<g class="film">
${strip.join("\n")}
</g>
</svg>
`;
}

function animation(count: number, height: number, { showMs, lastMs }: FilmOptions): string {
  const total = (count - 1) * showMs + lastMs;
  const steps = Array.from({ length: count }, (_, index) => {
    const percent = ((100 * index * showMs) / total).toFixed(3);
    return `${percent}% { transform: translateY(-${index * height}px) }`;
  });
  const last = `100% { transform: translateY(-${(count - 1) * height}px) }`;
  return `.film { animation: film ${total / 1000}s step-end infinite } @keyframes film { ${[...steps, last].join(" ")} }`;
}

/** Each frame as the markup of its rows. */
async function framesOf(pieces: readonly Piece[], { columns, rows, everyMs }: FilmOptions): Promise<string[][]> {
  const terminal = new xterm.Terminal({ cols: columns, rows, allowProposedApi: true, scrollback: 0 });
  const frames: string[][] = [];
  const take = (): void => {
    const frame = Array.from({ length: rows }, (_, line) => rowMarkup(terminal, line));
    if (frame.join("\n") !== frames.at(-1)?.join("\n")) frames.push(frame);
  };
  let next = everyMs;
  for (const { atMs, text } of pieces) {
    // All frames of a long silence are the same.
    if (atMs >= next) take();
    while (atMs >= next) next += everyMs;
    await new Promise<void>((done) => terminal.write(text, done));
  }
  take();
  terminal.dispose();
  return frames;
}

/** Each run of one style begins at its own column: not every font has glyphs of one width. */
function rowMarkup(terminal: InstanceType<typeof xterm.Terminal>, line: number): string {
  const buffer = terminal.buffer.active;
  const row = buffer.getLine(buffer.baseY + line);
  const runs: { readonly column: number; readonly style: string; text: string }[] = [];
  const width = row?.translateToString(true).length ?? 0;
  for (let column = 0; column < width; column += 1) {
    const cell = row!.getCell(column)!;
    const colour = cell.isFgPalette() ? [`c${cell.getFgColor() % 8}`] : [];
    const style = [...colour, ...(cell.isBold() ? ["b"] : []), ...(cell.isDim() ? ["d"] : [])].join(" ");
    const text = cell.getChars() || " ";
    const last = runs.at(-1);
    if (last !== undefined && last.style === style) last.text += text;
    // A run begins with no space, because some viewers drop it.
    else if (text !== " ") runs.push({ column, style, text });
  }
  return runs.map(runMarkup).join("");
}

function runMarkup({ column, style, text }: { column: number; style: string; text: string }): string {
  const x = (margin + column * columnWidth).toFixed(1);
  const named = style === "" ? "" : ` class="${style}"`;
  return `<tspan x="${x}"${named}>${escaped(text.trimEnd())}</tspan>`;
}

/** Spaces become hard ones, because a text of SVG would lose all but one of several. */
const escaped = (text: string): string =>
  text.replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll(">", "&gt;").replaceAll(" ", "\u00a0");
