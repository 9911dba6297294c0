"use strict";
// Checks the page that it is added to, and writes what it found as JSON into the page.
addEventListener("load", async () => {
  const out = { width: innerWidth, overflow: 0, contrasts: 0, violations: [], search: [] };
  const seen = new Set();
  const check = async (where) => {
    out.overflow = Math.max(out.overflow, document.documentElement.scrollWidth - innerWidth);
    const result = await axe.run(document, { resultTypes: ["violations"] });
    out.contrasts += result.passes.filter((p) => p.id === "color-contrast").length;
    for (const v of result.violations) {
      for (const node of v.nodes) {
        const text = v.id + " in " + node.target.join(" ") + ": " + node.failureSummary.replace(/\s+/g, " ");
        if (!seen.has(text)) out.violations.push(where + ": " + text);
        seen.add(text);
      }
    }
  };
  const type = async (text) => {
    const search = document.getElementById("search");
    search.value = text;
    search.dispatchEvent(new Event("input"));
    await new Promise((done) => setTimeout(done, 500));
  };
  for (const details of document.querySelectorAll(".pipeline details")) details.open = true;
  if (document.querySelector(".pipeline")) {
    await check("the pipeline");
    const jobs = [...document.querySelectorAll("main > details")];
    jobs[0].open = false;
    await type("testdemo WANTS");
    const [hit] = CSS.highlights.get("hit") || [], box = hit && hit.getBoundingClientRect();
    if (!hit || !jobs[0].open) out.search.push("a search does not jump to its first hit");
    else if (box.top < 0 || box.bottom > innerHeight) out.search.push("the first hit is outside of the window");
    if (!/^\d+ hits in 2 jobs$/.test(document.getElementById("found").textContent)) out.search.push("it says " + document.getElementById("found").textContent);
    await check("the pipeline, searching");
    await type("no such text");
    if (document.getElementById("found").textContent !== "nothing found" || jobs.some((job) => job.open)) out.search.push("something is found that no job has");
    await type("");
    if (jobs[0].open) out.search.push("a job that its reader closed is open after the search");
  }
  // A row of every kind: by how its step ended, and whether it is a list.
  const rows = [...new Map([...document.querySelectorAll(".row")].map((row) => [row.className, row])).values()];
  for (const theme of rows.length ? ["light", "dark"] : []) {
    if (document.documentElement.dataset.theme !== theme) document.getElementById("theme").click();
    for (const row of rows) {
      row.click();
      const log = document.querySelector("#details .log"), box = document.querySelector("#details .box");
      if (log && box && log.compareDocumentPosition(box) & Node.DOCUMENT_POSITION_PRECEDING) out.violations.push("a box comes before the log");
      for (const details of document.querySelectorAll("#details details")) {
        if (details.open && /^Environment/.test(details.textContent)) out.violations.push("the environment is not folded");
        details.open = true;
      }
      await check(theme + ", " + row.title.split("\n")[0]);
    }
    rows[0].click();
    await type("TestDemo");
    const now = document.querySelector("#details mark.now"), box = now && now.getBoundingClientRect();
    if (!now) out.search.push("a search does not jump to its first hit");
    else if (box.top < 0 || box.bottom > innerHeight) out.search.push("the first hit is outside of the window");
    await check(theme + ", searching");
    await type("");
  }
  if (parent !== window) parent.postMessage(JSON.stringify(out), "*");
});
