  // What is seen of an element's place: rectangles in the window; a part of dom_layer.js, which calls it.
  // --- what an ancestor's overflow cuts off: rectangles in the window, which stays where it is during the pass
  const EVERYWHERE = { left: -Infinity, top: -Infinity, right: Infinity, bottom: Infinity };
  const common = (first, second) => {
    const left = Math.max(first.left, second.left), top = Math.max(first.top, second.top);
    const right = Math.min(first.right, second.right), bottom = Math.min(first.bottom, second.bottom);
    return { left, top, right, bottom, width: right - left, height: bottom - top };
  };
  const centreIn = (rect, clip) => {
    if (clip === EVERYWHERE) return true;
    if (!(clip.width > 0 && clip.height > 0)) return false; // a point may be the very centre of a word
    const x = (rect.left + rect.right) / 2, y = (rect.top + rect.bottom) / 2;
    return x >= clip.left && x <= clip.right && y >= clip.top && y <= clip.bottom;
  };
  const rootCuts = getComputedStyle(document.documentElement).overflow !== "visible"; // else the body's is the window's
  const clipOf = (element, style, clip) => {
    if (style.overflow === "visible" || /^(inline|contents|table-)/.test(style.display)) return clip;
    if (element === document.body && !rootCuts) return clip;
    const rect = element.getBoundingClientRect();
    const across = style.overflowX === "visible" ? EVERYWHERE : rect, down = style.overflowY === "visible" ? EVERYWHERE : rect;
    return common(clip, { left: across.left, right: across.right, top: down.top, bottom: down.bottom });
  };
  // what `clip` and `clip-path: inset()` leave of an element and all in it: "visually hidden" text has one of them
  const cutOf = (element, style, clip) => {
    const old = style.position === "absolute" || style.position === "fixed" ? /^rect\((.*)\)$/.exec(style.clip) : null;
    const inset = style.clipPath === "none" ? null : /^inset\(([^)]*?)( round .*)?\)$/.exec(style.clipPath);
    if (!old && !inset) return clip;
    const rect = element.getBoundingClientRect();
    const px = (value, whole, auto) => (value === "auto" ? auto : value.endsWith("%") ? (parseFloat(value) * whole) / 100 : parseFloat(value));
    if (old) {
      const [top, right, bottom, left] = old[1].split(/[ ,]+/);
      const across = { left: rect.left + px(left, 0, 0), right: rect.left + px(right, 0, rect.width) };
      clip = common(clip, { ...across, top: rect.top + px(top, 0, 0), bottom: rect.top + px(bottom, 0, rect.height) });
    }
    if (inset && !inset[1].includes("calc")) {
      const [top, right = top, bottom = top, left = right] = inset[1].split(" ");
      const across = { left: rect.left + px(left, rect.width), right: rect.right - px(right, rect.width) };
      clip = common(clip, { ...across, top: rect.top + px(top, rect.height), bottom: rect.bottom - px(bottom, rect.height) });
    }
    return clip;
  };
  // letters without a colour show nothing, but for their shadow, their outline, or a background cut out by them
  const isClear = (element, style) => {
    if (!/^rgba\(.*, 0\)$/.test(style.webkitTextFillColor) || style.textShadow !== "none") return false;
    if (parseFloat(style.webkitTextStrokeWidth) > 0) return false;
    for (let at = element; at; at = at.parentElement) if (getComputedStyle(at).backgroundClip.includes("text")) return false;
    return true;
  };
