import { pipeline, type Readable, Transform } from "node:stream";

/** Passes bytes through and counts them. An error or the end of either stream reaches the other. */
export function countBytes(stream: Readable, onBytes: (bytes: number) => void): Readable {
  let bytes = 0;
  const counting = new Transform({
    transform(chunk: Buffer, _encoding, done) {
      bytes += chunk.length;
      onBytes(bytes);
      done(null, chunk);
    },
  });
  pipeline(stream, counting, () => undefined); // The reader of `counting` gets the error.
  return counting;
}
