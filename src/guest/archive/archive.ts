// Runs `tar` in its own isolation to pack and unpack archives, so that a hostile archive reaches no
// further than a job could.
import type { IncomingMessage, ServerResponse } from "node:http";
import { pipeline } from "node:stream/promises";
import { guestFolder } from "../files/confined-volume.ts";
import { awaitCommand, startCommand } from "../jobs/command.ts";
import type { GuestParts } from "../parts.ts";

/**
 * Streams a folder as tar. If packing fails midway, the response is cut off, so that a partial
 * archive never looks complete.
 */
export async function packFolder(parts: GuestParts, path: string, response: ServerResponse): Promise<void> {
  const argv = ["tar", "-cf", "-", `--exclude=./${guestFolder}`, "."];
  const command = await startCommand(parts, { argv, cwd: path, env: {}, writable: [], stdin: null });
  response.on("close", () => command.stop(0));
  const packed = awaitCommand(parts, command, argv);
  packed.catch(() => undefined); // Awaited below, after the stream has ended.
  for await (const chunk of command.stdout) {
    if (!response.headersSent) response.writeHead(200, { "content-type": "application/x-tar" });
    if (!response.write(chunk) && !response.destroyed) await awaitDrain(response);
    if (response.destroyed) break;
  }
  await packed;
  response.end();
}

/** Unpacks a tar stream into a folder, which is created if missing. */
export async function unpackFolder(parts: GuestParts, path: string, request: IncomingMessage): Promise<void> {
  // -o: unpacked files belong to the user who unpacks them, not to the owner named in the archive.
  const argv = ["tar", "-xpof", "-"];
  const command = await startCommand(parts, { argv, cwd: path, env: {}, writable: [path], stdin: "stream" });
  command.stdout.resume();
  request.on("close", () => request.complete || command.stop(0));
  // tar may stop reading before the stream ends; its exit code decides whether it succeeded.
  const sent = command.stdin === null ? Promise.resolve() : pipeline(request, command.stdin).catch(() => undefined);
  await awaitCommand(parts, command, argv);
  await sent;
}

function awaitDrain(response: ServerResponse): Promise<void> {
  return new Promise((resolve) => {
    response.once("drain", resolve);
    response.once("close", resolve);
  });
}
