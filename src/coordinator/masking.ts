/** Replaces the values of secrets by their names, in every form in which tools tend to print them (W12). */
export type Mask = (text: string) => string;

/** A mask for these secrets. Values shorter than 4 characters are left alone: they would blank out ordinary text. */
export function createMask(secrets: Readonly<Record<string, string>>): Mask {
  const needles: { text: string; name: string }[] = [];
  for (const [name, value] of Object.entries(secrets)) {
    if (value.length < 4) continue;
    const forms = [
      value,
      encodeURIComponent(value),
      JSON.stringify(value).slice(1, -1),
      Buffer.from(value).toString("base64"),
      ...value.split("\n").filter((line) => line.length >= 8),
    ];
    for (const text of new Set(forms)) needles.push({ text, name });
  }
  needles.sort((a, b) => b.text.length - a.text.length);
  return (text) =>
    needles.reduce((masked, { text: needle, name }) => masked.replaceAll(needle, `[secret ${name}]`), text);
}

/** The longest text a mask looks for, so that a stream can hold that much back. */
export function longestSecret(secrets: Readonly<Record<string, string>>): number {
  return Math.max(
    0,
    ...Object.values(secrets).map((value) => Math.max(encodeURIComponent(value).length, value.length * 2)),
  );
}
