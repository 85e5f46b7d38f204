/** How many times work lost to infrastructure is repeated without spending a retry (W4). */
export const maxLosses = 3;
