// One pass over a laid-out page: its words, blocks, links and evidence areas, with boxes in page pixels.
// Evaluated by data_gen/dom_layer.py, which documents the result. Runs although the page's own scripts are off.
(wantsCharacters) => {
  const FARTHEST_PX = 1e9; // transforms reach to infinity, which JSON hasn't
  const round = (value) => Math.round((Math.min(FARTHEST_PX, Math.max(-FARTHEST_PX, value)) || 0) * 64) / 64; // laid out in 1/64 px
  scrollTo({ left: -1e7, top: 0, behavior: "instant" });
  const originX = Math.round(scrollX); // below 0 where a right-to-left page reaches out to the left
  scrollTo({ left: 0, top: 0, behavior: "instant" });
  const box = (rect) => [round(rect.left + scrollX - originX), round(rect.top + scrollY), round(rect.width), round(rect.height)];
  const tidy = (text) => (text || "").replace(/\s+/g, " ").trim();
  const HEADINGS = /^H[1-6]$/;
  const SILENT = new Set(["SCRIPT", "STYLE", "NOSCRIPT", "TEMPLATE", "HEAD", "TITLE", "SVG", "OBJECT", "IFRAME", "SELECT", "TEXTAREA"]);
  const BREAKS = new Set(["BR", "HR", "WBR"]);
  const infoboxOf = (element) => element.closest('table[class*="infobox" i], aside[class*="infobox" i]');

  const hiddenByClip = (element, style) =>
    style.overflow !== "visible" && style.display !== "inline" && (element.offsetWidth <= 1 || element.offsetHeight <= 1);
  const MATH = "http://www.w3.org/1998/Math/MathML";
  const inLine = (element, style) =>
    style.display === "inline" || style.display === "contents" || style.display.startsWith("ruby") || element.namespaceURI === MATH;
  CLIPS
  // --- the tree as it is shown: what a shadow root holds instead of its host's children, what slots are given
  const parentOf = (element) => element.assignedSlot || element.parentElement || element.getRootNode().host || document.body;
  const childrenOf = (element) => {
    if (element.shadowRoot) return element.shadowRoot.childNodes;
    const given = element.tagName === "SLOT" ? element.assignedNodes() : [];
    return given.length ? given : element.childNodes;
  };
  const shown = (element) => element.checkVisibility({ checkOpacity: true, checkVisibilityCSS: false });

  // --- tables: the grid gives each cell its column labels
  const grids = new Map();
  const tableGrid = (table) => {
    if (grids.has(table)) return grids.get(table);
    const columnOf = new Map(), labels = [], busy = [];
    let inHead = true;
    for (const row of table.rows) {
      const cells = [...row.cells];
      const onlyHeaders = cells.length > 0 && cells.every((cell) => cell.tagName === "TH");
      inHead = inHead && (onlyHeaders || row.parentElement.tagName === "THEAD");
      let column = 0;
      for (const cell of cells) {
        while (busy[column] > 0) column++;
        columnOf.set(cell, column);
        const span = Math.min(cell.colSpan || 1, 200);
        const title = cells.length === 1 && span > 1; // over all columns: no column's label
        for (let i = column; i < column + span; i++) {
          busy[i] = cell.rowSpan || 1;
          if (inHead && !title) labels[i] = tidy(`${labels[i] || ""} ${cell.textContent}`);
        }
        column += span;
      }
      for (let i = 0; i < busy.length; i++) busy[i] = Math.max(0, (busy[i] || 0) - 1);
    }
    const header = new Set();
    for (const row of table.rows) {
      const cells = [...row.cells];
      if (!(cells.every((cell) => cell.tagName === "TH") || row.parentElement.tagName === "THEAD")) break;
      header.add(row);
    }
    const grid = { columnOf, labels, header };
    grids.set(table, grid);
    return grid;
  };
  const titleOf = (table) => {
    if (table.caption) return tidy(table.caption.textContent);
    const first = table.rows && table.rows[0];
    return first && first.cells.length === 1 ? tidy(first.cells[0].textContent) : "";
  };

  // --- blocks: the element that a piece of text belongs to
  const blocks = [], blockOf = new Map();
  let section = "";
  const blockElement = (element) => {
    const part = element.closest("tr, caption, figcaption");
    if (part) return part;
    const heading = element.closest("h1, h2, h3, h4, h5, h6");
    if (heading) return heading;
    const item = element.closest("li, dt, dd");
    if (item) return item;
    let current = element;
    while (current !== document.body && (getComputedStyle(current).display.startsWith("inline") || inLine(current, getComputedStyle(current)))) {
      current = parentOf(current);
    }
    return current;
  };
  const describe = (element) => {
    const name = element.tagName;
    if (name === "TR") {
      const table = element.closest("table");
      const cells = [...element.cells];
      if (infoboxOf(element)) {
        const kind = cells.length === 1 && cells[0].tagName === "TH" ? "heading" : "infobox_row";
        return { kind, cells, labels: cells.map(() => ""), caption: titleOf(infoboxOf(element)) };
      }
      const grid = table ? tableGrid(table) : { columnOf: new Map(), labels: [], header: new Set([element]) };
      const labels = cells.map((cell) => (grid.header.has(element) ? "" : grid.labels[grid.columnOf.get(cell)] || ""));
      return { kind: "table_row", cells, labels, caption: table ? titleOf(table) : "" };
    }
    const kind = name === "CAPTION" || name === "FIGCAPTION" ? "caption"
      : HEADINGS.test(name) ? "heading" : name === "LI" || name === "DT" || name === "DD" ? "list_item" : "paragraph";
    return { kind, cells: [], labels: [], caption: "" };
  };
  const TEXT_ELEMENTS = new Set(["P", "LI", "DT", "DD", "TR", "CAPTION", "FIGCAPTION", "PRE", "H1", "H2", "H3", "H4", "H5", "H6"]);
  const blockIndex = (element) => {
    if (blockOf.has(element)) return blockOf.get(element);
    const { kind, cells, labels, caption } = describe(element);
    const index = blocks.length;
    // a container's box may hold much more than its own text: then the box is that of its words (null here)
    blocks.push({ kind, labels, caption, section, box: TEXT_ELEMENTS.has(element.tagName) ? box(element.getBoundingClientRect()) : null });
    blockOf.set(element, index);
    cells.forEach((cell, position) => cellOf.set(cell, position));
    return index;
  };
  const cellOf = new Map();

  // --- words: runs without white space, also across elements (H<sub>2</sub>O), in reading order
  const words = [];
  const characters = []; // if wanted, beside words: [whether the first one begins its word, [code, x, y, height]...]
  const range = document.createRange();
  let run = null; // the word being put together
  const pieceBox = (node, start, end) => {
    range.setStart(node, start);
    range.setEnd(node, end);
    const rects = range.getClientRects();
    if (rects.length === 1) return rects[0].width > 0 && rects[0].height > 0 ? rects[0] : null; // as good as always
    let best = null;
    for (const rect of rects) {
      if (rect.width > 0 && rect.height > 0 && (!best || rect.width > best.width)) best = rect;
    }
    return best;
  };
  const endWord = () => {
    if (run && run.rect) {
      words.push([run.text, ...box(run.rect), run.block, run.cell]);
      if (wantsCharacters) characters.push([run.begins, ...run.characters]);
    }
    run = null;
  };
  const union = (first, second) => {
    const left = Math.min(first.left, second.left), top = Math.min(first.top, second.top);
    const right = Math.max(first.right, second.right), bottom = Math.max(first.bottom, second.bottom);
    return { left, top, right, bottom, width: right - left, height: bottom - top };
  };
  const WORD = /[^\s]+/g;
  // scripts written without blanks: a "word" may be a whole paragraph, so each of its lines is one
  const UNSPACED = /[\p{sc=Han}\p{sc=Hiragana}\p{sc=Katakana}\p{sc=Thai}\p{sc=Lao}\p{sc=Khmer}\p{sc=Myanmar}]/u;
  const linesOf = (node, start, end) => {
    const parts = [];
    let from = start, top = null;
    for (let at = start, next; at < end; at = next) {
      next = at + (node.data.codePointAt(at) > 0xffff ? 2 : 1);
      const rect = pieceBox(node, at, next);
      if (!rect) continue;
      if (top !== null && Math.abs(rect.top - top) > rect.height / 2) { parts.push([from, at]); from = at; }
      top = rect.top;
    }
    return [...parts, [from, end]];
  };
  CHARACTERS
  const readPiece = (node, start, end, block, cell, clip) => {
    const rect = pieceBox(node, start, end);
    if (!rect || !centreIn(rect, clip)) return;
    const text = node.data.slice(start, end);
    if (run && (run.block !== block || run.cell !== cell)) endWord();
    if (!run) run = { text, rect, block, cell, begins: null, characters: [] };
    else {
      run.text += text;
      if (Math.abs(rect.top - run.rect.top) < run.rect.height) run.rect = union(run.rect, rect);
    }
    if (wantsCharacters) readCharacters(node, start, end, clip);
  };
  const readText = (node, block, cell, clip, transform) => {
    const text = node.data;
    if (wantsCharacters) drawnAs = transformed(text, transform);
    const unspaced = UNSPACED.test(text);
    let end = 0;
    WORD.lastIndex = 0;
    for (let match; (match = WORD.exec(text)); ) {
      if (match.index > end) endWord();
      end = WORD.lastIndex;
      if (!unspaced || !UNSPACED.test(match[0])) { readPiece(node, match.index, end, block, cell, clip); continue; }
      for (const [position, [from, to]] of linesOf(node, match.index, end).entries()) {
        if (position > 0) endWord();
        readPiece(node, from, to, block, cell, clip);
      }
    }
    if (text.length > end) endWord();
  };

  const areas = { infobox: [], table: [], list: [], paragraph: [] };
  const links = [];
  const noteElement = (element, clip) => {
    const name = element.tagName;
    const kind = (name === "TABLE" || name === "ASIDE") && infoboxOf(element) === element ? "infobox" : name === "TABLE" ? "table"
      : name === "UL" || name === "OL" || name === "DL" ? "list" : name === "P" ? "paragraph" : null;
    const area = kind ? common(clip, element.getBoundingClientRect()) : null;
    if (area && area.width > 0 && area.height > 0) areas[kind].push(box(area));
    if (name === "A" && element.hasAttribute("href")) {
      const seen = (rect) => rect.width > 0 && rect.height > 0 && centreIn(rect, clip);
      const rects = [...element.getClientRects()].filter(seen).map(box);
      const images = [...element.querySelectorAll("img[alt]")];
      const rest = images.map((image) => image.alt).join(" ");
      for (const image of images) if (centreIn(image.getBoundingClientRect(), clip)) rects.push(box(image.getBoundingClientRect()));
      if (rects.length) links.push([element.getAttribute("href"), tidy(element.textContent) || tidy(rest), rects]);
    }
  };
  let bottom = 0, drawn = false, fixed = getComputedStyle(document.documentElement).backgroundAttachment.includes("fixed");
  const measure = (element, clip) => {
    const rect = common(clip, element.getBoundingClientRect());
    if (rect.width > 0 && rect.height > 0) { drawn = true; bottom = Math.max(bottom, rect.bottom + scrollY); }
  };
  const measurePainted = (element, clip) => { // a drawing without words of its own still takes its place on the page
    const style = getComputedStyle(element);
    if (style.display !== "none" && style.visibility === "visible" && shown(element)) measure(element, clip);
  };
  // `clip` is that of the element's place in the text, `outer` that of the box which absolute positions are measured from
  const visit = (element, clip, outer) => {
    const style = getComputedStyle(element);
    if (style.display === "none" || hiddenByClip(element, style)) return;
    if (style.display !== "contents" && !shown(element)) return;
    fixed = fixed || style.position === "fixed" || style.position === "sticky" || style.backgroundAttachment.includes("fixed");
    if (style.position === "absolute") clip = outer;
    if (style.position === "fixed") clip = EVERYWHERE;
    clip = cutOf(element, style, clip);
    if (element !== document.body && style.visibility === "visible") measure(element, clip);
    noteElement(element, clip);
    clip = clipOf(element, style, clip);
    if (style.position !== "static" || style.transform !== "none") outer = clip;
    const inline = inLine(element, style);
    if (!inline || BREAKS.has(element.tagName)) endWord();
    const visible = style.visibility === "visible";
    let clear = null;
    let block = -1, cell = -1;
    for (const child of childrenOf(element)) {
      if (child.nodeType === Node.TEXT_NODE) {
        if (!visible || (!run && !/[^\s]/.test(child.data))) continue;
        if (clear ??= isClear(element, style)) continue;
        if (block < 0) {
          const owner = blockElement(element);
          block = blockIndex(owner);
          const place = owner.tagName === "TR" ? element.closest("td, th") : null;
          cell = place && cellOf.has(place) ? cellOf.get(place) : -1;
          if (blocks[block].kind === "heading" && HEADINGS.test(owner.tagName)) heading = owner;
        }
        readText(child, block, cell, clip, style.textTransform);
      } else if (child.nodeType === Node.ELEMENT_NODE) {
        if (SILENT.has(child.tagName.toUpperCase())) measurePainted(child, clip);
        else visit(child, clip, outer);
      }
    }
    if (!inline) endWord();
    if (heading === element) { section = tidy(element.textContent); heading = null; }
  };
  let heading = null;
  const body = document.body;
  if (body) visit(body, EVERYWHERE, EVERYWHERE);
  endWord();

  const root = document.documentElement;
  const bodyStyle = body ? getComputedStyle(body) : null;
  if (words.length || (body && bodyStyle.backgroundImage !== "none" && body.clientHeight > 0)) drawn = true;
  const full = Math.max(root.scrollHeight, body ? body.scrollHeight : 0);
  // without a doctype the body fills the window: then only what stands in it tells the height
  const quirks = document.compatMode === "BackCompat";
  const below = quirks && body ? (parseFloat(bodyStyle.marginBottom) || 0) + (parseFloat(bodyStyle.paddingBottom) || 0) : 0; // "auto" is no number
  const wordsEnd = words.reduce((end, word) => Math.max(end, word[2] + word[4]), 0);
  const content = Math.max(quirks ? 0 : root.getBoundingClientRect().bottom + scrollY, Math.max(bottom, wordsEnd) + below);
  const bases = [...document.querySelectorAll("base[href]")].map((base) => base.getAttribute("href"));
  const result = JSON.stringify({
    width_px: Math.max(root.scrollWidth, innerWidth),
    height_px: !drawn ? 0 : Math.ceil(full > innerHeight ? full : Math.min(content, innerHeight)),
    words, blocks, links, areas, bases, has_fixed_parts: fixed, ...(wantsCharacters ? { characters } : {}),
  });
  // half a surrogate pair, which scripts can make, is no text that could be stored
  return result.replace(/\\(?:(ud[89a-f]..)|.)/g, (escape, half) => (half ? "\\ufffd" : escape));
}
