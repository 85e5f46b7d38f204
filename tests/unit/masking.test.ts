import { describe, expect, it } from "vitest";
import { createCut, createMask } from "../../src/coordinator/masking/masking.ts";

// W12: a secret is masked in every form in which tools print it, wherever its output is cut.

const token = 'tok/1234 "abc"&<äöü🦀>+987654321';
const pem = "-----BEGIN KEY-----\nMIIabcdefghijklmnopqrst\nshort1\nend=\n-----END-----";
const secrets = { TOKEN: token, PEM: pem };
const mask = createMask(secrets);

const html = (value: string): string =>
  value.replace(/[&<>"']/g, (one) => ({ "&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;", "'": "&#39;" })[one]!);
const unicode = (value: string, pattern = /[^ -~]|[&<>"/]/g): string =>
  [...value.matchAll(/[\s\S]/g)]
    .map(([one]) => (one.match(pattern) ? `\\u${one.charCodeAt(0).toString(16).padStart(4, "0")}` : one))
    .join("");
const hexOf = (value: string): string[] => Buffer.from(value).toString("hex").match(/../g)!;
const dump = (value: string, line: (offset: string, bytes: Buffer) => string): string => {
  const bytes = Buffer.from(value);
  const lines: string[] = [];
  for (let at = 0; at < bytes.length; at += 16)
    lines.push(line(at.toString(16).padStart(8, "0"), bytes.subarray(at, at + 16)));
  return lines.join("\n");
};
const shown = (bytes: Buffer): string => bytes.toString("latin1").replace(/[^ -~]/g, ".");
const colours = (value: string): string => [...value].map((one) => `\u001b[3${one.length}m${one}`).join("\u001b[0m");

const forms: Record<string, (value: string) => string> = {
  "as it is": (value) => value,
  "in a URL": encodeURIComponent,
  "in JSON": (value) => JSON.stringify({ value }),
  "in JSON within JSON": (value) => JSON.stringify({ text: JSON.stringify({ value }) }),
  "in JSON that escapes slashes": (value) => JSON.stringify(value).replaceAll("/", "\\/"),
  "in JSON that is plain ASCII": (value) => unicode(value),
  "in JSON, all of it escaped": (value) => unicode(value, /./s),
  "in such JSON within JSON": (value) => JSON.stringify({ text: unicode(value, /./s) }),
  "in HTML": html,
  "in HTML by numbers": (value) => [...value].map((one) => `&#x${one.codePointAt(0)!.toString(16)};`).join(""),
  "in JSON with HTML escaped": (value) =>
    JSON.stringify(value).replace(/[<>&]/g, (one) => `\\u00${one.charCodeAt(0).toString(16)}`),
  "in base64": (value) => Buffer.from(value).toString("base64"),
  "in base64 that is wrapped": (value) => Buffer.from(value).toString("base64").replace(/.{20}/g, "$&\n"),
  "in base64 with its slashes escaped": (value) => Buffer.from(value).toString("base64").replaceAll("/", "\\/"),
  "in hexadecimal": (value) => hexOf(value).join(""),
  "in hexadecimal with spaces": (value) => hexOf(value).join(" "),
  "in hexadecimal with colons": (value) => hexOf(value).join(":").toUpperCase(),
  "in pairs of bytes": (value) => hexOf(value).join("").replace(/.{4}/g, "$& "),
  "as an array of C": (value) =>
    hexOf(value)
      .map((one) => `0x${one}`)
      .join(", "),
  "as Python prints bytes": (value) =>
    hexOf(value)
      .map((one) => `\\x${one}`)
      .join(""),
  "as git quotes names": (value) =>
    [...Buffer.from(value)].map((one) => (one > 126 ? `\\${one.toString(8)}` : String.fromCharCode(one))).join(""),
  "by hexdump -C": (value) =>
    dump(value, (at, bytes) => `${at}  ${bytes.toString("hex").replace(/../g, "$& ").padEnd(48)} |${shown(bytes)}|`),
  "by xxd": (value) =>
    dump(value, (at, bytes) => `${at}: ${bytes.toString("hex").replace(/.{4}/g, "$& ").padEnd(40)} ${shown(bytes)}`),
  "by od -tx1": (value) =>
    dump(value, (at, bytes) => `${at.slice(1)} ${bytes.toString("hex").replace(/../g, "$& ").trim()}`),
  "with each sign in a colour": colours,
  "with colours in HTML": (value) => colours(html(value)),
  "with links and titles in it": (value) =>
    `${value.slice(0, 5)}\u001b]8;;http://x\u0007${value.slice(5)}\u001b]0;t\u001b\\`,
  "within a title of the terminal": (value) => `\u001b]0;${value}\u0007`,
};

describe("a mask", () => {
  it.each(Object.keys(forms))("covers a secret %s, and what is around it stays", (name) => {
    for (const [secret, value] of Object.entries(secrets)) {
      const covered = mask(`before it\n${forms[name]!(value)}\nafter it`);
      expect(covered).toContain(`[secret ${secret}]`);
      expect(covered).toMatch(/^before it\n[\s\S]*\nafter it$/);
      expect(mask(covered)).toBe(covered);
      for (const part of [value.slice(4, 14), value.slice(-8), hexOf(value).slice(3, 9).join(" ")])
        expect(covered).not.toContain(part);
    }
  });

  it("leaves text alone that only looks like an escape or a dump", () => {
    const text =
      'C:\\new\\x&nbsp;&amp; \u001b[31mred\u001b[0m \\u00e4 {"a":"b\\n"}\n00000000: 6162 6364  abcd\n31, 32, 33\n';
    expect(mask(text)).toBe(text);
    expect(createMask({})(text)).toBe(text);
  });

  it("shows part of a text without half a secret at its ends", () => {
    const text = `${"x".repeat(10)}${token}${"y".repeat(10)}`;
    for (let from = 0; from <= text.length; from += 1) {
      const parts = [mask.within(text, 0, from), mask.within(text, from, text.length)];
      for (const part of parts) expect(part.replaceAll("[secret TOKEN]", "")).toMatch(/^x*y*$/);
    }
  });

  it.each([
    ["backslashes", "\\"],
    ["begun escapes of JSON", "\\u00"],
    ["begun titles", "\u001b]0;"],
    ["begun colours", "\u001b[3"],
    ["begun entities", "&#x"],
    ["digits with spaces", "74 6f "],
    ["lines of a dump", "00000000: 746f 6b2f 3132  tok/12\n"],
    ["beginnings of a secret", token.slice(0, 12)],
    ["line ends", "\n"],
    ["beginnings of a token", "wst_attempt."],
  ])("takes a mebibyte of %s in little time", (_, part) => {
    const text = part.repeat(Math.ceil((1024 * 1024) / part.length));
    const begun = performance.now();
    mask(text);
    createCut(secrets, 256 * 1024)(Buffer.from(text));
    expect(performance.now() - begun).toBeLessThan(8_000);
  });
});

/** Numbers that depend only on the seed (mulberry32). */
function random(seed: number): (below: number) => number {
  let state = seed;
  return (below) => {
    state = (state + 0x6d2b79f5) | 0;
    let t = Math.imul(state ^ (state >>> 15), 1 | state);
    t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t;
    return ((t ^ (t >>> 14)) >>> 0) % below;
  };
}

/** What a watcher stores of output that arrives in pieces, continuing where it stopped. */
function storedPieces(output: Buffer, sizes: () => number): string {
  const readBytes = 256 * 1024;
  const cut = createCut(secrets, readBytes);
  const pieces: string[] = [];
  let [offset, arrived] = [0, 0];
  while (offset < output.length) {
    arrived = Math.min(output.length, arrived + sizes());
    const chunk = output.subarray(offset, Math.min(arrived, offset + readBytes));
    const isWhole = arrived === output.length && chunk.length < readBytes;
    const data = isWhole ? chunk : cut(chunk);
    pieces.push(mask(data.toString("utf8")));
    offset += data.length;
  }
  return pieces.join("");
}

describe("output that is masked in pieces", () => {
  const seeds = (process.env.WAVESMITH_SEEDS ?? "1-12").split("-").map(Number);
  const all = Array.from({ length: (seeds[1] ?? seeds[0]!) - seeds[0]! + 1 }, (_, index) => seeds[0]! + index);

  it.each(all)("shows no secret wherever it is cut, in lines or in one long line (WAVESMITH_SEEDS=%i)", (seed) => {
    const next = random(seed);
    const hasLines = seed % 2 === 0;
    // A dump is made of lines.
    const names = Object.keys(forms).filter((name) => hasLines || !name.startsWith("by "));
    const parts = Array.from({ length: 60 }, () => {
      const value = next(2) === 0 || !hasLines ? token : pem;
      const form = forms[names[next(names.length)]!]!(value);
      const noise = (hasLines ? "some words\n" : "some words, ").repeat(next(700));
      return hasLines ? `${noise}\n${form}\n` : `${noise}${form.replaceAll("\n", "")}`;
    });
    const output = Buffer.from(parts.join(""));
    const stored = storedPieces(output, () => 1 + next(hasLines ? 400 : 100_000));
    expect(stored).toContain("[secret TOKEN]");
    expect(mask(stored)).toBe(stored);
    expect(stored).not.toContain("\ufffd");
    for (const part of [token.slice(4, 12), "987654321", "abcdefghijklmnop"]) expect(stored).not.toContain(part);
  });

  it("is not split within a secret that repeats itself or another one", () => {
    const cut = createCut({ A: "abcab", B: "bcabcab" }, 256 * 1024);
    const line = Buffer.from(`${"x".repeat(70_000)}abcab`);
    expect(cut(line).toString()).toBe("x".repeat(70_000));
  });
});
