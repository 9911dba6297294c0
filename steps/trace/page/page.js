"use strict";
(() => {
  // ---- data ----
  // A whole number that JavaScript cannot hold exactly is kept as its digits, where the browser gives them.
  const exact = (key, v, ctx) =>
    typeof v === "number" && ctx && !Number.isSafeInteger(v) && /^-?\d+$/.test(ctx.source) ? ctx.source : v;
  const trace = JSON.parse(document.getElementById("trace").textContent, exact);
  const run = trace.run;
  const icons = { success: "✓", failure: "✗", skipped: "–", cancelled: "⊘", running: "▸", allowed: "✗" };
  const words = { success: "succeeded", failure: "failed", skipped: "skipped", cancelled: "cancelled", running: "running", allowed: "failed, as allowed" };
  const LINES_PER_BLOCK = 400; // of a log; a block outside the screen costs no layout
  const LINES_AT_ONCE = 4000;  // drawn before the browser gets a turn
  const LONGEST_LINE = 20000;  // characters of a line that are drawn
  const NO_ENTRIES = Object.freeze({});

  // at returns the milliseconds since 1970 of a time with up to nanoseconds.
  const at = (t) => Date.parse(t.replace(/\.\d+/, "")) + Number("0" + (/\.\d+/.exec(t) || [".0"])[0]) * 1000;
  const began = at(run.started);
  const standing = (s) => (s.allowed ? "allowed" : s.status);
  const label = (s) => s.title || s.name || "step";

  const root = { step: null, depth: 0, parent: null, open: true, status: run.status, name: "Whole run", start: 0, length: run.duration_ns / 1e6, children: [] };
  const nodes = [root];
  const byID = new Map();
  const grow = (steps, parent) => {
    for (const step of steps) {
      const node = { step, depth: parent.depth + 1, parent, open: true, status: standing(step), name: label(step), children: [],
        start: step.started ? at(step.started) - began : 0, length: step.duration_ns / 1e6 };
      nodes.push(node);
      byID.set(step.id, node);
      parent.children.push(node);
      grow(step.steps || [], node);
    }
  };
  grow(trace.steps, root);
  root.length = Math.max(root.length, ...nodes.slice(0, 20000).map((n) => n.start + n.length), 0.001);

  // ---- small things ----
  const $ = (id) => document.getElementById(id);
  const h = (tag, props, ...children) => {
    const el = document.createElement(tag);
    for (const [k, v] of Object.entries(props || {})) {
      if (v === undefined || v === null || v === false) continue;
      if (k === "class") el.className = v;
      else if (k.startsWith("on")) el.addEventListener(k.slice(2), v);
      else el.setAttribute(k, v === true ? "" : v);
    }
    el.append(...children.flat(Infinity).filter((c) => c !== null && c !== undefined && c !== false));
    return el;
  };
  const duration = (ms) => {
    if (ms < 1000) return Math.floor(ms) + "ms";
    if (ms < 59950) return (ms / 1000).toFixed(1) + "s";
    const s = Math.round(ms / 1000), two = (n) => String(n).padStart(2, "0");
    return s < 3600 ? Math.floor(s / 60) + "m" + two(s % 60) + "s" : Math.floor(s / 3600) + "h" + two(Math.floor((s % 3600) / 60)) + "m";
  };
  const bytes = (n) => (n < 1000 ? n + " B" : n < 1e6 ? (n / 1e3).toFixed(1) + " kB" : (n / 1e6).toFixed(1) + " MB");
  const plural = (n, what) => n.toLocaleString("en") + " " + what + (n === 1 ? "" : "s");
  const clock = (t) => new Date(t).toLocaleString(undefined, { dateStyle: "medium", timeStyle: "medium" });
  const badge = (status) => h("span", { class: "badge s-" + status }, h("span", { "aria-hidden": "true" }, icons[status] || "?"), words[status] || status);
  const isSensitive = (v) => v && typeof v === "object" && Object.keys(v).length === 1 && typeof v.$sensitive === "string";
  const show = (v) => {
    if (isSensitive(v)) return h("span", { class: "secret", title: "keyed digest " + v.$sensitive }, "[sensitive]");
    if (typeof v === "string") return v;
    return JSON.stringify(v, (k, x) => (isSensitive(x) ? "[sensitive]" : x), v && typeof v === "object" ? 2 : 0);
  };
  const quote = (w) => (/^[\w./:=,@%+-]+$/.test(w) ? w : "'" + w.replaceAll("'", "'\\''") + "'");
  const place = (span) => span && span.file ? span.file + (span.line ? ":" + span.line + ":" + span.column : "") : "";

  // ---- theme ----
  const stored = (() => { try { return localStorage.getItem("theme"); } catch { return null; } })();
  const dark = matchMedia("(prefers-color-scheme: dark)");
  let theme = stored === "dark" || stored === "light" ? stored : "";
  const paint = () => {
    const now = theme || (dark.matches ? "dark" : "light");
    document.documentElement.dataset.theme = now;
    const button = $("theme");
    if (button) { button.textContent = now === "dark" ? "Light" : "Dark"; button.setAttribute("aria-label", "Use the " + button.textContent.toLowerCase() + " theme"); }
  };
  dark.addEventListener("change", paint);
  const toggleTheme = () => {
    theme = document.documentElement.dataset.theme === "dark" ? "light" : "dark";
    try { localStorage.setItem("theme", theme); } catch { /* a page from a file may not store anything */ }
    paint();
  };

  // ---- header ----
  const plainID = (id) => id.replace(/#\d+/g, "");
  const errorText = (e, at) => (e.step_name && e.step !== plainID(at) ? `step "${e.step_name}": ` : "") + e.message;
  const problem = (e, at, extra) => h("div", { class: "notice bad" }, h("strong", { title: e.code && `${e.code}, fault: ${e.fault}` }, errorText(e, at)), extra,
    (e.diagnostics || []).map((d) => h("pre", {}, (place(d) ? place(d) + ": " : "") + d.message + (d.source ? "\n" + d.source : "") + (d.hint ? "\nhint: " + d.hint : ""))),
    e.hint && h("span", { class: "hint" }, e.hint));
  const firstFailure = () => run.error && run.error.step && nodes.findLast((n) => n.step && plainID(n.step.id) === run.error.step) ||
    nodes.find((n) => n.step && n.status === "failure" && !n.children.length) || nodes.find((n) => n.step && n.status === "failure");
  const header = () => {
    const spec = (run.component && run.component.spec) || {};
    const job = run.identity || NO_ENTRIES, described = (spec.description || "").split("\n")[0];
    const title = job.job || described || "Run";
    const known = [["project", job.project], ["ref", job.ref], ["commit", (job.commit || "").slice(0, 10)], ["pipeline", [job.pipeline, job.pipeline_id].filter(Boolean).join(" ")],
      ["stage", job.stage]].filter(([, text]) => text);
    const allowed = run.status === "failure" && (job.allow_failure || (job.allow_failure_exit_codes || []).includes(run.exit_code));
    const c = run.counts || {};
    const counts = [["success", "ok"], ["failure", "failed"], ["allowed", "failed as allowed"], ["cancelled", "cancelled"], ["skipped", "skipped"]]
      .filter(([k]) => c[k]).map(([k, w]) => h("span", { class: "s-" + k }, c[k] + " " + w));
    const rt = trace.runtime || {};
    const failed = firstFailure();
    $("run").append(
      h("div", { class: "run-top" }, badge(allowed ? "allowed" : run.status), h("h1", {}, title), h("span", { class: "run-id" }, run.id), h("span", { class: "spacer" }),
        h("button", { id: "theme", type: "button", onclick: toggleTheme, "aria-keyshortcuts": "t" })),
      known.length ? h("div", { class: "facts", id: "job" }, known.map(([what, text]) => h("span", {}, what + " ", h("b", {}, text)))) : "",
      h("div", { class: "facts" }, h("span", {}, h("b", {}, duration(run.duration_ns / 1e6))), ...counts,
        run.exit_code ? h("span", {}, "exit " + run.exit_code) : null, ...counted(everything()).map(([k, n]) => h("span", { class: "a-" + k }, plural(n, k))),
        h("time", { datetime: run.started }, clock(run.started)),
        rt.os && h("span", {}, [rt.version, rt.os + "/" + rt.arch].filter(Boolean).join(" · "))),
      (run.environment || NO_ENTRIES).ignored_image ? h("div", { class: "notice warn" }, "The job ran without its image " + run.environment.ignored_image) : "",
      trace.incomplete ? h("div", { class: "notice warn" }, "The trace ends before the run does: it was killed, or it is still running.") : "",
      run.stopping ? h("div", { class: "notice warn" }, "Asked to stop: " + run.stopping.reason) : "",
      run.error ? problem(run.error, "", failed && h("button", { type: "button", onclick: () => select(failed, true) }, "Show the step")) : "",
      ...(trace.warnings || []).map((w) => h("div", { class: "notice warn" }, "Warning: " + w.message, w.step && byID.has(w.step) ? h("button", { type: "button", onclick: () => select(byID.get(w.step), true) }, "Show the step") : null)));
  };

  // ---- annotations and summaries ----
  const levels = ["error", "warning", "notice"], signs = { error: "✗", warning: "▲", notice: "●" };
  const levelOf = (a) => (signs[a.level] ? a.level : "notice");
  const counted = (list) => levels.map((k) => [k, list.filter((a) => levelOf(a) === k).length]).filter(([, n]) => n);
  const countText = (list) => counted(list).map(([k, n]) => plural(n, k)).join(", ");
  const chip = (list) => counted(list).slice(0, 1).map(([k, n]) => h("span", { class: "chip a-" + k, title: countText(list), "aria-hidden": "true" }, signs[k] + " " + n)); // the worst
  const everything = () => nodes.filter((n) => n.step && n.step.annotations).flatMap((n) => n.step.annotations);
  // linesOf returns for each annotation of a step the line of its log that says it, -1 where none is found.
  const places = new Map();
  const linesOf = (s) => {
    if (!s.annotations || !s.log) return (s.annotations || []).map(() => -1);
    if (places.has(s.id)) return places.get(s.id);
    const lines = plainOf(s.id), taken = new Set();
    let budget = 5e6; // lines to look at, so that a page of many annotations and long logs stays quick
    const at = s.annotations.map((a) => {
      const text = a.message.trim().split("\n")[0].toLowerCase(), file = (a.file || "").toLowerCase();
      const search = (needle) => ((budget -= lines.length) < 0 ? -1 : lines.findIndex((l, i) => l.includes(text) && l.includes(needle) && !taken.has(i)));
      let i = text ? search(file) : -1;
      if (i < 0 && text && file) i = search("");
      taken.add(i);
      return i;
    });
    places.set(s.id, at);
    return at;
  };
  const showLine = (n, index) => {
    select(n);
    if (!view.box) return;
    view.finish();
    const line = view.box.querySelectorAll(".l, .cut")[index];
    for (const old of view.box.querySelectorAll(".here")) old.classList.remove("here");
    line.classList.add("here");
    line.scrollIntoView({ block: "center", inline: "nearest" });
  };
  const annotationRow = (n, a, index, named) => {
    const line = index >= 0 ? logOf(n.step.id).lines[index] : null;
    const where = a.file ? a.file + (a.line ? ":" + a.line + (a.column ? ":" + a.column : "") : "") : "";
    return h("li", { class: "said a-" + levelOf(a) }, h("span", { class: "mark", title: levelOf(a) }, signs[levelOf(a)], h("span", { class: "visually-hidden" }, levelOf(a))),
      h("div", { class: "what" },
        where || named ? h("div", { class: "where" }, where ? h("span", { class: "mono" }, where) : null, named ? h("span", { class: "of" }, n.name) : null) : null,
        h("div", { class: "message" }, a.title ? h("b", {}, a.title + ": ") : null, a.message, a.code ? h("span", { class: "code-name" }, " " + a.code) : null)),
      line ? h("button", { type: "button", onclick: () => showLine(n, index) }, Number.isNaN(line[2]) ? "In the log" : "Line " + line[2]) : named ? h("button", { type: "button", onclick: () => select(n, true) }, "Show the step") : null);
  };
  const ANNOTATIONS_SHOWN = 200; // at once, of the whole run
  const annotationsBox = (list, left) => {
    if (!list.length) return null;
    const shown = list.slice(0, ANNOTATIONS_SHOWN), rows = h("ul", { class: "saids" }, shown.map((x) => annotationRow(...x)));
    const rest = list.length - shown.length;
    if (rest) {
      const more = h("li", { class: "said" }, h("button", { type: "button", onclick: () => more.replaceWith(...list.slice(ANNOTATIONS_SHOWN).map((x) => annotationRow(...x))) }, "Show " + plural(rest, "more annotation")));
      rows.append(more);
    }
    if (left) rows.append(h("li", { class: "said" }, plural(left, "more annotation") + " the trace does not keep."));
    return box("Annotations", rows, true, countText(list.map(([, a]) => a)));
  };
  const ofStep = (n, named) => { const at = linesOf(n.step); return (n.step.annotations || []).map((a, i) => [n, a, at[i], named]); };
  const summaryBody = (s) => {
    const made = $("summary-" + s.id);
    return made ? h("div", { class: "markdown" }, document.importNode(made.content, true)) : h("pre", { class: "code", tabindex: "0" }, s.summary);
  };

  // ---- tree and timeline ----
  let selected = null, from = 0, to = root.length, query = "";
  const tree = $("tree");
  const bar = (kind, start, length) => {
    const el = h("div", { class: "bar " + kind });
    el._start = start; el._length = length;
    return el;
  };
  const bars = (n) => {
    if (n.status === "skipped") return [];
    const attempts = (n.step && n.step.attempts) || [];
    if (attempts.length < 2) return [bar("", n.start, n.length)];
    return attempts.map((a) => bar(a.exit_code || a.error ? "attempt bad" : "attempt", at(a.started) - began, a.duration_ns / 1e6));
  };
  const aside = (n) => {
    const s = n.step;
    if (!s) return "";
    if (s.skip_reason) return s.skip_reason;
    const parts = [];
    if (s.title && s.title !== s.name) parts.push(s.name);
    if (s.id.includes("#")) parts.push("time " + s.id.split("#").pop());
    if (s.exit_code) parts.push("exit " + s.exit_code);
    if (s.attempts && s.attempts.length > 1) parts.push(s.attempts.length + " attempts");
    if (s.ref) parts.push((s.resolved && s.resolved.ref) || s.ref);
    return parts.join(" · ");
  };
  const makeRow = (n) => {
    const siblings = n.parent ? n.parent.children : [n];
    const name = h("div", { class: "name" });
    name.style.paddingLeft = Math.min(n.depth, 12) * 16 + "px";
    name.append(n.children.length ? h("span", { class: "twist", "aria-hidden": "true" }, "▾") : h("span", { class: "twist" }),
      h("span", { class: "icon s-" + n.status, "aria-hidden": "true" }, icons[n.status] || "?"), h("span", { class: "text" }, n.name),
      h("span", { class: "visually-hidden" }, ", " + words[n.status] + (n.step && n.step.annotations ? ", " + countText(n.step.annotations) : "") + ", "),
      h("span", { class: "aside" }, aside(n)), ...chip((n.step && n.step.annotations) || []));
    n.row = h("div", { class: "row s-" + n.status + (n.children.length ? " list" : ""), role: "treeitem", "aria-level": n.depth + 1, tabindex: "-1",
      "aria-setsize": siblings.length, "aria-posinset": siblings.indexOf(n) + 1, "aria-selected": "false",
      "aria-expanded": n.children.length ? "true" : null,
      title: n.name + (aside(n) ? "\n" + aside(n) : "") },
      name, h("span", { class: "num" }, n.status === "skipped" ? "" : duration(n.length)), h("div", { class: "track" }, bars(n)));
    n.row._node = n;
    return n.row;
  };
  const layBars = () => {
    const span = to - from;
    for (const n of nodes) {
      for (const el of n.row.querySelectorAll(".bar")) {
        el.style.left = ((el._start - from) / span) * 100 + "%";
        el.style.width = (el._length / span) * 100 + "%";
      }
    }
    const raw = span / Math.max(2, Math.min(6, $("axis").clientWidth / 62)), unit = 10 ** Math.floor(Math.log10(raw));
    const timely = [1e3, 2e3, 5e3, 1e4, 15e3, 3e4, 6e4, 12e4, 3e5, 6e5, 9e5, 18e5, 36e5, 72e5, 144e5].find((x) => x >= raw);
    const step = raw >= 1000 && timely ? timely : [1, 2, 5, 10].map((k) => k * unit).find((x) => x >= raw);
    const ticks = [];
    for (let t = Math.ceil(from / step - 1e-9) * step; t < to - step / 8; t += step) {
      const tick = h("span", { class: "tick" }, t === 0 ? "0" : t < 1000 ? +t.toFixed(2) + "ms" : duration(t));
      tick.style.left = ((t - from) / span) * 100 + "%";
      ticks.push(tick);
    }
    $("axis").replaceChildren(...ticks);
    $("zoom-out").hidden = from === 0 && to === root.length;
  };
  const shown = (n) => { for (let p = n.parent; p; p = p.parent) if (!p.open) return false; return true; };
  const fold = (n, open) => {
    if (!n.children.length || n.open === open) return;
    n.open = open;
    n.row.setAttribute("aria-expanded", String(open));
    for (const other of nodes) other.row.hidden = !shown(other);
  };
  const zoom = (n) => {
    const pad = Math.max(n.length * 0.04, 0.5);
    [from, to] = n === root ? [0, root.length] : [Math.max(0, n.start - pad), Math.min(root.length, n.start + n.length + pad)];
    if (to - from < 0.01) to = from + 0.01;
    layBars();
  };
  const select = (n, focus) => {
    if (!n) return;
    for (let p = n.parent; p; p = p.parent) fold(p, true);
    if (selected) { selected.row.setAttribute("aria-selected", "false"); selected.row.tabIndex = -1; }
    const same = selected === n;
    selected = n;
    n.row.setAttribute("aria-selected", "true");
    n.row.tabIndex = 0;
    if (focus) { n.row.focus({ preventScroll: true }); n.row.scrollIntoView({ block: "nearest" }); }
    if (!same) {
      details(n);
      try { history.replaceState(null, "", n.step ? "#step=" + encodeURIComponent(n.step.id) : "#run"); } catch { /* not in every frame */ }
    }
  };
  const visible = () => nodes.filter((n) => !n.row.hidden);
  const move = (by) => {
    const list = visible();
    select(list[Math.max(0, Math.min(list.length - 1, list.indexOf(selected) + by))], true);
  };
  tree.addEventListener("click", (e) => {
    const row = e.target.closest(".row");
    if (!row) return;
    if (e.target.closest(".twist") && row._node.children.length) fold(row._node, !row._node.open);
    select(row._node, true);
    if (e.detail && matchMedia("(max-width: 860px)").matches && !e.target.closest(".twist")) $("details").scrollIntoView({ block: "start" });
  });
  tree.addEventListener("dblclick", (e) => { const row = e.target.closest(".row"); if (row) zoom(row._node); });
  tree.addEventListener("keydown", (e) => {
    if (e.ctrlKey || e.metaKey || e.altKey) return;
    const n = selected;
    const acts = {
      ArrowDown: () => move(1), ArrowUp: () => move(-1), PageDown: () => move(15), PageUp: () => move(-15),
      Home: () => move(-Infinity), End: () => move(Infinity),
      ArrowRight: () => (n.children.length && !n.open ? fold(n, true) : n.children.length && move(1)),
      ArrowLeft: () => (n.children.length && n.open ? fold(n, false) : n.parent && select(n.parent, true)),
      Enter: () => $("details").focus(), " ": () => fold(n, !n.open),
    };
    if (!acts[e.key]) return;
    e.preventDefault();
    acts[e.key]();
  });

  // ---- logs ----
  const escapes = /\x1b(?:\[([0-9;:?<=>]*)[ -/]*([@-~])|\][^\x07\x1b]*(?:\x07|\x1b\\)?|[PX^_][^\x1b]*(?:\x1b\\)?|[()*+#%][ -~]|[ -~]?)|[\x00-\x08\x0b-\x1f\x7f]/g;
  const logs = new Map();
  // logOf returns the lines of a step's log as [stream, text, number], or [0, bytes] where some are left out.
  const logOf = (id) => {
    if (logs.has(id)) return logs.get(id);
    const el = $("log-" + id);
    const pairs = el ? JSON.parse(el.textContent) : [];
    const lines = [];
    let number = 1;
    for (let i = 0; i < pairs.length; i += 2) {
      if (pairs[i] === 0) { lines.push([0, pairs[i + 1]]); number = NaN; continue; }
      const parts = pairs[i + 1].split("\n");
      const last = parts.pop();
      for (const text of parts) lines.push([pairs[i], afterReturn(text), number++]);
      if (last !== "") lines.push([pairs[i], afterReturn(last), number]);
    }
    const log = { lines, plain: null };
    logs.set(id, log);
    return log;
  };
  // afterReturn drops what a carriage return goes back over, as progress bars do.
  const afterReturn = (text) => {
    if (!text.includes("\r")) return text;
    const parts = text.split("\r");
    while (parts.length > 1 && parts[parts.length - 1] === "") parts.pop();
    return parts[parts.length - 1];
  };
  const plainOf = (id) => {
    const log = logOf(id);
    if (!log.plain) log.plain = log.lines.map((l) => (l[0] ? l[1].replace(escapes, "").toLowerCase() : ""));
    return log.plain;
  };
  // unsearched returns how many bytes of the logs are not in the page, so that a search does not see them.
  const unsearched = () => nodes.reduce((sum, n) => sum + (n.step && n.step.log ? logOf(n.step.id).lines.reduce((k, l) => k + (l[0] ? 0 : l[1]), 0) : 0), 0);
  const occurrences = (text, q) => {
    let n = 0;
    for (let i = text.indexOf(q); i >= 0; i = text.indexOf(q, i + q.length)) n++;
    return n;
  };

  // Colours: state is {f, g, b, d, i, u, x, inverse}; f and g are a number below 16 or a CSS colour.
  const cube = (n) => {
    if (n < 16) return n;
    if (n > 231) { const v = (n - 232) * 10 + 8; return `rgb(${v},${v},${v})`; }
    const level = (k) => (k ? k * 40 + 55 : 0);
    n -= 16;
    return `rgb(${level(Math.floor(n / 36))},${level(Math.floor(n / 6) % 6)},${level(n % 6)})`;
  };
  const sgr = (state, params) => {
    const p = params.split(/[;:]/).map(Number);
    for (let i = 0; i < p.length; i++) {
      const c = p[i];
      if (c === 0) { for (const k of Object.keys(state)) delete state[k]; }
      else if (c === 1) state.b = true; else if (c === 2) state.d = true; else if (c === 3) state.i = true; else if (c === 4) state.u = true;
      else if (c === 7) state.inverse = true; else if (c === 9) state.x = true;
      else if (c === 22) { delete state.b; delete state.d; } else if (c === 23) delete state.i; else if (c === 24) delete state.u;
      else if (c === 27) delete state.inverse; else if (c === 29) delete state.x;
      else if (c >= 30 && c <= 37) state.f = c - 30; else if (c >= 90 && c <= 97) state.f = c - 82; else if (c === 39) delete state.f;
      else if (c >= 40 && c <= 47) state.g = c - 40; else if (c >= 100 && c <= 107) state.g = c - 92; else if (c === 49) delete state.g;
      else if (c === 38 || c === 48) {
        const key = c === 38 ? "f" : "g";
        if (p[i + 1] === 5) { state[key] = cube(p[i + 2] & 255); i += 2; }
        else if (p[i + 1] === 2) { state[key] = `rgb(${p[i + 2] & 255},${p[i + 3] & 255},${p[i + 4] & 255})`; i += 4; }
      }
    }
  };
  const styled = (text, state) => {
    const classes = [];
    for (const k of ["b", "d", "i", "u", "x", "inverse"]) if (state[k]) classes.push(k);
    for (const k of ["f", "g"]) if (typeof state[k] === "number") classes.push(k + state[k]);
    const free = typeof state.f === "string" || typeof state.g === "string";
    if (!classes.length && !free) return document.createTextNode(text);
    const el = h("span", { class: classes.join(" ") }, text);
    if (typeof state.f === "string") el.style.color = state.f;
    if (typeof state.g === "string") el.style.backgroundColor = state.g;
    return el;
  };
  const drawLine = (line, state, q, said) => {
    if (line[0] === 0) return h("div", { class: "cut" }, bytes(line[1]) + " of this log are left out of the page here. The trace file has all of it.");
    let raw = line[1], more = 0;
    if (raw.length > LONGEST_LINE) { more = raw.length - LONGEST_LINE; raw = raw.slice(0, LONGEST_LINE); }
    const runs = [];
    let end = 0;
    for (const m of raw.matchAll(escapes)) {
      if (m.index > end) runs.push([raw.slice(end, m.index), { ...state }]);
      end = m.index + m[0].length;
      if (m[2] === "m" && !/[?<=>]/.test(m[1])) sgr(state, m[1] || "0");
    }
    if (end < raw.length) runs.push([raw.slice(end), { ...state }]);
    const out = h("span", { class: "t" });
    const plain = q ? runs.map((r) => r[0]).join("").toLowerCase() : "";
    let hit = q ? plain.indexOf(q) : -1, pos = 0;
    for (const [text, style] of runs) {
      let i = 0;
      while (i < text.length) {
        const inHit = hit >= 0 && pos >= hit;
        const next = Math.min(text.length, i + (hit < 0 ? Infinity : (inHit ? hit + q.length : hit) - pos));
        const piece = styled(text.slice(i, next), style);
        out.append(inHit ? h("mark", { class: pos === hit ? "first" : null }, piece) : piece);
        pos += next - i;
        i = next;
        if (inHit && pos === hit + q.length) hit = plain.indexOf(q, pos);
      }
    }
    if (more) out.append(h("span", { class: "d" }, " … " + plural(more, "more character")));
    if (!runs.length) out.append("\n");
    return h("div", { class: "l" + (line[0] === 2 ? " err" : "") + (said ? " a-" + said : "") }, h("span", { class: "n", "aria-hidden": "true" }, Number.isNaN(line[2]) ? "" : line[2]), out);
  };

  let drawing = 0; // counts logs that were begun, so that one that is not wanted any more stops
  const view = { box: null, finish: null, marks: [], now: -1, count: null };
  let wrap = true, only = 0;
  const drawLog = (id, box) => {
    const s = byID.get(id).step, said = new Map(linesOf(s).map((at, k) => [at, levelOf(s.annotations[k])]));
    const mine = ++drawing, q = query, { lines } = logOf(id), states = { 1: {}, 2: {} };
    box.replaceChildren();
    let i = 0;
    const some = (limit) => {
      for (const stop = Math.min(lines.length, i + limit); i < stop;) {
        const block = h("div", { class: "block" }), until = Math.min(lines.length, i + LINES_PER_BLOCK);
        block.style.containIntrinsicSize = "auto " + (until - i) * 19.4 + "px";
        for (; i < until; i++) block.append(drawLine(lines[i], states[lines[i][0]] || {}, q, said.get(i)));
        box.append(block);
      }
    };
    const later = () => { if (mine !== drawing || i >= lines.length) return; some(LINES_AT_ONCE); requestAnimationFrame(later); };
    view.finish = () => { if (mine === drawing) some(Infinity); };
    view.now = -1;
    some(LINES_AT_ONCE);
    requestAnimationFrame(later);
  };
  const jump = (by) => {
    if (!query || !view.box) return;
    view.finish();
    const marks = [...view.box.querySelectorAll("mark.first")].filter((m) => m.offsetParent !== null);
    if (!marks.length) return;
    if (marks[view.now]) marks[view.now].classList.remove("now");
    view.now = (view.now + by + marks.length) % marks.length;
    marks[view.now].classList.add("now");
    marks[view.now].scrollIntoView({ block: "center", inline: "nearest" });
    view.count.textContent = (view.now + 1) + " of " + marks.length;
  };
  const logBox = (s) => {
    const id = s.id, box = h("div", { class: "lines" + (wrap ? " wrap" : "") + (only ? " only-" + only : ""), tabindex: "0", role: "log", "aria-live": "off", "aria-label": "Log" });
    const toggle = (text, pressed, act, title) => h("button", { type: "button", "aria-pressed": String(pressed), title, onclick: act }, text);
    const hasErr = logOf(id).lines.some((l) => l[0] === 2), hasOut = logOf(id).lines.some((l) => l[0] === 1);
    view.box = box;
    view.count = h("span", { class: "size", role: "status" });
    const wrapButton = toggle("Wrap", wrap, () => { wrap = !wrap; box.classList.toggle("wrap", wrap); wrapButton.setAttribute("aria-pressed", String(wrap)); }, "Wrap long lines");
    const streams = hasErr && hasOut ? [[1, "stdout"], [2, "stderr"]].map(([k, name]) => toggle(name, only === k, (e) => {
      only = only === k ? 0 : k;
      for (const b of streams) b.setAttribute("aria-pressed", String(b === e.currentTarget && only !== 0));
      box.classList.remove("only-1", "only-2");
      if (only) box.classList.add("only-" + only);
    }, "Show " + name + " only")) : [];
    if (!streams.length) box.classList.remove("only-1", "only-2");
    const copy = h("button", { type: "button", onclick: async () => {
      const text = logOf(id).lines.map((l) => (l[0] ? l[1].replace(escapes, "") : "…")).join("\n");
      try { await navigator.clipboard.writeText(text); copy.textContent = "Copied"; } catch { copy.textContent = "Not allowed"; }
      setTimeout(() => { copy.textContent = "Copy"; }, 1500);
    } }, "Copy");
    const size = s.log ? plural(s.log.lines, "line") + " · " + bytes(s.log.bytes) : "";
    const found = query && plainOf(id).some((l) => l.includes(query));
    const el = h("div", { class: "log" },
      h("div", { class: "log-bar" }, h("h3", {}, "Log"), h("span", { class: "size" }, size), !hasOut && hasErr ? h("span", { class: "size" }, "stderr only") : null,
        h("span", { class: "spacer" }), view.count,
        found ? [h("button", { type: "button", "aria-label": "Previous match", onclick: () => jump(-1) }, "↑"), h("button", { type: "button", "aria-label": "Next match", onclick: () => jump(1) }, "↓")] : null,
        streams, wrapButton, copy), box);
    drawLog(id, box);
    return el;
  };

  // ---- details ----
  const box = (title, body, open, count) => h("details", { class: "box", open }, h("summary", {}, title, count ? h("span", { class: "count" }, count) : null), body);
  const pairs = (entries) => h("dl", { class: "pairs" }, entries.map(([k, v]) => [h("dt", {}, k), h("dd", {}, show(v))]));
  const table = (title, values, open) => {
    const entries = Object.entries(values || NO_ENTRIES).sort(([a], [b]) => (a < b ? -1 : 1));
    return entries.length ? box(title, pairs(entries), open && entries.length <= 12, String(entries.length)) : null;
  };
  const json = (title, v) => (v ? box(title, h("pre", { class: "code", tabindex: "0" }, JSON.stringify(v, null, 2)), false) : null);
  const attemptBlock = (a, i, all) => h("div", { class: "attempt-block" },
    h("div", { class: "attempt-head" }, all.length > 1 ? h("b", {}, "Attempt " + (i + 1)) : null,
      h("span", {}, a.exit_code === undefined ? "did not end" : a.signal ? a.signal : "exit " + a.exit_code), h("span", {}, duration(a.duration_ns / 1e6)),
      h("span", { class: "mono" }, a.work_dir), a.unset ? h("span", {}, "without " + a.unset.join(", ")) : null),
    h("pre", { class: "code", tabindex: "0" }, (a.command || []).map(quote).join(" ")),
    a.error ? h("div", { class: "attempt-head" }, h("span", { class: "s-failure" }, a.error.message)) : null,
    table("Environment", a.env, false));
  const runDetails = () => [
    h("div", { class: "step-top" }, h("h2", {}, "Whole run"), badge(run.status)),
    h("div", { class: "facts" }, h("span", {}, duration(run.duration_ns / 1e6)), h("span", { class: "mono" }, run.work_dir)),
    run.error ? problem(run.error, "") : null,
    h("div", { class: "boxes" }, annotationsBox(nodes.filter((n) => n.step).flatMap((n) => ofStep(n, true)), 0),
      nodes.filter((n) => n.step && n.step.summary).map((n) => box("Summary of " + n.name, summaryBody(n.step), true)),
      table("Inputs", run.inputs, true), table("Outputs", run.outputs, true), table("Job variables", run.job, false),
      table("Secrets, as keyed digests", run.secrets, true), table("Environment", run.env, false),
      run.source ? box("Source", h("pre", { class: "code", tabindex: "0" }, run.source), true) : null, json("Plan", run.component), json("Runtime", trace.runtime)),
  ];
  const origin = (o) => !o ? [] : [["fetched from", o.url + (o.rev ? "@" + o.rev : "")], ["which was", o.pin],
    ...(o.path ? [["folder", o.path]] : []), ["package", o.package], ...(o.signed_by ? [["signed by", o.signed_by.join(", ")]] : [])];
  const stepDetails = (n) => {
    const s = n.step, crumbs = [];
    for (let p = n.parent; p && p.step; p = p.parent) crumbs.unshift(p.name);
    const definition = s.definition || (s.resolved && (trace.components || NO_ENTRIES)[s.resolved.digest + "/" + s.resolved.file]);
    const env = Object.keys(s.env || NO_ENTRIES).length ? table("Environment", s.env, false) : null;
    return [
      crumbs.length ? h("div", { class: "crumbs" }, crumbs.join(" / ")) : null,
      h("div", { class: "step-top" }, h("h2", {}, n.name), badge(n.status)),
      h("div", { class: "facts" }, s.title && s.title !== s.name ? h("span", { class: "mono" }, s.name) : null,
        n.status === "skipped" ? null : h("span", {}, h("b", {}, duration(n.length)), " from +" + duration(n.start)),
        s.exit_code !== undefined ? h("span", {}, "exit " + s.exit_code) : null, s.kind ? h("span", {}, s.kind) : null,
        place(s.span) ? h("span", { class: "mono" }, place(s.span)) : null),
      s.status === "running" ? h("div", { class: "notice warn" }, "The step was running when the trace ends.") : null,
      s.skip_reason ? h("div", { class: "notice" }, "Skipped: " + s.skip_reason) : null,
      s.error ? problem(s.error, s.id) : null,
      s.log && $("log-" + s.id) ? logBox(s) : null,
      h("div", { class: "boxes" },
        s.annotations ? annotationsBox(ofStep(n, false), s.annotations_left_out) : null,
        s.summary ? box("Summary", summaryBody(s), true) : null,
        s.subjects ? box("Made", pairs(s.subjects.map((x) => [x.name, x.digest])), true, String(s.subjects.length)) : null,
        s.ref ? box("Reference", pairs([["written", s.ref], ...(s.resolved ? [["resolved", s.resolved.ref], ["file", s.resolved.dir.replace(/\/$/, "") + "/" + s.resolved.file],
          ...(s.resolved.digest ? [["digest", s.resolved.digest]] : []), ...origin(s.resolved.origin)] : [])]), false) : null,
        s.attempts ? box(s.attempts.length > 1 ? "Attempts" : "Command", h("div", {}, s.attempts.map(attemptBlock)), true, s.attempts.length > 1 ? String(s.attempts.length) : "") : null,
        table("Inputs", s.inputs, true), table("Outputs", s.outputs, true), table("Exports", s.exports, true), env,
        s.secrets ? box("Secrets granted", pairs(s.secrets.map((name) => [name, { $sensitive: "of the run" }])), true) : null,
        json("Definition", definition)),
    ];
  };
  const details = (n) => {
    drawing++;
    view.box = null;
    const keys = [["↑↓", "steps"], ["←→", "fold"], ["/", "search"], ["n", "next match"], ["f", "next failure"], ["z", "zoom"], ["0", "whole run"], ["t", "theme"]];
    $("details").replaceChildren(...(n.step ? stepDetails(n) : runDetails()).filter(Boolean),
      h("div", { class: "keys", "aria-label": "Keys" }, keys.map(([k, what]) => [h("kbd", {}, k), what])));
    $("details").scrollTop = 0;
  };

  // ---- search ----
  let steps = []; // with a match, in order
  const search = () => {
    query = $("search").value.trim().toLowerCase();
    steps = [];
    let total = 0;
    for (const n of nodes) {
      const old = n.row.querySelector(".hits");
      if (old) old.remove();
      let hits = 0, named = false;
      if (query && n.step) {
        named = (n.name + "\n" + n.step.name + "\n" + (n.step.ref || "")).toLowerCase().includes(query);
        if (n.step.log) for (const line of plainOf(n.step.id)) if (line.includes(query)) hits += occurrences(line, query);
      }
      total += hits;
      if (hits) n.row.querySelector(".name").append(h("span", { class: "hits", title: hits === 1 ? "1 match in the log" : hits.toLocaleString("en") + " matches in the log" }, String(hits)));
      if (hits || named) steps.push(n);
      n.row.classList.toggle("dim", Boolean(query && n.step && !hits && !named));
    }
    const missing = query ? unsearched() : 0;
    $("found").textContent = !query ? "" : (steps.length ? plural(steps.length, "step") + (total ? ", " + total.toLocaleString("en") + " in logs" : "") : "nothing found") +
      (missing ? "; searched only a part: " + bytes(missing) + " of the logs are not in this page" : "");
    const first = steps.includes(selected) ? selected : steps.find((n) => n.row.querySelector(".hits")) || steps[0];
    if (first && first !== selected) select(first);
    else if (selected) details(selected);
    if (first) { first.row.scrollIntoView({ block: "nearest" }); jump(1); }
  };
  let pause = 0;
  $("search").addEventListener("input", () => { clearTimeout(pause); pause = setTimeout(search, 120); });
  $("search").addEventListener("keydown", (e) => {
    if (e.key === "Enter") {
      clearTimeout(pause);
      if (query !== $("search").value.trim().toLowerCase()) { search(); return; }
      const i = steps.indexOf(selected);
      if (i < 0 || (view.box && !view.box.querySelector("mark.first"))) select(steps[(i + 1) % steps.length]);
      jump(e.shiftKey ? -1 : 1);
    } else if (e.key === "Escape") { $("search").value = ""; search(); selected.row.focus(); }
  });
  const nextMatch = (by) => {
    if (!steps.length) return;
    const marks = view.box ? view.box.querySelectorAll("mark.first").length : 0;
    if (marks && (by > 0 ? view.now < marks - 1 : view.now > 0)) return jump(by);
    const i = steps.indexOf(selected);
    select(steps[(i + by + steps.length) % steps.length], true);
    jump(by);
  };
  const nextFailure = () => {
    const failed = nodes.filter((n) => n.step && n.status === "failure" && !n.children.length);
    if (failed.length) select(failed[(failed.indexOf(selected) + 1) % failed.length], true);
  };
  document.addEventListener("keydown", (e) => {
    if (e.ctrlKey || e.metaKey || e.altKey || /^(INPUT|TEXTAREA|SELECT)$/.test(e.target.tagName)) return;
    const acts = { "/": () => $("search").focus(), z: () => zoom(selected), 0: () => zoom(root), f: nextFailure, n: () => nextMatch(1), N: () => nextMatch(-1), t: toggleTheme,
      Escape: () => selected.row.focus() };
    if (!acts[e.key]) return;
    e.preventDefault();
    acts[e.key]();
  });
  $("zoom").addEventListener("click", () => zoom(selected));
  $("zoom-out").addEventListener("click", () => zoom(root));

  // ---- begin ----
  const asked = () => {
    const m = /^#step=(.*)$/.exec(location.hash);
    try { return m ? byID.get(decodeURIComponent(m[1])) : location.hash === "#run" ? root : undefined; } catch { return undefined; }
  };
  header();
  paint();
  tree.append(...nodes.map(makeRow));
  if (nodes.length === 1) tree.append(h("p", { class: "empty" }, "No step began."));
  layBars();
  select(asked() || firstFailure() || nodes.find((n) => n.status === "running" && n.step && !n.children.length) || nodes[1] || root);
  if (selected) requestAnimationFrame(() => selected.row.scrollIntoView({ block: "nearest" }));
  let resized = 0;
  addEventListener("resize", () => { cancelAnimationFrame(resized); resized = requestAnimationFrame(layBars); });
  addEventListener("hashchange", () => { const n = asked(); if (n && n !== selected) select(n, true); });
})();
