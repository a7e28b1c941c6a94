// Characters of a piece of a word, with the centre and height of their boxes; a part of dom_layer.js, which calls it.
// data_gen/characters.py says what counts as a character.
let drawnAs = null; // of the text being read: what its text-transform makes of the character at a place
const transformed = (text, transform) => {
  if (transform.includes("uppercase")) return (character) => character.toUpperCase();
  if (transform.includes("lowercase")) return (character) => character.toLowerCase();
  if (!transform.includes("capitalize")) return (character) => character;
  const before = run ? run.text.slice(-1) : " "; // Chromium, too, looks at one character, and asks ICU for words
  const parts = [...new Intl.Segmenter("en", { granularity: "word" }).segment(before + text)];
  const heads = new Set(parts.map((part) => part.index - 1));
  return (character, at) => (heads.has(at) ? character.toUpperCase() : character);
};
const readCharacters = (node, start, end, clip) => {
  let last = null; // the box of the character before, and what is drawn there
  for (let at = start, next; at < end; at = next) {
    next = at + (node.data.codePointAt(at) > 0xffff ? 2 : 1);
    const rect = pieceBox(node, at, next);
    if (!rect) continue;
    const seen = centreIn(rect, clip);
    run.begins ??= seen;
    const character = node.data.slice(at, next).toWellFormed();
    if (last && rect.left === last.rect.left && rect.right === last.rect.right && rect.top === last.rect.top) {
      last.drawn += character; // a combining mark has the box of its letter
      const both = [...last.drawn.normalize("NFC")];
      if (last.seen && both.length === 1) run.characters.at(-1)[0] = both[0].codePointAt(0);
      continue;
    }
    const drawn = [...drawnAs(character, at)];
    const [x, y, width, height] = box(rect);
    for (const [place, one] of drawn.entries()) { // several of one: the two S of a large ß
      if (seen) run.characters.push([one.codePointAt(0), x + (width * (place + 0.5)) / drawn.length, y + height / 2, height]);
    }
    last = { rect, seen, drawn: drawn.join("") };
  }
};
