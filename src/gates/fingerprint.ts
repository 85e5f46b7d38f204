import { createHash } from "node:crypto";
import type { Finding } from "../domain/gate/finding.ts";
import { toRepositoryPath, treeRelative } from "./text.ts";

/**
 * Returns the same text for the same findings, whatever their order, places and run times (W7).
 * Digits inside a name (`test_2`) stay, because they distinguish tests.
 */
export function fingerprint(findings: readonly Finding[]): string {
  const parts = findings.map((finding) => {
    const file = finding.file === null ? null : normalise(toRepositoryPath(finding.file));
    return JSON.stringify([finding.rule, finding.severity, file, normalise(treeRelative(finding.message))]);
  });
  return createHash("sha256").update(parts.sort().join("\n")).digest("hex");
}

function normalise(text: string): string {
  return text
    .replace(/(?:\/private)?\/(?:tmp|var\/folders|var\/tmp)\/[^\s:'")]*/g, "<temp>")
    .replace(/\b0x[0-9a-f]+\b/gi, "<address>")
    .replace(/\b(?=[0-9a-f]*\d)(?=[0-9a-f]*[a-f])[0-9a-f]{7,}\b/gi, "<hash>")
    .replace(/(?<![\p{L}_\d])\d+(?:[.,:]\d+)*\s?(?:[nµm]?s|min|sec(?:onds?)?|minutes?)?(?![\p{L}_])/gu, "#")
    .replace(/(?<![\p{L}_])\d+/gu, "#")
    .replace(/\s+/g, " ")
    .trim();
}
