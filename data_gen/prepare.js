// Makes a laid-out page ready to be pictured: chrome removed, collapsed parts opened, everything still.
// Evaluated by data_gen/open_page.py with a profile (data_gen/profiles.py); runs although the page's own scripts are off.
// ROOTS stands for that file's `roots` (the document and its open shadow roots) and `all(selector)` over them.
(profile) => {
  const set = (element, styles) => {
    if (!element.style) return;
    for (const [name, value] of Object.entries(styles)) element.style.setProperty(name, value, "important");
  };
  const hide = (element) => set(element, { display: "none" });
  const still = new CSSStyleSheet(); // a constructed sheet: a page's content security policy doesn't forbid it
  still.replaceSync(`*, *::before, *::after {
    animation-duration: 0s !important; animation-delay: 0s !important; animation-iteration-count: 1 !important;
    animation-play-state: running !important; transition: none !important; scroll-behavior: auto !important;
    caret-color: transparent !important; content-visibility: visible !important; background-attachment: scroll !important;
  }`);
  ROOTS
  // a form has properties named like what it holds: one named `style` would stand in the place of the form's own
  const hides = (name) => name !== "" && name !== null && name in HTMLFormElement.prototype;
  for (const part of all("form button, form fieldset, form input, form object, form output, form select, form textarea, [form]")) {
    if (hides(part.getAttribute("name")) || hides(part.id)) part.setAttribute("form", "");
  }
  for (const image of all("form img")) {
    if (hides(image.getAttribute("name"))) image.removeAttribute("name");
    if (hides(image.id)) image.removeAttribute("id");
  }
  for (const root of roots) root.adoptedStyleSheets = [...root.adoptedStyleSheets, still];
  for (const marquee of all("marquee")) {
    const still = document.createElement("div");
    still.append(...marquee.childNodes);
    marquee.replaceWith(still);
  }

  // --- pictures that wait for a script: what stands in their place is nothing, a data: URL, or a file of a pixel or two
  const isFree = (element, name) => !element.getAttribute(name) || element.getAttribute(name).startsWith("data:");
  for (const image of all("img, picture > source")) {
    const { src, original, lazySrc, srcset, lazySrcset } = image.dataset;
    const waiting = src || original || lazySrc, waitingSet = srcset || lazySrcset;
    const isDot = image.tagName === "IMG" && image.complete && image.naturalWidth <= 2 && image.naturalHeight <= 2;
    if (image.tagName === "IMG") image.loading = "eager";
    if (image.tagName === "IMG" && waiting && (isFree(image, "src") || isDot)) image.setAttribute("src", waiting);
    if (waitingSet && isFree(image, "srcset")) image.setAttribute("srcset", waitingSet);
  }

  const body = document.body;
  if (!body) return JSON.stringify({ content: "" });
  for (const details of all("details")) details.open = true;
  for (const selector of profile.reveal) {
    for (const element of all(selector)) {
      element.hidden = false;
      if (getComputedStyle(element).display === "none") set(element, { display: element.tagName === "TR" ? "table-row" : "block" });
      if (getComputedStyle(element).visibility !== "visible") set(element, { visibility: "visible" });
    }
  }

  // --- content: the first selector that shows anything; what stands beside it goes
  const shows = (element) => element.offsetHeight > 0 && element.textContent.trim() + element.querySelectorAll("img, svg, canvas").length !== "0";
  let found = null, used = "";
  for (const selector of profile.content) {
    found = [...document.querySelectorAll(selector)].find(shows) || null;
    if (found) { used = selector; break; }
  }
  const PLAIN = {
    margin: "0", padding: "0", border: "0", width: "auto", "max-width": "none", "min-width": "0", height: "auto", "min-height": "0",
    "max-height": "none", float: "none", position: "static", display: "block", transform: "none", overflow: "visible", inset: "auto",
  };
  for (let element = found; element && element !== body && element.parentElement; element = element.parentElement) {
    const parent = element.parentElement;
    for (const child of [...parent.childNodes]) {
      if (child === element) continue;
      if (child.nodeType === Node.TEXT_NODE) child.data = "";
      else if (child.nodeType === Node.ELEMENT_NODE) hide(child);
    }
    if (parent !== body) set(parent, PLAIN);
  }
  for (const selector of profile.remove) {
    for (const element of all(selector)) if (!element.contains(found) && element !== body) hide(element);
  }
  if (profile.margin_px !== null) {
    const content = found || body;
    if (content !== body) set(body, { ...PLAIN, background: "#fff" });
    set(document.documentElement, { margin: "0", padding: "0", height: "auto", "min-height": "0", overflow: "visible" });
    const { padding, display, ...rest } = PLAIN;
    set(content, { ...rest, padding: `${profile.margin_px}px`, "box-sizing": "border-box" });
  }

  // --- what scrolls inside the page is laid out in full, what is fixed to the window is fixed to the page
  for (const element of [body, ...roots.flatMap((root) => [...(root === document ? body : root).querySelectorAll("*")])]) {
    const style = getComputedStyle(element);
    if (style.position === "fixed") set(element, { position: "absolute" });
    else if (style.position === "sticky") set(element, { position: "relative", inset: "auto" });
    const scrolls = style.overflowY === "auto" || style.overflowY === "scroll";
    if (profile.expand && scrolls && element !== body && element.clientHeight >= 100 && element.scrollHeight > element.clientHeight + 1) {
      set(element, { height: "auto", "max-height": "none", "overflow-y": "visible" });
    }
  }
  const ends = (element) => getComputedStyle(element).overflow !== "visible";
  if (ends(document.documentElement) && ends(body) && body.scrollHeight > body.clientHeight + 1) { // scrolls instead of the window
    const { position } = getComputedStyle(body);
    set(body, { height: "auto", "max-height": "none", overflow: "visible", position: position === "absolute" ? "static" : position });
  }
  return JSON.stringify({ content: used });
}
