// Look-ups whose answer an invariant promises. If it is broken, they fail here and name what is
// missing, instead of somewhere else with `undefined`.

/** Returns the value of a key that the map is known to hold. */
export function getKnown<Key, Value>(map: ReadonlyMap<Key, Value>, key: NoInfer<Key>): Value {
  const value = map.get(key);
  if (value === undefined) throw new Error(`a map lacks the key ${String(key)}`);
  return value;
}

/** Returns an item that the list or text is known to have; -1 is the last. */
export function itemAt<Item>(list: { at(index: number): Item | undefined }, index: number): Item {
  const item = list.at(index);
  if (item === undefined) throw new Error(`a list lacks item ${index}`);
  return item;
}

/** Returns a value that is known to be there; `name` is for the message when it is not. */
export function present<Value>(value: Value | null | undefined, name: string): Value {
  if (value === null || value === undefined) throw new Error(`${name} is missing`);
  return value;
}
