type Defined<Fields> = { [Name in keyof Fields]: Exclude<Fields[Name], undefined> };

/** Leaves out the fields that are undefined, as JSON does. */
export const defined = <Fields extends object>(fields: Fields): Defined<Fields> =>
  Object.fromEntries(Object.entries(fields).filter(([, value]) => value !== undefined)) as Defined<Fields>;
