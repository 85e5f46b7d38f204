import { createReadStream } from "node:fs";
import { open, stat } from "node:fs/promises";
import { Readable } from "node:stream";
import { WavesmithError } from "../../domain/errors.ts";
import { itemAt } from "../../domain/known.ts";
import type { Sha } from "../port.ts";
import { type Git, shaPattern } from "./git.ts";

// Bundles (gitformat-bundle(5), version 2): a header that names one ref and the commits the
// receiver must have, then a pack. We write and read them ourselves, because `git bundle` needs a
// ref for the commit it sends, and before git 2.46 `git fetch` does not run fsck on a bundle.

const signature = "# v2 git bundle\n";

/** The only ref in each of our bundles. */
export const bundleRef = "refs/wavesmith/sent";

/**
 * Packs with fewer objects become loose objects, as with git's receive.unpackLimit, because lookups
 * are fast only while packs are few.
 */
const unpackBelow = 100;

export function bundleHeader(tip: Sha, prerequisites: readonly Sha[], ref: string = bundleRef): string {
  return `${signature}${prerequisites.map((sha) => `-${sha} \n`).join("")}${tip} ${ref}\n\n`;
}

/**
 * Writes a bundle of `tip` for a receiver that has `have`; null sends all refs of the repository.
 */
export async function writeBundle(
  git: Git,
  gitDir: string,
  bundle: { file: string; tip: Sha; have: Sha | null },
): Promise<void> {
  const file = await open(bundle.file, "wx", 0o600);
  try {
    await file.write(bundleHeader(bundle.tip, bundle.have === null ? [] : [bundle.have]));
    const args = ["pack-objects", "--revs", "--stdout", "-q", "--delta-base-offset"];
    const scope = bundle.have === null ? ["--all"] : ["--thin"];
    const input = `${bundle.tip}\n${bundle.have === null ? "" : `^${bundle.have}\n`}`;
    await git.run([...args, ...scope], { gitDir, input, outputFd: file.fd });
  } finally {
    await file.close();
  }
}

/**
 * Puts a bundle's objects into the authority, after fsck has checked each of them and the objects
 * they refer to. No ref changes. Rejects a bundle that requires anything but `base`. Returns the
 * tip that the bundle claims to have.
 */
export async function receiveBundle(git: Git, gitDir: string, bundle: { data: Buffer; base: Sha }): Promise<Sha> {
  const { tip, pack } = readBundle(bundle.data, bundle.base);
  const unpack = pack.readUInt32BE(8) < unpackBelow;
  const args = unpack ? ["unpack-objects", "--strict", "-q"] : ["index-pack", "--stdin", "--fix-thin", "--strict"];
  await git.run(args, { gitDir, input: pack });
  return tip;
}

/** Parses a bundle from a sandbox; fails with `guest-protocol` on anything unexpected. */
export function readBundle(data: Buffer, base: Sha): { tip: Sha; pack: Buffer } {
  const end = data.subarray(0, 4096).indexOf("\n\n");
  const [first, ...lines] = data.subarray(0, Math.max(end, 0)).toString("latin1").split("\n");
  const refs = lines.filter((line) => !line.startsWith("-"));
  const needs = lines.filter((line) => line.startsWith("-")).map((line) => line.slice(1, 41));
  const pack = data.subarray(end + 2);
  const wellFormed =
    `${first}\n` === signature &&
    refs.length === 1 &&
    shaPattern.test(itemAt(refs, 0).slice(0, 40)) &&
    needs.every((sha) => sha === base) &&
    pack.subarray(0, 4).toString("latin1") === "PACK" &&
    pack.length >= 32;
  if (!wellFormed) throw new WavesmithError("guest-protocol", "the sandbox sent a malformed bundle");
  return { tip: itemAt(refs, 0).slice(0, 40), pack };
}

/** Returns a tar stream (ustar) of one file, which is read from disk while it is sent. */
export async function tarOfFile(file: string, name: string): Promise<Readable> {
  const { size } = await stat(file);
  const header = tarHeader(name, size);
  const padding = Buffer.alloc(((512 - (size % 512)) % 512) + 1024);
  return Readable.from(
    (async function* () {
      yield header;
      yield* createReadStream(file);
      yield padding;
    })(),
    { objectMode: false },
  );
}

function tarHeader(name: string, sizeBytes: number): Buffer {
  const header = Buffer.alloc(512);
  const octal = (value: number, width: number) => `${value.toString(8).padStart(width - 1, "0")}\0`;
  header.write(name, 0, 100);
  header.write(octal(0o644, 8), 100);
  header.write(octal(0, 8), 108);
  header.write(octal(0, 8), 116);
  header.write(octal(sizeBytes, 12), 124);
  header.write(octal(0, 12), 136);
  header.write("        0", 148);
  header.write("ustar\u000000", 257);
  const sum = header.reduce((total, byte) => total + byte, 0);
  header.write(`${octal(sum, 7)} `, 148);
  return header;
}
