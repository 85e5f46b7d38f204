import type { Finding } from "../../domain/gate/finding.ts";
import { type FileChange, staticFinding } from "./changes.ts";

const textLimitBytes = 1024 * 1024;
const binaryLimitBytes = 512 * 1024;

const media =
  /\.(?:png|jpe?g|gif|webp|avif|ico|bmp|tiff?|woff2?|ttf|otf|eot|mp[34]|m4a|wav|ogg|flac|webm|mov|pdf|svgz?)$/i;
const built =
  /\.(?:exe|dll|so|dylib|a|o|obj|lib|class|pyc|pyo|wasm|node|bin|jar|war|ear|apk|ipa|dmg|iso|msi|deb|rpm)$/i;
const archives = /\.(?:zip|tar|tgz|gz|bz2|xz|zst|7z|rar|whl|egg|gem|nupkg|crate)$/i;
const lockFiles = /(?:^|\/)(?:package-lock\.json|npm-shrinkwrap\.json|pnpm-lock\.yaml|yarn\.lock|[^/]+\.lock|go\.sum)$/;

const signatures: readonly [string, Buffer][] = [
  ["an executable", Buffer.from("\x7fELF", "latin1")],
  ["an executable", Buffer.from("MZ", "latin1")],
  ["an executable", Buffer.from("cffaedfe", "hex")],
  ["an executable", Buffer.from("cafebabe", "hex")],
  ["an archive", Buffer.from("PK\x03\x04", "latin1")],
  ["an archive", Buffer.from("1f8b", "hex")],
  ["an archive", Buffer.from("7z\xbc\xaf\x27\x1c", "latin1")],
  ["an archive", Buffer.from("fd377a585a00", "hex")],
];

/**
 * Finds files that a change made large, and programs and archives that it added. Images, sounds and
 * fonts are allowed up to the limit.
 */
export function findOddFiles(change: FileChange): Finding[] {
  if (change.deleted || change.sizeBytes === 0) return [];
  const oversized = oversize(change);
  if (oversized !== null) return [oversized];
  const description = change.binary && change.formerPath === null ? programOrArchive(change) : null;
  if (description === null) return [];
  const message = `${change.path} is ${description}, which is built, not written`;
  return [staticFinding("binary-file", "medium", message, { file: change.path })];
}

function oversize(change: FileChange): Finding | null {
  const limit = change.binary ? binaryLimitBytes : textLimitBytes;
  if (change.sizeBytes <= limit || change.formerSizeBytes > limit || lockFiles.test(change.path)) return null;
  const kind = change.binary ? "binary" : "text";
  const message = `${change.path} has ${kibibytes(change.sizeBytes)}, more than the ${kibibytes(limit)} for a ${kind} file`;
  const severity = change.binary && !media.test(change.path) ? "high" : "medium";
  return staticFinding("oversized-file", severity, message, { file: change.path });
}

function programOrArchive(change: FileChange): string | null {
  const bySignature = signatures.find(([, bytes]) => change.head.subarray(0, bytes.length).equals(bytes))?.[0];
  if (built.test(change.path)) return "an executable or object file";
  if (archives.test(change.path)) return "an archive";
  return media.test(change.path) ? null : (bySignature ?? null);
}

function kibibytes(bytes: number): string {
  return `${Math.ceil(bytes / 1024)} KiB`;
}
