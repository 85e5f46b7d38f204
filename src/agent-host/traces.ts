// Agents print stack traces on stderr, often of minified code, and the adapters' library prints
// each request that failed as an object. People read `logs`, so only the message is kept of them.

const frame = /^\s+at .+(?::\d+\)?|\(native\)|<anonymous>\)?)$/;
/** Bun shows the code around an error, with its line numbers; minified code has long lines. */
const minifiedCode = /^\s*\d+ \| .{200,}$/;
const caret = /^\s*\^+$/;
const dumped = /^(Error handling (?:request|notification)) \{$/;
const message = /^\s+message: (["'`]?)(.+?)\1,?$/;

/** Returns a function that gives of each line what people should read of it, or null. */
export function createTraceFilter(): (line: string) => string | null {
  /** The heading of the object that is being printed. */
  let dump: string | null = null;
  let isCode = false;
  const withoutCode = (line: string): string | null => {
    const isCaret = isCode && caret.test(line);
    isCode = minifiedCode.test(line);
    return isCode || isCaret || frame.test(line) ? null : line;
  };
  return (line) => {
    if (dump === null) {
      dump = dumped.exec(line)?.[1] ?? null;
      return dump === null ? withoutCode(line) : null;
    }
    const said = message.exec(line)?.[2];
    if (said !== undefined) return `${dump}: ${said}`;
    if (/^\s/.test(line) || line === "} {") return null;
    dump = null;
    return line === "}" ? null : withoutCode(line.replace(/^\} /, ""));
  };
}

/** Returns a text with only the messages of its stack traces. */
export function withoutTraces(text: string): string {
  const readable = createTraceFilter();
  return text
    .split("\n")
    .flatMap((line) => readable(line) ?? [])
    .join("\n");
}
