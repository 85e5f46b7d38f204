import { constants } from "node:fs";
import { type FileHandle, open } from "node:fs/promises";
import { connect, type Socket } from "node:net";
import { basename, dirname } from "node:path";
import { WavesmithError } from "../../domain/errors.ts";

/** The longest address of a unix socket, without its final NUL. */
const maxAddressLength = 107;

/**
 * Connects to a unix socket with a path of any length: beyond the system's limit it goes through
 * the open folder. Fails with `environment` when that needs /proc and there is none.
 */
export async function connectToSocket(path: string): Promise<Socket> {
  if (Buffer.byteLength(path) <= maxAddressLength) return connected(path);
  const folder = await openFolder(path);
  try {
    return await connected(`/proc/self/fd/${folder.fd}/${basename(path)}`);
  } finally {
    await folder.close();
  }
}

async function openFolder(path: string): Promise<FileHandle> {
  if (process.platform !== "linux") {
    throw new WavesmithError("environment", `the socket's path ${path} is longer than ${maxAddressLength} bytes`, {
      remedy: "choose a data directory with a shorter path (--data)",
    });
  }
  return open(dirname(path), constants.O_RDONLY | constants.O_DIRECTORY);
}

function connected(address: string): Promise<Socket> {
  return new Promise((resolve, reject) => {
    const socket = connect(address);
    socket.once("error", reject);
    socket.once("connect", () => {
      socket.off("error", reject);
      resolve(socket);
    });
  });
}
