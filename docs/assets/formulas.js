// Typeset what pymdownx.arithmatex marked. KaTeX lies beside this file; nothing is fetched from elsewhere.
document.addEventListener("DOMContentLoaded", () => {
  for (const element of document.querySelectorAll(".arithmatex")) {
    const text = element.textContent.trim();
    katex.render(text.slice(2, -2), element, { displayMode: text.startsWith("\\["), throwOnError: true });
  }
});
