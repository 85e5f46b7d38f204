/** For a link among links to other states of one page: it is current if its whole address is. */
export const asWhole = { exact: true, includeSearch: true } as const;
