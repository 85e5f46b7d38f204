// What a project remembers: one Markdown text that people may edit. Each build adds a short note.

export const maxMemoryBytes = 16 * 1024;
const maxNoteLength = 2_000;

/** The heading of a build's note, by which it is found again. */
const headingOf = (buildId: string): string => `## Build ${buildId}`;
const noteHeading = /^## Build bld_[a-z0-9]+$/;

interface Section {
  readonly heading: string;
  readonly lines: readonly string[];
}

function sectionsOf(memory: string): Section[] {
  const sections: { heading: string; lines: string[] }[] = [{ heading: "", lines: [] }];
  for (const line of memory.split("\n")) {
    if (line.startsWith("## ")) sections.push({ heading: line.trim(), lines: [line] });
    else sections.at(-1)?.lines.push(line);
  }
  return sections;
}

const textOf = (sections: readonly Section[]): string =>
  sections
    .map(({ lines }) => lines.join("\n").trim())
    .filter((text) => text !== "")
    .join("\n\n");

/**
 * Returns the memory with a build's note, which replaces its earlier one. The oldest notes are
 * removed when there is no room; people's text stays, and if that leaves no room, the memory is
 * unchanged.
 */
export function withBuildNote(memory: string, buildId: string, facts: readonly string[]): string {
  const heading = headingOf(buildId);
  const note = `${heading}\n\n${facts.map((fact) => `- ${fact}`).join("\n")}`.slice(0, maxNoteLength);
  let kept = sectionsOf(memory).filter((section) => section.heading !== heading);
  for (;;) {
    const whole = `${[textOf(kept), note].filter((text) => text !== "").join("\n\n")}\n`;
    if (Buffer.byteLength(whole) <= maxMemoryBytes) return whole;
    const oldest = kept.find((section) => noteHeading.test(section.heading));
    if (oldest === undefined) return memory;
    kept = kept.filter((section) => section !== oldest);
  }
}
