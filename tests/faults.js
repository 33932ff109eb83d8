// What is wrong on a page that one looks at: a list of sentences, for tests/test_pages.py.
() => {
  const faults = [], main = document.querySelector("article") || document.body;
  const box = e => e.getBoundingClientRect(), wide = document.documentElement.clientWidth;
  const said = e => e.tagName + " " + (e.innerText || e.alt || "").trim().slice(0, 40);
  const shown = e => { const b = box(e); return b.width > 1 && b.height > 1 && e.checkVisibility(); };
  const scrolls = e => { for (let a = e; a && a !== document.body; a = a.parentElement)
    if (["auto", "scroll"].includes(getComputedStyle(a).overflowX)) return true; return false; };
  if (document.documentElement.scrollWidth > wide) faults.push("the page is wider than the window");
  const blocks = [...main.querySelectorAll("p, h1, h2, h3, li, pre, table, img, dt, dd, td, th, .arithmatex")]
    .filter(shown);
  for (const e of blocks) {
    if ((box(e).right > wide + 1 || box(e).left < -1) && !scrolls(e)) faults.push("beyond the window: " + said(e));
    const look = getComputedStyle(e);
    if (look.overflowX === "hidden" && e.scrollWidth > e.clientWidth + 1) faults.push("clipped: " + said(e));
  }
  for (const code of [...main.querySelectorAll("pre")].filter(shown))
    for (const e of [code, ...code.querySelectorAll("code")])
      if (e.scrollWidth > e.clientWidth + 1 && (wide > 1000 || !scrolls(e)))
        faults.push("code cut off: " + said(e));
  const rows = blocks.filter(e => /^(P|H1|H2|H3|PRE|TABLE|IMG)$/.test(e.tagName) && !e.closest("td"));
  for (let i = 0; i < rows.length; i++) for (let j = i + 1; j < rows.length; j++) {
    const [a, b] = [rows[i], rows[j]];
    if (a.contains(b) || b.contains(a)) continue;
    const [s, t] = [box(a), box(b)];
    const x = Math.min(s.right, t.right) - Math.max(s.left, t.left);
    const y = Math.min(s.bottom, t.bottom) - Math.max(s.top, t.top);
    if (x > 2 && y > 2) faults.push("overlap: " + said(a) + " | " + said(b));
  }
  for (const e of main.querySelectorAll(".katex-error, .arithmatex:not(:has(.katex))"))
    faults.push("not typeset: " + said(e));
  for (const e of main.querySelectorAll("img")) if (!e.naturalWidth) faults.push("no figure: " + e.src);
  return faults;
}
