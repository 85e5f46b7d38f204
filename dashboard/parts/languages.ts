import { getFiletypeFromFileName } from "@pierre/diffs";
import { colouredLanguages } from "./coloured-languages.ts";

/** The language whose colours a file is shown in. */
export function languageOf(name: string): ReturnType<typeof getFiletypeFromFileName> {
  const language = getFiletypeFromFileName(name);
  return colouredLanguages.has(language) ? language : "text";
}
