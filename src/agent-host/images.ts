import { readFileSync, realpathSync, statSync } from "node:fs";
import { extname, join, relative } from "node:path";
import { AgentFault } from "./agent-fault.ts";

/** An image as the protocol takes it; the data is in base64. */
export interface PromptImage {
  readonly data: string;
  readonly mimeType: string;
}

/** Providers accept images of 5 MB in base64. */
const maxImageBytes = 3.5 * 1024 * 1024;

/** Reads the images of the instructions from the tree. Fails with `AgentFault`. */
export function readImages(tree: string, paths: readonly string[]): readonly PromptImage[] {
  return paths.map((path) => ({ data: readImage(tree, path).toString("base64"), mimeType: typeOf(path) }));
}

function typeOf(path: string): string {
  const type = extname(path).slice(1).toLowerCase();
  return `image/${type === "jpg" ? "jpeg" : type}`;
}

function readImage(tree: string, path: string): Buffer {
  const refuse = (problem: string): never => {
    throw new AgentFault({ end: "not-started", detail: `the image ${path} of its instructions ${problem}` });
  };
  try {
    const real = realpathSync(join(tree, path));
    if (relative(realpathSync(tree), real).startsWith("..")) refuse("is a link to a file outside its tree");
    const { size } = statSync(real);
    if (size > maxImageBytes) refuse(`is ${(size / 1024 / 1024).toFixed(1)} MB: make it smaller than 3.5 MB`);
    return readFileSync(real);
  } catch (error) {
    if (error instanceof AgentFault) throw error;
    const code = (error as NodeJS.ErrnoException).code;
    return refuse(code === "ENOENT" ? "is not in its tree: add it to the project" : `cannot be read (${code})`);
  }
}
