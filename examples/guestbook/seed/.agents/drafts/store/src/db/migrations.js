// Formats of the log. A log names its format in its first record; one without a name is of format 1.
//   1: entries without hearts
//   2: entries have `hearts`

export const currentFormat = 2;

const steps = {
  1: (record) => (record.type === "added" ? { ...record, entry: { ...record.entry, hearts: 0 } } : record),
};

/** Brings records to the current format. `changed` says whether there was anything to do. */
export function migrate(records) {
  const named = records[0]?.type === "format" ? records[0].format : null;
  let format = named ?? (records.length === 0 ? currentFormat : 1);
  if (format > currentFormat) {
    throw new Error(`The data is of format ${format}; this program knows ${currentFormat}. Please use a newer version.`);
  }
  let migrated = records.filter((record) => record.type !== "format");
  for (; format < currentFormat; format += 1) migrated = migrated.map(steps[format]);
  return { records: [{ type: "format", format: currentFormat }, ...migrated], changed: named !== currentFormat };
}
