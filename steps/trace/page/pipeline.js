"use strict";
(() => {
  const MOST_HITS = 20000; // that are marked and can be jumped to
  const input = document.getElementById("search"), found = document.getElementById("found");
  const jobs = [...document.querySelectorAll("main > details")];
  const opened = new Set(jobs.filter((job) => job.open)); // by the page or its reader, not by a search
  const plural = (n, what) => n.toLocaleString("en") + " " + what + (n === 1 ? "" : "s");
  const bytes = (n) => (n < 1000 ? n + " B" : n < 1e6 ? (n / 1e3).toFixed(1) + " kB" : (n / 1e6).toFixed(1) + " MB");
  const missing = [...document.querySelectorAll("[data-missing]")].reduce((sum, log) => sum + Number(log.dataset.missing), 0);
  // Hits are marked without a change of the document, where the browser can: a log may be a text of megabytes.
  const mark = (name, ranges) => { if (globalThis.Highlight) CSS.highlights.set(name, new Highlight(...ranges)); };
  let query = "", hits = [], now = -1;

  const texts = (job) => {
    const walker = document.createTreeWalker(job, NodeFilter.SHOW_TEXT), out = [];
    while (walker.nextNode()) out.push(walker.currentNode);
    return out;
  };
  const hitsIn = (job, room) => {
    const out = [], pattern = new RegExp(query.replace(/[.*+?^${}()|[\]\\]/g, "\\$&"), "giu");
    for (const text of texts(job)) {
      for (const hit of text.data.matchAll(pattern)) {
        if (out.length === room) return out;
        const range = new Range();
        range.setStart(text, hit.index);
        range.setEnd(text, hit.index + hit[0].length);
        out.push(range);
      }
    }
    return out;
  };
  const search = () => {
    query = input.value.trim();
    hits = [];
    now = -1;
    let holding = 0;
    for (const job of jobs) {
      const of = query ? hitsIn(job, MOST_HITS - hits.length) : [];
      job.open = query ? of.length > 0 : opened.has(job);
      holding += of.length > 0;
      hits = hits.concat(of);
    }
    mark("hits", hits);
    jump(1);
    const amount = (hits.length === MOST_HITS ? "the first " : "") + plural(hits.length, "hit") + " in " + plural(holding, "job");
    found.textContent = !query ? "" : (hits.length ? amount : "nothing found") +
      (missing ? "; searched only a part: " + bytes(missing) + " of the logs are not in this page" : "");
  };
  const jump = (by) => {
    if (!hits.length) return mark("hit", []);
    now = (now + by + hits.length) % hits.length;
    const hit = hits[now], holder = hit.startContainer.parentElement, log = holder.closest("pre");
    holder.closest("main > details").open = true;
    mark("hit", [hit]);
    if (log) log.scrollTop += hit.getBoundingClientRect().top - log.getBoundingClientRect().top - log.clientHeight / 2;
    scrollBy(0, hit.getBoundingClientRect().top - innerHeight / 2);
  };

  let pause = 0;
  input.addEventListener("input", () => { clearTimeout(pause); pause = setTimeout(search, 120); });
  input.addEventListener("keydown", (e) => {
    if (e.key === "Escape") { input.value = ""; search(); }
    if (e.key !== "Enter") return;
    clearTimeout(pause);
    if (query !== input.value.trim()) search(); else jump(e.shiftKey ? -1 : 1);
  });
  document.addEventListener("keydown", (e) => {
    if (e.key !== "/" || e.ctrlKey || e.metaKey || e.altKey || e.target === input) return;
    e.preventDefault();
    input.focus();
  });
  for (const job of jobs) job.addEventListener("toggle", () => { if (!query) opened[job.open ? "add" : "delete"](job); });
  document.getElementById("find").hidden = false; // without scripts there is no search
})();
