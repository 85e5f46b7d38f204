import { type Loader, type TransformFailure, type TransformOptions, transform } from "esbuild";
import { parseAllDocuments } from "yaml";
import type { Finding } from "../../domain/gate/finding.ts";
import { itemAt, present } from "../../domain/known.ts";
import { yamlDepth } from "../../domain/plan/yaml-depth.ts";
import { syntaxError } from "../syntax-stages.ts";
import { type FileChange, staticFinding } from "./changes.ts";

interface Fault {
  readonly line: number | null;
  readonly message: string;
}
type Parser = (text: string) => Promise<Fault | null>;

const loaders: Record<string, Loader> = {
  ts: "ts",
  mts: "ts",
  cts: "ts",
  tsx: "tsx",
  js: "jsx",
  mjs: "jsx",
  cjs: "jsx",
  jsx: "jsx",
};

/** Checks whether a changed file still parses. Ignores a file that did not parse before either. */
export async function checkSyntax(change: FileChange): Promise<Finding[]> {
  const parser = parserFor(change.path);
  if (parser === null || change.after === null || change.after === change.before) return [];
  const fault = await parser(change.after);
  if (fault === null) return [];
  const samePlace = change.before !== null && parserFor(change.formerPath ?? "") === parser;
  if (samePlace && (await parser(change.before)) !== null) return [];
  if (parser === parseCss) {
    // Browsers skip broken parts of a style sheet; the rest works.
    const message = `${change.path} has a rule that cannot be parsed: ${fault.message}`;
    return [staticFinding("syntax-error", "medium", message, { file: change.path, line: fault.line })];
  }
  return [syntaxError(change.path, fault.line, fault.message)];
}

function parserFor(path: string): Parser | null {
  const name = path.slice(path.lastIndexOf("/") + 1).toLowerCase();
  if (/\{\{|\{%/.test(path)) return null; // a template's file
  const extension = name.slice(name.lastIndexOf(".") + 1);
  if (extension === "json") return isLenientJson(path, name) ? parseLenientJson : parseJson;
  if (extension === "jsonc" || extension === "json5") return parseLenientJson;
  if (extension === "yaml" || extension === "yml") return parseYaml;
  if (extension === "css") return parseCss;
  if (/\.d\.[cm]?ts$/.test(name)) return parseDeclarations;
  if (!Object.hasOwn(loaders, extension)) return null;
  return present(scripts[extension], extension);
}

/** Whether the tools for this JSON file accept comments and trailing commas. */
function isLenientJson(path: string, name: string): boolean {
  if (/(?:^|\/)\.(?:vscode|devcontainer|zed)\//.test(path)) return true;
  return /^(?:[tj]sconfig\b.*|\.?(?:eslintrc|babelrc|swcrc|jshintrc|hintrc)(?:\.json)?|(?:biome|deno|turbo|nx|wrangler|typedoc|api-extractor|devcontainer|renovate|language-configuration|tsdoc-metadata)\.json|.*\.code-workspace)$/.test(
    name,
  );
}

const parseJson: Parser = async (text) => {
  try {
    JSON.parse(text);
    return null;
  } catch (error) {
    // V8 does not always report the position; esbuild does, unless it is more lenient.
    const message = error instanceof Error ? error.message : String(error);
    return (await parseScript(text, { loader: "json" })) ?? { line: null, message };
  }
};

/** JSONC and JSON5 are JavaScript expressions. */
const parseLenientJson: Parser = async (text) =>
  text.trim() === "" ? null : await parseScript(`(${text}\n)`, { loader: "js" });

/** We do not parse deeper or longer YAML, which people do not write. */
const deepestYaml = 200;
const longestYaml = 1024 * 1024;

const parseYaml: Parser = async (text) => {
  // The library recurses, and the process dies if V8 runs out of stack while compiling a pattern.
  if (text.length > longestYaml || yamlDepth(text) > deepestYaml) return null;
  // Tools disagree about duplicate keys, and unknown tags belong to the tool that reads the file.
  const documents = parseAllDocuments(text, { uniqueKeys: false, logLevel: "silent", prettyErrors: false });
  for (const document of Array.isArray(documents) ? documents : []) {
    const error = document.errors[0];
    if (error === undefined) continue;
    if (/\{\{|\{%|<%/.test(text)) return null; // a template of Helm, Jinja or ERB, not yet YAML
    return { line: text.slice(0, error.pos[0]).split("\n").length, message: itemAt(error.message.split("\n"), 0) };
  }
  return null;
};

const parseCss: Parser = async (text) => {
  if (/\{\{|\{%|<%/.test(text)) return null;
  return await parseScript(text, { loader: "css" });
};

const scripts: Record<string, Parser> = Object.fromEntries(
  Object.entries(loaders).map(([extension, loader]) => [
    extension,
    async (text: string) => await parseCode(text, loader),
  ]),
);

/** Parses a declaration file, which may omit initializers that esbuild requires of code. */
const parseDeclarations: Parser = async (text) =>
  await parseScript(text, { loader: "ts" }, /^The constant ".+" must be initialized$/);

async function parseCode(text: string, loader: Loader): Promise<Fault | null> {
  const experimentalDecorators = { tsconfigRaw: { compilerOptions: { experimentalDecorators: true } } };
  const fault = await parseScript(text, { loader, ...(loader === "jsx" ? {} : experimentalDecorators) });
  if (fault === null || loader !== "jsx") return fault;
  if (/<%|\{%/.test(text)) return null; // a template
  // Flow's annotations resemble TypeScript's; we cannot say more about such a file.
  return /@flow\b/.test(text) ? null : fault;
}

/** Returns the first error or, for style sheets, the first warning about syntax. */
async function parseScript(text: string, options: TransformOptions, ignore = /(?!)/): Promise<Fault | null> {
  try {
    const { warnings } = await transform(text, { ...options, logLevel: "silent", target: "esnext" });
    const warning = warnings.find((warning) => warning.id === "css-syntax-error");
    return warning === undefined ? null : { line: warning.location?.line ?? null, message: warning.text };
  } catch (error) {
    if (!isTransformFailure(error)) throw error;
    const first = error.errors.find((one) => !ignore.test(one.text));
    if (first === undefined && error.errors.length > 0) return null;
    return { line: first?.location?.line ?? null, message: first?.text ?? error.message };
  }
}

function isTransformFailure(error: unknown): error is TransformFailure {
  return error instanceof Error && "errors" in error && Array.isArray(error.errors);
}
