"use strict";
// Tables that sort by a click on their heads, and the browser of questions. Texts are set as text, never as markup.
const data = JSON.parse(document.getElementById("data").textContent);
data.files = new Set(data.files);
const byId = (id) => document.getElementById(id);

function make(tag, attributes, ...children) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes || {})) {
    if (value !== null && value !== undefined) node.setAttribute(name, value);
  }
  node.append(...children.filter((child) => child !== null && child !== undefined));
  return node;
}

function sortKey(row, column) {
  const cell = row.cells[column];
  const text = cell ? (cell.querySelector("b") || cell).textContent.trim() : "";
  const number = parseFloat(text.replace("−", "-"));
  return Number.isNaN(number) ? { text } : { number };
}

function compareKeys(left, right) {
  if ("number" in left && "number" in right) return left.number - right.number;
  if ("number" in left) return -1;
  if ("number" in right) return 1;
  return left.text.localeCompare(right.text);
}

function makeSortable(table) {
  const heads = [...table.tHead.rows[0].cells];
  heads.forEach((head, column) => {
    const button = make("button", { type: "button", class: "sort" }, ...head.childNodes);
    head.replaceChildren(button);
    button.addEventListener("click", () => {
      const falling = head.getAttribute("aria-sort") !== "descending";
      heads.forEach((other) => other.removeAttribute("aria-sort"));
      head.setAttribute("aria-sort", falling ? "descending" : "ascending");
      const body = table.tBodies[0];
      const rows = [...body.rows].map((row) => ({ row, key: sortKey(row, column) }));
      rows.sort((a, b) => (falling ? compareKeys(b.key, a.key) : compareKeys(a.key, b.key)));
      body.append(...rows.map((entry) => entry.row));
    });
  });
}

function pictureOf(id) {
  if (data.pictures[id]) return data.pictures[id];
  return data.files.has(id) ? `${data.folder}/${id}.webp` : null;
}

const STEP = 100;
const state = { shown: [], place: 0, drawn: 0 };

function select(id) {
  return byId(id).value;
}

// Whether a row is right about a question; null where that doesn't count: it failed, wasn't asked, has nothing to find.
function rightness(question, row) {
  if (data.cells.includes(row)) {
    const said = question.said[row];
    return said && !said.error && said.verdict ? said.verdict === "CORRECT" : null;
  }
  const found = question.found[row];
  return found && !found.error && found.rank >= 0 ? found.rank > 0 && found.rank <= data.k : null;
}

function rankText(found) {
  if (found.error) return "error";
  return found.rank > 0 ? `rank ${found.rank}` : found.rank < 0 ? "no gold page" : "not found";
}

function wanted(question) {
  const words = byId("search").value.trim().toLowerCase();
  const text = `${question.q} ${question.a.join(" ")} ${question.id}`.toLowerCase();
  if (words && !words.split(/\s+/).every((word) => text.includes(word))) return false;
  const row = select("row");
  const mode = select("mode");
  if (mode && !(question.said[row] && question.said[row].mode === mode)) return false;
  const kind = select("kind");
  if (kind && !question.kinds.includes(kind)) return false;
  const other = select("other");
  const difference = select("difference");
  if (!difference || !other) return true;
  return differs(question, row, other, difference);
}

function differs(question, row, other, difference) {
  const left = rightness(question, row);
  const right = rightness(question, other);
  if (left === null || right === null) return false;
  if (difference === "gained") return left && !right;
  if (difference === "lost") return !left && right;
  return left !== right;
}

function refresh() {
  state.shown = data.questions.filter(wanted);
  state.drawn = 0;
  byId("list").replaceChildren();
  byId("count").textContent = `${state.shown.length} of ${data.questions.length} questions`;
  drawMore(STEP);
  go(0, false);
}

function drawMore(upTo) {
  const list = byId("list");
  while (state.drawn < Math.min(upTo, state.shown.length)) {
    const place = state.drawn;
    const question = state.shown[place];
    const row = select("row");
    const said = question.said[row];
    const found = question.found[row];
    const mark = said ? said.mode : found ? rankText(found) : "";
    const item = make("li", { role: "option", id: `item-${place}`, "aria-selected": "false" },
      make("span", {}, question.q), make("small", {}, mark));
    item.addEventListener("click", () => go(place, true));
    list.append(item);
    state.drawn += 1;
  }
  byId("more").hidden = state.drawn >= state.shown.length;
}

function go(place, focus) {
  const detail = byId("detail");
  const before = byId(`item-${state.place}`);
  if (before) before.setAttribute("aria-selected", "false");
  if (!state.shown.length) {
    detail.replaceChildren(make("p", { class: "note" }, "No question fits these filters."));
    byId("list").removeAttribute("aria-activedescendant");
    return;
  }
  state.place = Math.max(0, Math.min(place, state.shown.length - 1));
  drawMore(state.place + 1);
  const item = byId(`item-${state.place}`);
  item.setAttribute("aria-selected", "true");
  byId("list").setAttribute("aria-activedescendant", item.id);
  if (focus) item.scrollIntoView({ block: "nearest" });
  detail.replaceChildren(...describe(state.shown[state.place]));
}

