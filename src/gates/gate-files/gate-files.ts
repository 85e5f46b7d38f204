import type { CommitReader, GateFile, GateFilesRequest } from "../port.ts";
import { isTestFile } from "../test-files.ts";
import { type GateFileKind, gateFileKinds, scriptsOf } from "./kinds.ts";
import { expandCommands, runsFile, shellScripts } from "./used.ts";

const links = ["120000", "160000"];
/** Stands for a gate without a command, because one of these may be detected from the files. */
const detectableCommands = ["npm test", "make test"];

const runByGate: GateFileKind = { matches: () => true, what: "a program that a gate runs", aboutTests: false };

/** Finds changed files that decide what the gates' commands run, if their deciding part changed. */
export async function gateFiles(request: GateFilesRequest): Promise<GateFile[]> {
  const paths = [...new Set(request.changed.flatMap(({ path, from }) => (from === null ? [path] : [from, path])))];
  if (paths.length === 0) return [];
  const commands = await allCommands(request);
  const sides = [sideOf(request.before), sideOf(request.after)] as const;
  const files: GateFile[] = [];
  for (const path of paths) {
    const kind = kindOf(path, commands);
    if (kind === null) continue;
    const [before, after] = await Promise.all([
      partsAt(sides[0], path, kind, commands),
      partsAt(sides[1], path, kind, commands),
    ]);
    // A program that did not exist cannot have been part of a gate that passed.
    const isNew = before === "" && kind === runByGate;
    if (before !== after && !isNew)
      files.push({ file: path, what: kind.what, aboutTests: kind.aboutTests, isNew: before === "" });
  }
  return files;
}

function kindOf(path: string, commands: readonly string[]): GateFileKind | null {
  if (/(?:^|\/)node_modules\//.test(path)) return null; // the critic reports folders of packages
  const kind = gateFileKinds.find(({ matches }) => matches(path));
  if (kind !== undefined) return kind;
  return !isTestFile(path) && runsFile(commands, path) ? runByGate : null;
}

async function allCommands({ before, commands }: GateFilesRequest): Promise<string[]> {
  const givenCommands = commands.flatMap((command) => (command === null ? detectableCommands : [command]));
  const makefiles = await Promise.all(["GNUmakefile", "makefile", "Makefile"].map((path) => textAt(before, path)));
  const files = {
    scripts: scriptsOf(await textAt(before, "package.json")),
    makefile: makefiles.find((text) => text !== null) ?? null,
  };
  const readScripts = new Set<string>();
  let commandsSoFar = expandCommands(givenCommands, files);
  for (
    let path = nextScript(commandsSoFar, readScripts);
    path !== undefined;
    path = nextScript(commandsSoFar, readScripts)
  ) {
    readScripts.add(path);
    const lines = (await textAt(before, path))?.slice(0, longestScript).split(/\r?\n/) ?? [];
    commandsSoFar = expandCommands([...commandsSoFar, ...lines.filter((line) => !/^\s*(?:#|$)/.test(line))], files);
  }
  return commandsSoFar;
}

const maxScripts = 20;
const longestScript = 64 * 1024;

/** Returns a script that the commands run and that we have not read yet. */
const nextScript = (commands: readonly string[], readScripts: ReadonlySet<string>): string | undefined =>
  readScripts.size < maxScripts ? shellScripts(commands).find((path) => !readScripts.has(path)) : undefined;

async function textAt(reader: CommitReader, path: string): Promise<string | null> {
  const bytes = await reader.read(path);
  return bytes === null ? null : bytes.toString("utf8").replace(/^\uFEFF/, "");
}

interface Side {
  readonly reader: CommitReader;
  /** Lists the modes on demand, because most changes touch no gate file. */
  modeOf(path: string): Promise<string | undefined>;
}

function sideOf(reader: CommitReader): Side {
  let modes: Promise<Map<string, string>> | null = null;
  const list = async () => new Map((await reader.list()).map(({ path, mode }) => [path, mode]));
  return {
    reader,
    modeOf: async (path) => {
      modes ??= list();
      return (await modes).get(path);
    },
  };
}

/** Returns the deciding part of a file; empty when there is none or no file. */
async function partsAt(
  { reader, modeOf }: Side,
  path: string,
  kind: GateFileKind,
  commands: readonly string[],
): Promise<string> {
  const text = await textAt(reader, path);
  if (text === null) return "";
  const mode = await modeOf(path);
  // A link counts as its target, and that file may change under any name.
  if (mode !== undefined && links.includes(mode)) return `a link to ${text}`;
  return kind.parts === undefined ? `${mode}\n${text}` : kind.parts(text, commands);
}
