/** More than this no commit or request has in practice; a page has 100 items. */
const mostPages = 10;

/** Reads pages of 100 until one is not full, so that no failed check or review is overlooked. */
export async function allPages<Item>(read: (page: number) => Promise<readonly Item[]>): Promise<Item[]> {
  const items: Item[] = [];
  for (let page = 1; page <= mostPages; page += 1) {
    const found = await read(page);
    items.push(...found);
    if (found.length < 100) break;
  }
  return items;
}
