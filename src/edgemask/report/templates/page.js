"use strict";
(() => {
  const figures = JSON.parse(document.getElementById("figures").textContent);
  const tip = document.createElement("div");
  tip.className = "tip";
  tip.hidden = true;
  document.body.append(tip);

  // All text reaches the page as text, never as markup.
  const element = (tag, text, className) => {
    const made = document.createElement(tag);
    if (text !== undefined) made.textContent = text;
    if (className) made.className = className;
    return made;
  };
  const percent = (value, digits = 2) => `${(100 * value).toFixed(digits)} %`;

  function showTip(x, y, lines) {
    tip.replaceChildren(...lines);
    tip.hidden = false;
    const box = tip.getBoundingClientRect();
    const left = x + 14 + box.width > innerWidth ? x - 14 - box.width : x + 14;
    tip.style.left = `${Math.max(4, left)}px`;
    tip.style.top = `${Math.max(4, Math.min(y + 14, innerHeight - box.height - 4))}px`;
  }
  const hideTip = () => { tip.hidden = true; };
  const line = (name, value) => {
    const row = element("div");
    row.append(element("span", name), element("b", value));
    return row;
  };

  // Pointer and arrow keys both move over a plot; `at(fraction)` returns where the cursor goes and the lines to show.
  function follow(plot, step, at) {
    const cursor = element("div", undefined, "cursor");
    cursor.hidden = true;
    plot.append(cursor);
    let place = 1;
    const show = (fraction, x, y) => {
      const found = at(Math.min(1, Math.max(0, fraction)));
      if (!found) return;
      place = found.place;
      cursor.hidden = false;
      cursor.style.left = `${100 * place}%`;
      showTip(x, y, found.lines);
    };
    const hide = () => { cursor.hidden = true; hideTip(); };
    const pointed = (event) => {
      const box = plot.getBoundingClientRect();
      show((event.clientX - box.left) / box.width, event.clientX, event.clientY);
    };
    plot.addEventListener("pointermove", pointed);
    plot.addEventListener("pointerdown", pointed);
    plot.addEventListener("pointerleave", hide);
    plot.addEventListener("blur", hide);
    plot.addEventListener("keydown", (event) => {
      const move = { ArrowLeft: -step, ArrowRight: step }[event.key];
      if (event.key === "Escape") hide();
      if (!move) return;
      event.preventDefault();
      const box = plot.getBoundingClientRect();
      const to = Math.min(1, Math.max(0, place + move));
      show(to, box.left + to * box.width, box.top + box.height / 3);
    });
  }

  function curves(root, figure) {
    const [left, right] = figure.range;
    const show = (value) => (figure.percent ? percent(value) : String(Number(value.toPrecision(4))));
    const hidden = new Set();
    root.querySelectorAll(".legend button").forEach((key) => key.addEventListener("click", () => {
      const on = key.getAttribute("aria-pressed") !== "true";
      key.setAttribute("aria-pressed", String(on));
      hidden[on ? "delete" : "add"](Number(key.dataset.series));
      root.querySelectorAll(`path[data-series="${key.dataset.series}"]`).forEach((path) => {
        path.style.display = on ? "" : "none";
      });
    }));
    const xs = [...new Set(figure.series.flatMap((series) => series.x))].sort((a, b) => a - b);
    follow(root.querySelector(".plot"), 1 / Math.max(1, xs.length - 1), (fraction) => {
      const wanted = left + fraction * (right - left);
      const x = xs.reduce((best, each) => (Math.abs(each - wanted) < Math.abs(best - wanted) ? each : best), xs[0]);
      const lines = figure.series.flatMap((series) => {
        const value = series.y[series.x.indexOf(x)];
        return hidden.has(series.place) || value === null || value === undefined ? [] : [line(series.name, show(value))];
      });
      return { place: (x - left) / (right - left), lines: [element("b", `epoch ${x}`), ...lines] };
    });
  }

  function bars(root, figure) {
    const count = figure.edges.length - 1;
    follow(root.querySelector(".plot"), 1 / count, (fraction) => {
      const bin = Math.min(count - 1, Math.floor(fraction * count));
      const lines = figure.series.map((series) => line(series.name, percent(series.y[bin], 3)));
      const title = element("b", `${figure.edges[bin]} to ${figure.edges[bin + 1]}`);
      return { place: (bin + 0.5) / count, lines: [title, ...lines] };
    });
  }

  function setBars(root, figure, shares) {
    figure.series[0].y = shares;
    const lowest = Math.log10(figure.floor);
    const x = (value) => (1000 * (value - figure.edges[0])) / (figure.edges[figure.edges.length - 1] - figure.edges[0]);
    let path = "M0 1000";
    shares.forEach((share, bin) => {
      const top = (1000 * Math.log10(Math.max(share, figure.floor))) / lowest;
      path += `L${x(figure.edges[bin])} ${top}H${x(figure.edges[bin + 1])}`;
    });
    root.querySelector('path[data-series="0"]').setAttribute("d", `${path}V1000Z`);
  }

  function heat(root, figure) {
    const [frames, rows, columns] = figure.shape;
    const values = Uint8Array.from(atob(figure.data), (char) => char.charCodeAt(0));
    const canvas = root.querySelector("canvas");
    const brush = canvas.getContext("2d");
    let frame = frames - 1;
    figure.draw = (wanted) => {
      frame = wanted;
      const ink = getComputedStyle(document.documentElement).getPropertyValue("--accent").trim();
      const [red, green, blue] = [1, 3, 5].map((place) => parseInt(ink.slice(place, place + 2), 16));
      const image = brush.createImageData(columns, rows);
      for (let place = 0; place < rows * columns; place += 1) {
        const value = values[frame * rows * columns + place] / 255;
        image.data.set([red, green, blue, Math.round(255 * value ** figure.gamma)], 4 * place);
      }
      brush.putImageData(image, 0, 0);
    };
    const pointed = (event) => {
      const box = canvas.getBoundingClientRect();
      const row = Math.floor((rows * (event.clientY - box.top)) / box.height);
      const column = Math.floor((columns * (event.clientX - box.left)) / box.width);
      if (row < 0 || row >= rows || column < 0 || column >= columns) return;
      const value = values[(frame * rows + row) * columns + column] / 255;
      const words = `${figure.words[0]}${figure.rows[row]}${figure.words[1]}${figure.columns[column]}`;
      showTip(event.clientX, event.clientY, [line(words, figure.percent ? percent(value, 1) : value.toFixed(2))]);
    };
    canvas.addEventListener("pointermove", pointed);
    canvas.addEventListener("pointerdown", pointed);
    canvas.addEventListener("pointerleave", hideTip);
    figure.draw(frame);
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => figure.draw(frame));
  }

  function slider(root, figure) {
    const input = root.querySelector("input");
    const button = root.querySelector("button");
    const histogram = figure.histogram && document.getElementById(figure.histogram);
    const show = () => {
      const place = Number(input.value);
      root.querySelector("output").textContent = figure.epochs[place];
      input.setAttribute("aria-valuetext", `epoch ${figure.epochs[place]}`);
      if (figure.retention) root.querySelector(".note").textContent = `${percent(figure.retention[place], 1)} of the edges retained`;
      if (figure.map) figures[figure.map].draw(place);
      if (histogram) setBars(histogram, figures[figure.histogram], figures[figure.histogram].frames[place]);
    };
    let timer = 0;
    const stop = () => { clearInterval(timer); timer = 0; button.textContent = "Play"; };
    input.addEventListener("input", () => { stop(); show(); });
    button.addEventListener("click", () => {
      if (timer) { stop(); return; }
      if (Number(input.value) === Number(input.max)) input.value = "0";
      button.textContent = "Stop";
      show();
      timer = setInterval(() => {
        input.value = String(Number(input.value) + 1);
        show();
        if (Number(input.value) >= Number(input.max)) stop();
      }, 250);
    });
    show();
  }

  function sortable(table) {
    const heads = [...table.tHead.rows[0].cells];
    heads.forEach((head, column) => head.querySelector("button").addEventListener("click", () => {
      const body = table.tBodies[0];
      const rows = [...body.rows].map((row) => ({ row, key: row.cells[column].dataset.sort }));
      const numeric = rows.every(({ key }) => key === "" || Number.isFinite(Number(key)));
      const now = head.getAttribute("aria-sort");
      const down = now ? now === "ascending" : numeric;
      heads.forEach((other) => other.removeAttribute("aria-sort"));
      head.setAttribute("aria-sort", down ? "descending" : "ascending");
      rows.sort((a, b) => {
        if (a.key === "" || b.key === "") return (a.key === "") - (b.key === "");
        const order = numeric ? a.key - b.key : a.key.localeCompare(b.key, undefined, { numeric: true });
        return down ? -order : order;
      });
      body.append(...rows.map(({ row }) => row));
    }));
  }

  const kinds = { curves, bars, map: heat, slider };
  Object.entries(figures).forEach(([id, figure]) => kinds[figure.kind](document.getElementById(id), figure));
  document.querySelectorAll("table.sortable").forEach(sortable);
  document.querySelectorAll(".copy").forEach((button) => button.addEventListener("click", async () => {
    const text = button.parentElement.querySelector("code");
    try {
      await navigator.clipboard.writeText(text.textContent);
      button.textContent = "Copied";
    } catch {
      getSelection().selectAllChildren(text);
      button.textContent = "Selected";
    }
    setTimeout(() => { button.textContent = "Copy"; }, 1500);
  }));
  addEventListener("scroll", hideTip, { passive: true });
})();
