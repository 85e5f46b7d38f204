// Archives are packed and unpacked by `tar` in an isolation of its own, so that a hostile one
// reaches no further than a job could.
import type { IncomingMessage, ServerResponse } from "node:http";
import { pipeline } from "node:stream/promises";
import { guestFolder } from "../files/volume.ts";
import { finish, startCommand } from "../jobs/command.ts";
import type { GuestParts } from "../parts.ts";

/**
 * Streams a folder as tar. When packing fails midway the reply is torn, so that half an archive
 * never looks whole.
 */
export async function packFolder(parts: GuestParts, path: string, response: ServerResponse): Promise<void> {
  const argv = ["tar", "-cf", "-", `--exclude=./${guestFolder}`, "."];
  const command = await startCommand(parts, { argv, cwd: path, env: {}, writable: [], stdin: null });
  response.on("close", () => command.stop(0));
  const finished = finish(parts, command, argv);
  finished.catch(() => undefined); // Awaited below, once the stream has ended.
  for await (const chunk of command.stdout) {
    if (!response.headersSent) response.writeHead(200, { "content-type": "application/x-tar" });
    if (!response.write(chunk) && !response.destroyed) await drained(response);
    if (response.destroyed) break;
  }
  await finished;
  response.end();
}

/** Unpacks a tar stream into a folder, which is made when missing. */
export async function unpackFolder(parts: GuestParts, path: string, request: IncomingMessage): Promise<void> {
  // -o: files belong to whoever unpacks, not to the owner named in the archive.
  const argv = ["tar", "-xpof", "-"];
  const command = await startCommand(parts, { argv, cwd: path, env: {}, writable: [path], stdin: "stream" });
  command.stdout.resume();
  request.on("close", () => request.complete || command.stop(0));
  // tar may have its fill before the stream ends; whether all went well is its exit code's to say.
  const sent = command.stdin === null ? Promise.resolve() : pipeline(request, command.stdin).catch(() => undefined);
  await finish(parts, command, argv);
  await sent;
}

function drained(response: ServerResponse): Promise<void> {
  return new Promise((resolve) => {
    response.once("drain", resolve);
    response.once("close", resolve);
  });
}
