import { userInfo } from "node:os";

/** Returns the user of this process, who is recorded as the requester. */
export function requester(): string {
  try {
    return userInfo().username;
  } catch {
    return `uid ${process.getuid?.() ?? "unknown"}`; // A user id without an entry in passwd, as in some containers.
  }
}
