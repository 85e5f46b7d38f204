import { resolve } from "node:path";

/** The settings, from the environment. Throws with the name of the setting that is wrong. */
export function readConfig(env) {
  const port = Number(env.PORT ?? 3000);
  if (!Number.isInteger(port) || port < 0 || port > 65535) {
    throw new Error(`PORT is "${env.PORT}", but has to be a number from 0 to 65535.`);
  }
  return {
    host: env.HOST ?? "127.0.0.1", // this machine only, until someone decides otherwise
    port,
    dataFile: resolve(env.GUESTBOOK_DATA ?? "data/guestbook.jsonl"),
  };
}
