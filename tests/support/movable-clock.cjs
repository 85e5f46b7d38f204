// Moves the time of day of a process by an hour at SIGUSR2.
const Real = Date;
let shiftMs = 0;
globalThis.Date = class extends Real {
  constructor(...given) {
    if (given.length === 0) super(Real.now() + shiftMs);
    else super(...given);
  }
  static now() {
    return Real.now() + shiftMs;
  }
};
process.on("SIGUSR2", () => {
  shiftMs += 3_600_000;
});
