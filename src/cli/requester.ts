import { userInfo } from "node:os";

/** Who asks, for the records: the user of this process. */
export function requester(): string {
  try {
    return userInfo().username;
  } catch {
    return `uid ${process.getuid?.() ?? "unknown"}`; // A user id without an entry in passwd, as in some containers.
  }
}
