import { itemAt } from "../known.ts";

/** Estimates the maximum nesting of YAML from its brackets, indents and marks; never too low. */
export function yamlDepth(text: string): number {
  let brackets = 0;
  let deepest = 0;
  const indents: number[] = [];
  for (const line of text.split("\n")) {
    const indent = line.length - line.trimStart().length;
    while (indents.length > 0 && itemAt(indents, -1) >= indent) indents.pop();
    indents.push(indent);
    const marks = line.match(/[-?:](?=\s|$)/g)?.length ?? 0;
    for (const character of line) if (character === "[" || character === "{") brackets += 1;
    deepest = Math.max(deepest, brackets + indents.length + marks);
    for (const character of line) if (character === "]" || character === "}") brackets -= 1;
    brackets = Math.max(0, brackets);
  }
  return deepest;
}
