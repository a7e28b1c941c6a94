// Shows one pair at a time, takes marks from keys and buttons, keeps them under the sample's digest.
"use strict";
(() => {
  const MARKS = ["good", "bad", "unsure"];
  const at = (id) => document.getElementById(id);
  const main = document.querySelector("main");
  const articles = [...main.querySelectorAll("article")];
  const pairs = articles.map((article) => JSON.parse(article.dataset.pair));
  const { sample, name } = main.dataset;
  const key = `tilewright-review:${sample}`;
  const note = at("note");
  let marks = new Map(); // query_id -> {mark, note}; mark "" with a note only
  const undone = []; // what undo brings back: {position, before: [[query_id, entry or undefined], ...], notes}
  let current = 0;
  let revealed = false;

  const markOf = (position) => marks.get(pairs[position].query_id)?.mark ?? "";
  const say = (words, warning = false) => {
    at("said").textContent = words;
    at("said").classList.toggle("warning", warning);
  };

  // ---- marks as lines, in memory, in the browser's storage and in files

  const lines = (wanted) =>
    pairs
      .filter((pair) => marks.has(pair.query_id) && wanted(marks.get(pair.query_id)))
      .map((pair) => {
        const { mark, note } = marks.get(pair.query_id);
        return `${JSON.stringify({ query_id: pair.query_id, mark, note, outcome: pair.outcome, page_id: pair.page_id, sample })}\n`;
      })
      .join("");

  const read = (text, allowed) =>
    text.split("\n").flatMap((line, index) => {
      if (!line.trim()) return [];
      let entry;
      try {
        entry = JSON.parse(line);
      } catch {
        throw new Error(`line ${index + 1}: not JSON`);
      }
      const strings = ["query_id", "mark", "note", "sample"].every((field) => typeof entry?.[field] === "string");
      if (!strings || !allowed.includes(entry.mark)) throw new Error(`line ${index + 1}: not a mark of a pair`);
      return [entry];
    });

  const keep = () => {
    try {
      localStorage.setItem(key, lines(() => true));
    } catch {
      say("This browser keeps no marks: save them before you close the page.", true);
    }
  };

  const recall = () => {
    try {
      const known = new Set(pairs.map((pair) => pair.query_id));
      const entries = read(localStorage.getItem(key) ?? "", [...MARKS, ""]).filter((entry) => known.has(entry.query_id));
      marks = new Map(entries.map(({ query_id, mark, note }) => [query_id, { mark, note }]));
    } catch {
      say("No kept marks can be read in this browser.", true);
    }
  };

  // notes: whether undo brings back notes too; those that were typed stay
  const change = (changes, notes) => {
    undone.push({ position: current, before: changes.map(([id]) => [id, marks.get(id)]), notes });
    for (const [id, entry] of changes) marks.set(id, entry);
    keep();
  };

  // ---- what is shown

  const refresh = () => {
    const counts = Object.fromEntries(MARKS.map((mark) => [mark, 0]));
    pairs.forEach((_, position) => {
      const mark = markOf(position);
      if (mark) counts[mark] += 1;
      const cell = at("strip").children[position];
      cell.className = `${mark} ${position === current ? "current" : ""}`.trim();
    });
    const done = counts.good + counts.bad + counts.unsure;
    at("tally").textContent =
      `${done} of ${pairs.length} marked: ${counts.good} good, ${counts.bad} bad, ${counts.unsure} unsure`;
    at("position").textContent = pairs.length ? `${current + 1} of ${pairs.length}` : "no pairs";
    at("previous").disabled = current === 0;
    at("next").disabled = current >= pairs.length - 1;
    at("undo").disabled = undone.length === 0;
    at("save").disabled = done === 0;
    at("unmarked").disabled = done === pairs.length;
    for (const mark of MARKS) at(mark).setAttribute("aria-pressed", String(pairs.length > 0 && markOf(current) === mark));
    at("reveal").setAttribute("aria-pressed", String(revealed));
    if (!pairs.length) return;
    const kept = marks.get(pairs[current].query_id)?.note ?? "";
    if (note.value !== kept) note.value = kept;
    articles[current].querySelector(".decided").open = revealed || markOf(current) !== "";
  };

  const show = (position) => {
    if (!pairs.length) return refresh();
    current = Math.min(Math.max(position, 0), pairs.length - 1);
    articles.forEach((article, index) => (article.hidden = index !== current));
    scrollTo(0, 0);
    const box = articles[current].querySelector("rect");
    if (box && box.getBoundingClientRect().bottom > document.querySelector("footer").getBoundingClientRect().top) {
      box.scrollIntoView({ block: "center" });
    }
    refresh();
  };

  const firstUnmarked = () => {
    const position = pairs.findIndex((_, index) => !markOf(index));
    if (position < 0) say("Every pair is marked: save the marks with s.");
    else show(position);
  };

  // ---- what keys and buttons do

  const mark = (value) => {
    if (!pairs.length) return;
    change([[pairs[current].query_id, { mark: value, note: note.value }]], false);
    const finished = pairs.every((_, index) => markOf(index));
    say(`Pair ${current + 1}: ${value}.${finished ? " Every pair is marked: save the marks with s." : ""}`);
    show(current + 1);
  };

  const undo = () => {
    if (!undone.length) return say("Nothing to undo.");
    const { position, before, notes } = undone.pop();
    for (const [id, entry] of before) {
      const written = (notes ? entry : marks.get(id))?.note ?? "";
      if (entry?.mark || written) marks.set(id, { mark: entry?.mark ?? "", note: written });
      else marks.delete(id);
    }
    keep();
    say("Undone.");
    show(position);
  };

  const save = () => {
    const text = lines((entry) => entry.mark);
    if (!text) return say("Nothing is marked yet.");
    const address = URL.createObjectURL(new Blob([text], { type: "application/jsonl" }));
    const link = document.createElement("a");
    link.href = address;
    link.download = `${name}-marks-${sample.slice(0, 8)}.jsonl`;
    link.click();
    setTimeout(() => URL.revokeObjectURL(address), 10_000);
    const loose = [...marks.values()].filter((entry) => !entry.mark && entry.note).length;
    say(`Saved as ${link.download}.${loose ? ` Left out: ${loose} with a note but no mark.` : ""}`, loose > 0);
  };

  const load = async (file) => {
    let entries;
    try {
      entries = read(await file.text(), MARKS);
    } catch (error) {
      return say(`${file.name}: nothing was loaded: ${error.message}`, true);
    }
    const known = new Set(pairs.map((pair) => pair.query_id));
    const ours = new Map(entries.filter((entry) => known.has(entry.query_id)).map((entry) => [entry.query_id, entry]));
    const foreign = [...ours.values()].filter((entry) => entry.sample !== sample).length;
    const strange = new Set(entries.map((entry) => entry.query_id)).size - ours.size;
    if (ours.size) change([...ours].map(([id, entry]) => [id, { mark: entry.mark, note: entry.note }]), true);
    refresh();
    const rest = [foreign && `${foreign} made on another sample`, strange && `${strange} of other pairs left out`];
    say([`${ours.size} marks loaded`, ...rest.filter(Boolean)].join("; ") + ".", foreign + strange > 0);
  };

  const actions = {
    previous: () => show(current - 1),
    next: () => show(current + 1),
    unmarked: firstUnmarked,
    reveal: () => {
      revealed = !revealed;
      refresh();
    },
    save,
    load: () => at("file").click(),
    good: () => mark("good"),
    bad: () => mark("bad"),
    unsure: () => mark("unsure"),
    undo,
    note: () => note.focus(),
  };
  const KEYS = {
    arrowleft: "previous", k: "previous", arrowright: "next", j: "next", f: "unmarked", v: "reveal", s: "save",
    o: "load", g: "good", 1: "good", b: "bad", 2: "bad", u: "unsure", 3: "unsure", z: "undo", n: "note",
  };

  document.addEventListener("keydown", (event) => {
    if (event.target === note) {
      if (event.key === "Escape") note.blur();
      return;
    }
    const pressed = event.key.toLowerCase();
    const undoing = pressed === "z" && (event.ctrlKey || event.metaKey) && !event.altKey && !event.shiftKey;
    if (!undoing && (event.ctrlKey || event.metaKey || event.altKey)) return;
    const action = Object.hasOwn(KEYS, pressed) ? KEYS[pressed] : null;
    if (!action) return;
    event.preventDefault();
    if (event.repeat && !["previous", "next"].includes(action)) return; // a key held down marks one pair
    actions[action]();
  });
  for (const [id, action] of Object.entries(actions)) if (id !== "note") at(id).addEventListener("click", action);
  at("file").addEventListener("change", async () => {
    const [file] = at("file").files;
    if (file) await load(file);
    at("file").value = "";
  });
  note.addEventListener("input", () => {
    if (!pairs.length) return;
    const id = pairs[current].query_id;
    const entry = { mark: marks.get(id)?.mark ?? "", note: note.value };
    if (entry.mark || entry.note) marks.set(id, entry);
    else marks.delete(id);
    keep();
  });
  addEventListener("storage", (event) => {
    if (event.key !== key) return; // marked in another tab
    recall();
    refresh();
  });

  document.querySelector("nav").hidden = false;
  document.querySelector("footer").hidden = pairs.length === 0;
  at("strip").append(...pairs.map(() => document.createElement("i")));
  recall();
  const unmarked = pairs.findIndex((_, index) => !markOf(index));
  show(Math.max(unmarked, 0));
})();
