import { z } from "zod";
import type { CommitReader, DetectedTests } from "./port.ts";
import { isTestFile } from "./test-files.ts";

interface Tree {
  readonly paths: ReadonlySet<string>;
  readonly reader: CommitReader;
}
type Detector = (tree: Tree) => Promise<DetectedTests | null>;

const packageSchema = z.object({
  scripts: z.record(z.string(), z.string()).catch({}),
  packageManager: z.string().optional().catch(undefined),
});
type Package = z.infer<typeof packageSchema>;

/**
 * Detects the command that runs a repository's tests from its files: package.json, then pytest, go,
 * cargo, make. Null when there is nothing to run, such as a test script in a package without tests.
 */
export async function detectTests(reader: CommitReader): Promise<DetectedTests | null> {
  const files = await reader.list();
  const tree: Tree = { paths: new Set(files.map((file) => file.path)), reader };
  for (const detector of [detectNode, detectPytest, detectGo, detectCargo, detectMake]) {
    const detected = await detector(tree);
    if (detected !== null) return detected;
  }
  return null;
}

const detectNode: Detector = async (tree) => {
  const manifest = parsePackage(await readText(tree, "package.json"));
  const script = manifest?.scripts.test;
  if (manifest === null || script === undefined || isPlaceholder(script)) return null;
  if (!hasSomethingToRun(tree, manifest, script)) return null;
  const runner = packageManager(tree, manifest);
  return { command: `${runner} test`, runner };
};

function parsePackage(text: string | null): Package | null {
  if (text === null) return null;
  try {
    return packageSchema.safeParse(JSON.parse(text)).data ?? null;
  } catch {
    return null; // not JSON: the syntax check reports that
  }
}

/** Whether a script is npm's own placeholder, in any quoting, or does nothing. */
function isPlaceholder(script: string): boolean {
  return script.trim() === "" || /no test specified/i.test(script);
}

function packageManager(tree: Tree, manifest: Package): "npm" | "pnpm" | "yarn" {
  const declared = /^(npm|pnpm|yarn)@/.exec(manifest.packageManager ?? "")?.[1];
  if (declared !== undefined) return declared as "npm" | "pnpm" | "yarn";
  if (tree.paths.has("pnpm-lock.yaml")) return "pnpm";
  if (tree.paths.has("yarn.lock")) return "yarn";
  return "npm";
}

/**
 * Whether the tree has a test file by convention, or the script names a file or folder of the tree,
 * directly or through other scripts.
 */
function hasSomethingToRun(tree: Tree, manifest: Package, script: string, seen: readonly string[] = ["test"]): boolean {
  if ([...tree.paths].some((path) => isTestFile(path))) return true;
  const words = script.split(/[\s"'=;&|()]+/).filter((word) => word !== "" && !word.startsWith("-"));
  return words.some((word) => {
    const path = word.replace(/^\.\//, "").replace(/\/$/, "");
    if (namesFile(tree, path)) return true;
    const inner = seen.includes(word) ? undefined : manifest.scripts[word];
    return inner !== undefined && hasSomethingToRun(tree, manifest, inner, [...seen, word]);
  });
}

function namesFile(tree: Tree, path: string): boolean {
  if (path === "." || path === "") return false;
  return tree.paths.has(path) || (path.includes("/") && [...tree.paths].some((known) => known.startsWith(`${path}/`)));
}

const detectPytest: Detector = async (tree) => {
  const python = [...tree.paths].filter((path) => path.endsWith(".py") && !isInstalled(path));
  const detected: DetectedTests = { command: "python3 -m pytest -q", runner: "pytest" };
  if (python.some((path) => /(?:^|\/)(?:test_[^/]*|[^/]*_test)\.py$/.test(path))) return detected;
  // Other names count only if a configuration lists them.
  const config = await pytestConfig(tree);
  const names = /python_files|doctest-modules|doctest_modules/.test(config);
  return python.length > 0 && names ? detected : null;
};

async function pytestConfig(tree: Tree): Promise<string> {
  const sections: [string, string][] = [
    ["pytest.ini", "[pytest]"],
    ["pyproject.toml", "[tool.pytest"],
    ["setup.cfg", "[tool:pytest]"],
    ["tox.ini", "[pytest]"],
  ];
  for (const [path, section] of sections) {
    const text = await readText(tree, path);
    const start = text?.indexOf(section) ?? -1;
    if (text !== null && start >= 0) return text.slice(start);
  }
  return "";
}

const detectGo: Detector = async (tree) => {
  const tests = [...tree.paths].some((path) => path.endsWith("_test.go") && !isInstalled(path));
  return tree.paths.has("go.mod") && tests ? { command: "go test -v ./...", runner: "go" } : null;
};

const rustFilesRead = 200;

const detectCargo: Detector = async (tree) => {
  if (!tree.paths.has("Cargo.toml")) return null;
  const detected: DetectedTests = { command: "cargo test", runner: "cargo" };
  const rust = [...tree.paths].filter((path) => path.endsWith(".rs") && !isInstalled(path));
  if (rust.some((path) => /(?:^|\/)tests\//.test(path))) return detected;
  for (const path of rust.slice(0, rustFilesRead)) {
    if (/#\[(?:cfg\(test\)|(?:\w+::)*test\b)/.test((await readText(tree, path)) ?? "")) return detected;
  }
  return null;
};

const detectMake: Detector = async (tree) => {
  // The order in which make searches.
  for (const path of ["GNUmakefile", "makefile", "Makefile"]) {
    const text = await readText(tree, path);
    if (text !== null) return /^test[ \t]*::?(?!=)/m.test(text) ? { command: "make test", runner: "make" } : null;
  }
  return null;
};

function isInstalled(path: string): boolean {
  return /(?:^|\/)(?:node_modules|vendor|\.venv|venv|site-packages|target)\//.test(path);
}

async function readText(tree: Tree, path: string): Promise<string | null> {
  if (!tree.paths.has(path)) return null;
  const bytes = await tree.reader.read(path);
  return bytes === null ? null : bytes.toString("utf8").replace(/^\uFEFF/, "");
}
