interface PageParameters {
  skip?: number;
  cursor?: string;
}

interface Page {
  total_count?: number;
  next_cursor?: string | null;
}

/**
 * Yield the items of all pages of a list.
 *
 * @param load loads the page with these query parameters.
 * @param itemsOf returns the items of a page.
 */
export async function* pages<P extends Page, Item>(
  load: (parameters: PageParameters) => Promise<{ data?: P | undefined }>,
  itemsOf: (page: P) => readonly Item[],
): AsyncGenerator<Item, void, undefined> {
  let parameters: PageParameters | undefined = {};
  let skip = 0;
  while (parameters) {
    const { data: page }: { data?: P | undefined } = await load(parameters);
    if (!page) return;
    const items = itemsOf(page);
    yield* items;
    skip += items.length;
    if (page.next_cursor) parameters = { cursor: page.next_cursor };
    else if (items.length > 0 && page.total_count !== undefined && skip < page.total_count) parameters = { skip };
    else parameters = undefined;
  }
}
