import { pipeline, type Readable, Transform } from "node:stream";

/**
 * The same bytes, whose number so far is told; what breaks or ends one of the two does so with the
 * other.
 */
export function counted(stream: Readable, onBytes: (bytes: number) => void): Readable {
  let bytes = 0;
  const counting = new Transform({
    transform(chunk: Buffer, _encoding, done) {
      bytes += chunk.length;
      onBytes(bytes);
      done(null, chunk);
    },
  });
  pipeline(stream, counting, () => undefined); // told to whoever reads on
  return counting;
}