function describe(question) {
  const facts = make("dl", {});
  const fact = (name, ...value) => facts.append(make("dt", {}, name), make("dd", {}, ...value));
  fact("Answer", question.a.join(" / "));
  fact("Gold page", question.pages.map((page) => data.titles[page] || page).join(", ") || "none among those searched");
  if (question.kinds.length) fact("Evidence", question.kinds.join(", "));
  const parts = [make("h3", {}, question.q), make("p", { class: "note" }, question.id), facts];
  if (question.gold.length) {
    parts.push(make("h4", {}, "Gold tile"), make("div", { class: "hits" }, ...question.gold.map((id) => figure(id, "right", id))));
  }
  for (const [row, said] of Object.entries(question.said)) parts.push(answer(row, said));
  for (const [row, found] of Object.entries(question.found)) parts.push(...hits(row, found));
  return parts;
}

function answer(row, said) {
  const right = said.verdict === "CORRECT";
  const line = make("p", {}, make("b", { class: said.error ? "near-text" : right ? "right-text" : "wrong-text" }, said.error ? `error: ${said.error}` : said.said || "(empty)"));
  const scores = Object.entries(said.scores).map(([name, score]) => `${name} ${score === null ? "–" : score.toFixed(2)}`);
  const facts = `${said.mode}; ${said.verdict || "not graded"}; ${scores.join(", ")}; ${said.tokens[0]} tokens in, ${said.tokens[1]} out`;
  const flags = said.flags.length ? `; ${said.flags.join(", ")}` : "";
  const given = said.given.map((place) => {
    const item = data.given[place];
    const caption = `${item.source}, ${item.tokens} tokens${item.px.length ? `, ${item.px[0]} × ${item.px[1]} px` : ""}`;
    return figure(item.id, "", caption, item.text);
  });
  return make("section", { class: "answer" }, make("h4", {}, row), line, make("p", { class: "note" }, facts + flags),
    make("div", { class: "hits" }, ...given));
}

function hits(row, found) {
  if (found.error) return [make("h4", {}, row), make("p", { class: "near-text" }, `error: ${found.error}`)];
  const place = found.rank > 0 ? `gold page at ${rankText(found)}` : found.rank < 0 ? rankText(found) : "gold page not found";
  const title = `${row}: ${place}, answer as a string ${found.evidence ? `at rank ${found.evidence}` : "in no hit"}`;
  const shown = found.hits.map(([number, score, right, holds], place) => {
    const item = data.items[number];
    const kind = ["wrong", "near", "right"][right];
    const verdict = ["✗ other page", "✓ gold page", "✓ gold tile"][right];
    const caption = `${place + 1}. ${verdict}${holds ? ", holds the answer" : ""}: ${data.titles[item.page] || item.page} (${score})`;
    return figure(item.id, kind, caption, item.text);
  });
  return [make("h4", {}, title), make("div", { class: "hits" }, ...shown)];
}

function figure(id, kind, caption, text) {
  const picture = text ? null : pictureOf(id);
  const inside = picture ? make("img", { src: picture, alt: `tile ${id}`, tabindex: "0", loading: "lazy" })
    : make("div", { class: "text" }, text || "picture not in this report");
  return make("figure", { class: `tile ${kind}` }, inside, make("figcaption", {}, caption));
}

function option(value, text) {
  return make("option", { value }, text === undefined ? value : text);
}

function cutNote() {
  const after = ([characters, hits]) => `after ${characters} characters${hits === null ? "" : ` and hits after ${hits}`}`;
  if (data.cut[0] === null) return "";
  const sample = data.cut_whole[0] === null ? "but for" : `${after(data.cut_whole)} for`;
  return `Texts are cut ${after(data.cut)}, ${sample} the sample of questions with pictures; the folders records and runs beside this file hold all.`;
}

function fill() {
  byId("cut").textContent = cutNote();
  const rows = [...data.cells, ...data.retrievers];
  byId("row").append(...rows.map((name) => option(name)));
  byId("other").append(option("", "no other row"), ...rows.map((name) => option(name)));
  const modes = new Set(data.questions.flatMap((question) => Object.values(question.said).map((said) => said.mode)));
  byId("mode").append(option("", "any outcome"), ...[...modes].sort().map((name) => option(name)));
  const kinds = new Set(data.questions.flatMap((question) => question.kinds));
  byId("kind").append(option("", "any evidence"), ...[...kinds].sort().map((name) => option(name)));
  byId("difference").append(option("", "all"), option("any", "the two differ"), option("gained", "only the first is right"),
    option("lost", "only the other is right"));
}

function onKey(event) {
  const typing = ["INPUT", "SELECT", "TEXTAREA"].includes(event.target.tagName);
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  if (event.key === "/" && !typing) {
    event.preventDefault();
    byId("search").focus();
  } else if (event.key === "Escape") {
    document.activeElement.blur();
  } else if (!typing && ["j", "k", "n", "p"].includes(event.key)) {
    go(state.place + (event.key === "j" || event.key === "n" ? 1 : -1), true);
  } else if (!typing && event.target.id === "list" && ["ArrowDown", "ArrowUp", "Home", "End"].includes(event.key)) {
    event.preventDefault();
    const steps = { ArrowDown: state.place + 1, ArrowUp: state.place - 1, Home: 0, End: state.shown.length - 1 };
    go(steps[event.key], true);
  }
}

document.querySelectorAll("table").forEach(makeSortable);
fill();
for (const id of ["row", "mode", "kind", "other", "difference"]) byId(id).addEventListener("change", refresh);
byId("search").addEventListener("input", refresh);
byId("more").addEventListener("click", () => drawMore(state.drawn + STEP));
document.addEventListener("keydown", onKey);
refresh();
document.body.dataset.ready = "true";
