// Draws the mermaid blocks of a page with the copy of mermaid beside this file; pages without one load nothing.
(() => {
  const here = document.currentScript.src;
  const blocks = [...document.querySelectorAll("pre.diagram")].map((pre) => ({ pre, text: pre.textContent }));
  if (!blocks.length) return;

  const isDark = () => document.body.getAttribute("data-md-color-scheme") === "slate";

  async function draw() {
    const theme = isDark() ? "dark" : "neutral";
    const themeVariables = { edgeLabelBackground: isDark() ? "#1e2129" : "#ffffff" };
    mermaid.initialize({ startOnLoad: false, theme, themeVariables, securityLevel: "strict" });
    for (const [i, { pre, text }] of blocks.entries()) {
      const { svg } = await mermaid.render(`diagram-${i}`, text);
      pre.innerHTML = svg;
      pre.classList.add("drawn");
    }
  }

  const script = document.createElement("script");
  script.src = new URL("mermaid/mermaid.tiny.js", here);
  script.onload = () => {
    draw();
    new MutationObserver(draw).observe(document.body, { attributeFilter: ["data-md-color-scheme"] });
  };
  document.head.append(script);
})();
