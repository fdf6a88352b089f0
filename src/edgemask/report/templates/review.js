"use strict";
(() => {
  const source = document.getElementById("review-data");
  if (!source) return;
  const data = JSON.parse(source.textContent);
  const find = (id) => document.getElementById(id);
  const PAGE = 30;
  const ACTIONS = ["keep", "relabel", "drop"];
  const SAID = { keep: "kept", relabel: "relabelled", drop: "dropped" };
  const KEY = `edgemask-review-${data.key}`;

  // All text reaches the page as text, never as markup.
  const element = (tag, text, className) => {
    const made = document.createElement(tag);
    if (text !== undefined) made.textContent = text;
    if (className) made.className = className;
    return made;
  };
  const count = (number, one) => `${number.toLocaleString("en")} ${one}${number === 1 ? "" : "s"}`;
  const short = (text) => (text.length > 120 ? `${text.slice(0, 119)}…` : text);
  const share = (value) => `${(100 * value).toFixed(1)} %`;

  // Stirling's series, after the recurrence has moved x to where it is exact enough.
  function logGamma(x) {
    if (x < 12) return logGamma(x + 1) - Math.log(x);
    const inverse = 1 / (x * x);
    return (x - 0.5) * Math.log(x) - x + 0.5 * Math.log(2 * Math.PI)
      + (1 / 12 - (1 / 360 - (1 / 1260 - inverse / 1680) * inverse) * inverse) / x;
  }
  // The regularised incomplete beta function by its continued fraction (modified Lentz).
  function incompleteBeta(x, a, b) {
    if (x <= 0 || x >= 1) return x <= 0 ? 0 : 1;
    if (x > (a + 1) / (a + b + 2)) return 1 - incompleteBeta(1 - x, b, a);
    const tiny = 1e-300;
    const away = (value) => (Math.abs(value) < tiny ? tiny : value);
    let c = 1;
    let d = 1 / away(1 - ((a + b) * x) / (a + 1));
    let sum = d;
    for (let m = 1; m < 500; m += 1) {
      const even = (m * (b - m) * x) / ((a + 2 * m - 1) * (a + 2 * m));
      d = 1 / away(1 + even * d);
      c = away(1 + even / c);
      sum *= d * c;
      const odd = (-(a + m) * (a + b + m) * x) / ((a + 2 * m) * (a + 2 * m + 1));
      d = 1 / away(1 + odd * d);
      c = away(1 + odd / c);
      sum *= d * c;
      if (Math.abs(d * c - 1) < 1e-15) break;
    }
    const front = a * Math.log(x) + b * Math.log1p(-x) + logGamma(a + b) - logGamma(a) - logGamma(b);
    return (Math.exp(front) * sum) / a;
  }
  function betaQuantile(p, a, b) {
    let low = 0;
    let high = 1;
    for (let step = 0; step < 100; step += 1) {
      const middle = (low + high) / 2;
      if (incompleteBeta(middle, a, b) < p) low = middle; else high = middle;
    }
    return (low + high) / 2;
  }
  // The two-sided 95 % interval of Clopper and Pearson.
  const clopperPearson = (wrong, total) => [
    wrong === 0 ? 0 : betaQuantile(0.025, wrong, total - wrong + 1),
    wrong === total ? 1 : betaQuantile(0.975, wrong + 1, total - wrong),
  ];
  window.edgemaskReview = { clopperPearson };

  // ---- What is decided
  const rowOf = new Map(data.id.map((id, row) => [id, row]));
  const numberOf = new Map(data.classes.map((name, number) => [name, number]));
  const placeInCheck = new Map(data.check.map((row, place) => [row, place + 1]));
  const decisions = new Map(); // by id: { action, label, given }; given only where it was read
  const others = new Map(); // decisions about samples that are not on this page, as they were read
  const undone = [];
  const state = { tab: "listed", queue: [], at: 0, page: 0 };

  function remember() {
    try {
      localStorage.setItem(KEY, JSON.stringify({ decisions: [...decisions], others: [...others] }));
    } catch {
      say("This browser keeps no decisions: save the file before you close the page.");
    }
  }
  function recall() {
    try {
      const kept = JSON.parse(localStorage.getItem(KEY) || "null");
      if (!kept) return false;
      kept.decisions.forEach(([id, decision]) => {
        if (rowOf.has(id) && ACTIONS.includes(decision.action)) decisions.set(id, decision);
      });
      kept.others.forEach(([id, row]) => others.set(id, row));
      return true;
    } catch {
      return false;
    }
  }
  const say = (text) => { find("review-status").textContent = text; };

  // ---- The file
  const field = (text) => {
    const safe = /^[ ']*[=+\-@|%]/.test(text) ? `'${text}` : text;
    return /[",\r\n]/.test(safe) ? `"${safe.replaceAll('"', '""')}"` : safe;
  };
  const plain = (text) => (text.startsWith("'") && /^[ ']*[=+\-@|%]/.test(text) ? text.slice(1) : text);
  function fileText() {
    const lines = [["id", "action", "label", "given", "check"]];
    data.id.forEach((id, row) => {
      const decision = decisions.get(id);
      if (!decision) return;
      const place = placeInCheck.get(row);
      const label = decision.action === "relabel" ? decision.label : "";
      const given = decision.given ?? data.classes[data.given[row]];
      // A draw from a part of the labels has no place in a file about all of them.
      const check = data.drawn ? decision.check : place;
      lines.push([id, decision.action, label, given, check ? String(check) : ""]);
    });
    others.forEach((row, id) => lines.push([id, row.action, row.label || "", row.given || "", row.check || ""]));
    return lines.map((line) => `${line.map(field).join(",")}\n`).join("");
  }
  function parse(text) {
    const rows = [[]];
    let cell = "";
    let quoted = false;
    const close = () => { rows[rows.length - 1].push(cell); cell = ""; };
    for (let place = text.charCodeAt(0) === 0xfeff ? 1 : 0; place < text.length; place += 1) {
      const char = text[place];
      if (quoted) {
        if (char !== '"') cell += char;
        else if (text[place + 1] === '"') { cell += '"'; place += 1; } else quoted = false;
      } else if (char === '"' && cell === "") quoted = true;
      else if (char === ",") close();
      else if (char === "\n") { close(); rows.push([]); } else if (char !== "\r") cell += char;
    }
    close();
    return rows.filter((row) => row.length > 1 || row[0] !== "");
  }
  // Returns a problem in words, or nothing.
  function take(row) {
    if (!row.id || !row.action) return "";
    if (!ACTIONS.includes(row.action)) return `the action “${row.action}” is unknown`;
    if (row.action === "relabel" && !numberOf.has(row.label)) return `there is no class “${row.label}”`;
    if (!rowOf.has(row.id)) {
      others.set(row.id, row);
      return "";
    }
    decisions.set(row.id, { action: row.action, label: row.action === "relabel" ? row.label : "", given: row.given || "", check: row.check || "" });
    return "";
  }
  function load(text) {
    const [header = [], ...lines] = parse(text);
    const columns = header.map((name) => name.trim());
    if (!columns.includes("id") || !columns.includes("action")) {
      say("This is no file of corrections: it has no columns id and action.");
      return;
    }
    const before = decisions.size + others.size;
    const problems = [];
    lines.forEach((line, place) => {
      const cells = Object.fromEntries(columns.map((name, column) => [name, plain(line[column] || "")]));
      const problem = take({ ...cells, action: (cells.action || "").trim().toLowerCase() });
      if (problem) problems.push(`line ${place + 2}: ${problem}`);
    });
    undone.length = 0;
    remember();
    const added = decisions.size + others.size - before;
    say(`Loaded ${count(lines.length, "row")}, ${added} of them new.`
      + (problems.length ? ` Left out: ${problems.slice(0, 3).join("; ")}${problems.length > 3 ? " …" : ""}.` : ""));
    choose();
  }

  // ---- What is shown
  const current = () => state.queue[state.at];
  const decided = (row) => decisions.get(data.id[row]);
  const rows = () => (state.tab === "check" ? data.check : [...Array(data.listed).keys()]);

  function options(select, first, names, used) {
    select.replaceChildren(new Option(first, ""));
    names.forEach((name, number) => { if (!used || used.has(number)) select.append(new Option(short(name), String(number))); });
  }
  function choose(keep) {
    const wanted = ["given", "suggested", "reason"].map((name) => [name, find(`filter-${name}`).value]);
    const show = find("filter-state").value;
    state.queue = rows().filter((row) => wanted.every(([name, value]) => state.tab === "check" || value === "" || data[name][row] === Number(value))
      && (!show || (show === "done") === Boolean(decided(row))));
    const place = state.queue.indexOf(keep);
    const open = state.queue.findIndex((row) => !decided(row));
    state.at = place >= 0 ? place : Math.max(0, open);
    draw();
  }

  function content(row) {
    const box = find("sample-shown");
    box.replaceChildren();
    if (data.pictures[row]) {
      const picture = element("img");
      picture.src = data.pictures[row];
      picture.alt = `Picture of ${data.id[row]}`;
      box.append(picture);
    }
    const shown = data.contents[row];
    if (typeof shown === "string") box.append(element("p", shown, "text"));
    else if (shown) {
      const table = element("table");
      shown.forEach(([name, value]) => {
        const line = table.insertRow();
        const head = element("th", name);
        head.scope = "row";
        line.append(head, element("td", value));
      });
      box.append(table);
    }
    if (!box.childElementCount) {
      box.append(element("p", data.links[row] ? "The picture is not in this page; open the file by its name." : "There is nothing to show of this sample; look it up by its name.", "note"));
    }
  }
  function fact(name, value, className) {
    return [element("dt", name), element("dd", short(value), className)];
  }
  function draw() {
    const row = current();
    const none = row === undefined;
    find("review-sample").hidden = none;
    find("review-empty").hidden = !none;
    find("review-empty").textContent = rows().length ? "No sample fits these filters." : "No sample is on the list.";
    if (!none) {
      const blind = state.tab === "check";
      content(row);
      const title = find("sample-id");
      title.replaceChildren();
      if (data.links[row]) {
        const link = element("a", data.id[row]);
        link.href = data.links[row];
        link.target = "_blank";
        link.rel = "noopener";
        title.append(link);
      } else title.textContent = data.id[row];
      find("sample-place").textContent = `${(state.at + 1).toLocaleString("en")} of ${state.queue.length.toLocaleString("en")}`;
      const facts = fact("given label", data.classes[data.given[row]], "given");
      if (!blind) {
        facts.push(...fact("suggested", data.classes[data.suggested[row]], "suggested"), ...fact("reason", data.reasons[data.reason[row]]), ...fact("score", data.score[row].toFixed(3)));
      }
      if (data.true && !blind) facts.push(...fact("true label", data.true[row] < 0 ? "none of the classes" : data.classes[data.true[row]]));
      find("sample-facts").replaceChildren(...facts);
      const decision = decided(row);
      const label = find("sample-state");
      label.textContent = decision ? SAID[decision.action] + (decision.action === "relabel" ? ` as ${short(decision.label)}` : "") : "";
      label.className = `state ${decision ? decision.action : ""}`;
      const guess = decision && decision.action === "relabel" ? numberOf.get(decision.label)
        : !blind && data.suggested[row] !== data.given[row] ? data.suggested[row] : "";
      find("right-class").value = String(guess);
    }
    progress();
    state.page = Math.floor(state.at / PAGE);
    list();
  }
  function progress() {
    const all = rows();
    const tally = { keep: 0, relabel: 0, drop: 0 };
    all.forEach((row) => { const decision = decided(row); if (decision) tally[decision.action] += 1; });
    const done = tally.keep + tally.relabel + tally.drop;
    find("review-progress").max = Math.max(1, all.length);
    find("review-progress").value = done;
    find("review-count").textContent = `${done.toLocaleString("en")} of ${all.length.toLocaleString("en")} decided: ${tally.keep} kept, ${tally.relabel} relabelled, ${tally.drop} dropped`;
    find("review-save").disabled = decisions.size + others.size === 0;
    interval();
  }
  // Only the samples before the first gap count, so that those that count are a random sample.
  function checked() {
    let wrong = 0;
    let total = 0;
    while (total < data.check.length && decided(data.check[total])) {
      if (decided(data.check[total]).action !== "keep") wrong += 1;
      total += 1;
    }
    return [wrong, total];
  }
  function interval() {
    if (!data.check.length) return;
    const [wrong, total] = checked();
    const box = find("review-interval");
    box.hidden = state.tab !== "check";
    const [low, high] = total ? clopperPearson(wrong, total) : [0, 1];
    const words = `${wrong} of ${total} labels checked by hand were wrong: between ${share(low)} and ${share(high)} of ${data.drawn || "all"} are (95 %, Clopper-Pearson).`;
    const later = data.check.some((row, place) => place > total && decided(row));
    const text = total ? words + (later ? " Decisions after the first undecided sample do not count yet." : "") : "Nothing has been checked yet.";
    if (box.textContent !== text) box.textContent = text;
    const verdict = find("verdict");
    if (!verdict) return;
    const complete = total === data.check.length;
    if (verdict.dataset.first === undefined) verdict.dataset.first = verdict.textContent;
    verdict.textContent = complete ? words : verdict.dataset.first;
    find("verdict-more").hidden = complete;
  }
  function list() {
    const last = Math.max(0, Math.ceil(state.queue.length / PAGE) - 1);
    state.page = Math.min(Math.max(0, state.page), last);
    const start = state.page * PAGE;
    find("review-rows").start = start + 1;
    find("review-rows").replaceChildren(...state.queue.slice(start, start + PAGE).map((row, offset) => {
      const line = element("li");
      const button = element("button");
      button.type = "button";
      const decision = decided(row);
      if (start + offset === state.at) button.setAttribute("aria-current", "true");
      if (data.pictures[row]) {
        const picture = element("img");
        picture.src = data.pictures[row];
        picture.alt = "";
        button.append(picture);
      }
      const words = element("span");
      const change = state.tab === "check" ? data.classes[data.given[row]] : `${data.classes[data.given[row]]} → ${data.classes[data.suggested[row]]}`;
      words.append(element("b", data.id[row]), element("span", short(change)));
      button.append(words, element("span", decision ? SAID[decision.action] : "", `state ${decision ? decision.action : ""}`));
      button.addEventListener("click", () => { state.at = start + offset; draw(); find("review-sample").scrollIntoView({ block: "nearest" }); });
      line.append(button);
      return line;
    }));
    find("page-place").textContent = `page ${state.page + 1} of ${last + 1}`;
    find("page-before").disabled = state.page === 0;
    find("page-after").disabled = state.page === last;
    document.querySelector(".review .pages").hidden = last === 0;
  }

  // ---- What is done
  function decide(action) {
    const row = current();
    if (row === undefined) return;
    const chosen = find("right-class").value;
    if (action === "relabel" && (chosen === "" || Number(chosen) === data.given[row])) {
      find("right-class").focus();
      say("Choose the right class, then press Enter.");
      return;
    }
    const id = data.id[row];
    const before = decisions.get(id);
    undone.push([row, before]);
    decisions.set(id, { action, label: action === "relabel" ? data.classes[Number(chosen)] : "", check: before?.check });
    remember();
    const open = (place) => !decided(state.queue[place]);
    const places = [...state.queue.keys()];
    const next = places.slice(state.at + 1).find(open) ?? places.find(open);
    const words = `${id}: ${SAID[action]}${action === "relabel" ? ` as ${short(decisions.get(id).label)}` : ""}.`;
    if (next === undefined) say(`${words} All of these are decided.`);
    else { say(words); state.at = next; }
    draw();
  }
  function undo() {
    const last = undone.pop();
    if (!last) { say("There is nothing to undo."); return; }
    const [row, before] = last;
    if (before) decisions.set(data.id[row], before); else decisions.delete(data.id[row]);
    remember();
    say(`${data.id[row]}: undone.`);
    const place = state.queue.indexOf(row);
    if (place >= 0) state.at = place;
    draw();
  }
  function move(by) {
    state.at = Math.min(Math.max(0, state.at + by), Math.max(0, state.queue.length - 1));
    draw();
  }
  function open(tab) {
    state.tab = tab;
    ["listed", "check"].forEach((name) => {
      find(`tab-${name}`).setAttribute("aria-selected", String(name === tab));
      find(`tab-${name}`).tabIndex = name === tab ? 0 : -1;
    });
    find("review-panel").setAttribute("aria-labelledby", `tab-${tab}`);
    document.querySelectorAll(".filters label").forEach((label) => {
      label.hidden = tab === "check" && !label.querySelector("#filter-state");
    });
    find("review-hint").textContent = tab === "check"
      ? `These samples were drawn at random${data.drawn ? ` from ${data.drawn}` : ""}. Is each given label right? Go through them in order; what is suggested is not shown here, so that it does not sway you. “Drop” means that no class is right, and counts as wrong.`
      : "Most suspicious first. Keep means that the given label is right; drop leaves the sample out. Nothing changes in your data until you use the saved file.";
    choose();
  }

  const deeds = {
    keep: () => decide("keep"),
    relabel: () => decide("relabel"),
    drop: () => decide("drop"),
    undo,
    previous: () => move(-1),
    next: () => move(1),
    choose: () => find("right-class").focus(),
  };
  const KEYS = { k: "keep", r: "relabel", d: "drop", u: "undo", c: "choose", ArrowLeft: "previous", ArrowRight: "next" };
  document.addEventListener("keydown", (event) => {
    if (!find("review-keys").checked || event.ctrlKey || event.metaKey || event.altKey || event.isComposing) return;
    if (event.target.closest("input:not([type=checkbox]), select, textarea")) return;
    if (event.key.startsWith("Arrow") && event.target.closest("[role=tab], .plot")) return;
    const deed = KEYS[event.key.length === 1 ? event.key.toLowerCase() : event.key];
    if (!deed) return;
    event.preventDefault();
    deeds[deed]();
  });
  find("right-class").addEventListener("keydown", (event) => {
    if (event.key !== "Enter" && event.key !== "Escape") return;
    event.preventDefault();
    find("right-class").blur();
    if (event.key === "Enter") decide("relabel");
  });
  document.querySelectorAll(".review [data-action]").forEach((button) => button.addEventListener("click", () => deeds[button.dataset.action]()));
  ["given", "suggested", "reason", "state"].forEach((name) => find(`filter-${name}`).addEventListener("change", () => choose()));
  ["listed", "check"].forEach((name, place, names) => {
    const tab = find(`tab-${name}`);
    tab.addEventListener("click", () => open(name));
    tab.addEventListener("keydown", (event) => {
      if (event.key !== "ArrowLeft" && event.key !== "ArrowRight") return;
      event.preventDefault();
      const other = names[1 - place];
      open(other);
      find(`tab-${other}`).focus();
    });
  });
  find("page-before").addEventListener("click", () => { state.page -= 1; list(); });
  find("page-after").addEventListener("click", () => { state.page += 1; list(); });
  find("review-save").addEventListener("click", () => {
    const link = element("a");
    link.href = URL.createObjectURL(new Blob([fileText()], { type: "text/csv" }));
    link.download = "corrections.csv";
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 10000);
    say(`Saved ${count(decisions.size + others.size, "decision")} as corrections.csv.`);
  });
  find("review-load").addEventListener("change", async (event) => {
    const [file] = event.target.files;
    if (file) load(await file.text());
    event.target.value = "";
  });

  const listed = [...Array(data.listed).keys()];
  options(find("filter-given"), "all", data.classes, new Set(listed.map((row) => data.given[row])));
  options(find("filter-suggested"), "all", data.classes, new Set(listed.map((row) => data.suggested[row])));
  options(find("filter-reason"), "all", data.reasons, new Set(listed.map((row) => data.reason[row])));
  options(find("right-class"), "choose …", data.classes);
  data.decisions.forEach((row) => take({ label: "", ...row }));
  const again = recall();
  open("listed");
  if (again && decisions.size) say(`${count(decisions.size, "decision")} of an earlier visit ${decisions.size === 1 ? "is" : "are"} back.`);
})();
