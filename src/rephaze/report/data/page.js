"use strict";
// What a page does besides being read: tabs, legends, zoom, hints, files. Nothing here asks the network.
(() => {
  const all = (where, what) => Array.from(where.querySelectorAll(what));

  // Hints: text of the mark under the pointer, or of the one with the focus.
  const tip = document.createElement("div");
  tip.className = "tip";
  tip.hidden = true;
  document.body.append(tip);
  const showTip = (text, x, y) => {
    tip.textContent = text;
    tip.hidden = false;
    const box = tip.getBoundingClientRect();
    tip.style.left = Math.max(4, Math.min(x + 14, innerWidth - box.width - 4)) + "px";
    tip.style.top = (y + box.height + 18 > innerHeight ? y - box.height - 8 : y + 16) + "px";
  };
  const hideTip = () => { tip.hidden = true; };
  document.addEventListener("pointermove", (event) => {
    const mark = event.target.closest ? event.target.closest("[data-t]") : null;
    if (mark) return showTip(mark.dataset.t, event.clientX, event.clientY);
    const timeline = event.target.closest ? event.target.closest(".events") : null;
    const text = timeline ? eventAt(timeline, event) : "";
    if (text) showTip(text, event.clientX, event.clientY); else hideTip();
  });
  addEventListener("scroll", hideTip, { passive: true });

  // Tabs: panels after the list; arrow keys, Home and End move between them.
  for (const list of all(document, "[role=tablist]")) {
    const tabs = all(list, "[role=tab]");
    const choose = (tab, focus) => {
      for (const one of tabs) {
        const on = one === tab;
        one.setAttribute("aria-selected", on);
        one.tabIndex = on ? 0 : -1;
        document.getElementById(one.getAttribute("aria-controls")).hidden = !on;
      }
      if (focus) tab.focus();
    };
    list.hidden = false;
    choose(tabs[0], false);
    list.addEventListener("click", (event) => {
      const tab = event.target.closest("[role=tab]");
      if (tab) choose(tab, false);
    });
    list.addEventListener("keydown", (event) => {
      const at = tabs.indexOf(document.activeElement);
      const to = { ArrowRight: at + 1, ArrowLeft: at - 1, Home: 0, End: tabs.length - 1 }[event.key];
      if (at < 0 || to === undefined) return;
      event.preventDefault();
      choose(tabs[(to + tabs.length) % tabs.length], true);
    });
  }

  // The section on the screen is marked in the list of sections.
  const links = new Map(all(document, "nav a").map((link) => [link.getAttribute("href").slice(1), link]));
  if ("IntersectionObserver" in window) {
    const seen = new Set();
    const watcher = new IntersectionObserver((entries) => {
      for (const entry of entries) seen[entry.isIntersecting ? "add" : "delete"](entry.target.id);
      const here = Array.from(links.keys()).find((id) => seen.has(id));
      for (const [id, link] of links) link.classList.toggle("here", id === here);
    }, { rootMargin: "-60px 0px -60% 0px" });
    for (const id of links.keys()) {
      const section = document.getElementById(id);
      if (section) watcher.observe(section);
    }
  }

  const dataOf = (figure) => JSON.parse(figure.querySelector("script.csv").textContent);
  const save = (blob, name) => {
    const link = document.createElement("a");
    link.href = URL.createObjectURL(blob);
    link.download = name;
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 2000);
  };

  // A drawing that stands alone: with its title, its legend, and the colours of the moment.
  const alone = (figure) => {
    const drawn = figure.querySelector(".plot > svg");
    const [, , width, height] = drawn.getAttribute("viewBox").split(" ").map(Number);
    const copy = drawn.cloneNode(true);
    const make = (name, attributes, text) => {
      const made = document.createElementNS(drawn.namespaceURI, name);
      for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
      if (text) made.textContent = text;
      return made;
    };
    const style = getComputedStyle(document.documentElement);
    const names = ["ink", "soft", "line", "paper", "ground", "grid", "bad", "good", "accent"];
    for (let n = 1; n <= 11; n += 1) names.push("c" + n);
    const colours = names.map((name) => `--${name}:${style.getPropertyValue("--" + name)}`).join(";");
    const head = [make("text", { x: 8, y: 20, class: "strong" }, figure.querySelector("figcaption").textContent)];
    let x = 8, y = 40;
    for (const entry of all(figure, ".legend button[aria-pressed=true]")) {
      const wide = 26 + 6.6 * entry.textContent.length;
      if (x + wide > width && x > 8) { x = 8; y += 18; }
      const colour = getComputedStyle(entry.querySelector("i")).backgroundColor;
      head.push(make("rect", { x, y: y - 10, width: 11, height: 11, fill: colour }));
      head.push(make("text", { x: x + 16, y }, entry.textContent));
      x += wide;
    }
    const top = y + 12;
    const outer = make("svg", { viewBox: `0 0 ${width} ${height + top}`, width, height: height + top });
    const rules = document.getElementById("figure-style").textContent;
    outer.append(make("style", {}, `svg{${colours}}${rules}.off{display:none}`));
    outer.append(make("rect", { width, height: height + top, fill: style.getPropertyValue("--paper") }));
    outer.append(...head);
    for (const [key, value] of Object.entries({ x: 0, y: top, width, height })) copy.setAttribute(key, value);
    outer.append(copy);
    return { text: new XMLSerializer().serializeToString(outer), width, height: height + top };
  };

  const picture = (figure, done) => {
    const { text, width, height } = alone(figure);
    const image = new Image();
    image.onload = () => {
      const canvas = document.createElement("canvas");
      canvas.width = 2 * width;
      canvas.height = 2 * height;
      canvas.getContext("2d").drawImage(image, 0, 0, canvas.width, canvas.height);
      canvas.toBlob(done, "image/png");
    };
    image.onerror = () => done(null);
    image.src = "data:image/svg+xml;charset=utf-8," + encodeURIComponent(text);
  };

  // Zoom along x: the inner drawing shows a part of itself, ticks are written anew.
  const zooms = new Map();
  const setZoom = (figure, from, to) => {
    const state = zooms.get(figure);
    const least = 1 / 4000;
    const wide = Math.min(1, Math.max(least, to - from));
    const begin = Math.min(Math.max(0, from), 1 - wide);
    Object.assign(state, { from: begin, to: begin + wide });
    const [, y, , height] = state.inner.getAttribute("viewBox").split(" ");
    state.inner.setAttribute("viewBox", `${1000 * begin} ${y} ${1000 * wide} ${height}`);
    writeTicks(state);
  };
  const roundTicks = (low, high, most) => {
    const raw = (high - low) / most;
    const power = 10 ** Math.floor(Math.log10(raw));
    const step = [1, 2, 2.5, 5, 10].map((factor) => factor * power).find((value) => value >= raw * 0.999);
    const found = [];
    for (let at = Math.ceil(low / step - 1e-9); at * step <= high * (1 + 1e-12); at += 1) found.push(at * step);
    return { ticks: found, digits: Math.max(0, -Math.floor(Math.log10(step) + 1e-9) + (step / power === 2.5 ? 1 : 0)) };
  };
  const writeTicks = (state) => {
    const low = state.last * state.from, high = state.last * state.to;
    const { ticks, digits } = roundTicks(low, high, 6);
    const left = Number(state.inner.getAttribute("x")), wide = Number(state.inner.getAttribute("width"));
    const marks = [];
    for (const value of ticks) {
      const x = left + wide * (value - low) / (high - low);
      const line = document.createElementNS(state.inner.namespaceURI, "line");
      for (const [key, set] of Object.entries({ class: "grid", x1: x, x2: x, y1: state.top, y2: state.bottom }))
        line.setAttribute(key, set);
      const text = document.createElementNS(state.inner.namespaceURI, "text");
      for (const [key, set] of Object.entries({ class: "tick", x, y: state.bottom + 16, "text-anchor": "middle" }))
        text.setAttribute(key, set);
      text.textContent = value.toLocaleString("en", { minimumFractionDigits: digits, maximumFractionDigits: digits });
      marks.push(line, text);
    }
    state.ticks.replaceChildren(...marks);
  };
  const zoomBy = (figure, factor, middle) => {
    const { from, to } = zooms.get(figure);
    const at = middle === undefined ? (from + to) / 2 : middle;
    setZoom(figure, at - (at - from) * factor, at + (to - at) * factor);
  };
  const move = (figure, part) => {
    const { from, to } = zooms.get(figure);
    setZoom(figure, from + part * (to - from), to + part * (to - from));
  };
  // Where the inner drawing is on the screen: its own box would be that of all it holds, shown or not.
  const boxOf = (inner) => {
    const outer = inner.ownerSVGElement, box = outer.getBoundingClientRect();
    const scale = box.width / outer.viewBox.baseVal.width;
    const at = (name) => scale * Number(inner.getAttribute(name));
    return { left: box.left + at("x"), top: box.top + at("y"), width: at("width"), height: at("height") };
  };
  const partAt = (figure, clientX) => {
    const state = zooms.get(figure);
    const box = boxOf(state.inner);
    return state.from + (state.to - state.from) * Math.min(1, Math.max(0, (clientX - box.left) / box.width));
  };
  for (const figure of all(document, ".zoomable")) {
    const inner = figure.querySelector("svg.zoom"), ticks = figure.querySelector(".xticks");
    const y = Number(inner.getAttribute("y"));
    const state = { inner, ticks, from: 0, to: 1, last: Number(inner.dataset.last), top: y,
                    bottom: y + Number(inner.getAttribute("height")) };
    zooms.set(figure, state);
    const plot = figure.querySelector(".plot");
    plot.addEventListener("keydown", (event) => {
      const act = { "+": () => zoomBy(figure, 0.5), "=": () => zoomBy(figure, 0.5), "-": () => zoomBy(figure, 2),
                    0: () => setZoom(figure, 0, 1), ArrowLeft: () => move(figure, -0.2),
                    ArrowRight: () => move(figure, 0.2) }[event.key];
      if (!act || event.ctrlKey || event.metaKey || event.altKey) return;
      event.preventDefault();
      act();
    });
    plot.addEventListener("wheel", (event) => {
      if (!event.ctrlKey && !event.shiftKey && !event.metaKey) return;
      event.preventDefault();
      zoomBy(figure, (event.deltaY || event.deltaX) > 0 ? 1.25 : 0.8, partAt(figure, event.clientX));
    }, { passive: false });
    let held = null;
    inner.addEventListener("pointerdown", (event) => {
      if (state.to - state.from > 0.999) return;
      held = partAt(figure, event.clientX);
      inner.setPointerCapture(event.pointerId);
    });
    inner.addEventListener("pointermove", (event) => {
      if (held === null) return;
      const shift = held - partAt(figure, event.clientX);
      setZoom(figure, state.from + shift, state.to + shift);
    });
    for (const end of ["pointerup", "pointercancel"]) inner.addEventListener(end, () => { held = null; });
  }

  // Events of a timeline are looked up in its data: device, kind, microbatch, start and end in milliseconds.
  const tables = new Map();
  const eventAt = (layer, pointer) => {
    const figure = layer.closest("figure");
    if (!tables.has(figure))
      tables.set(figure, dataOf(figure).trim().split("\n").slice(1).map((line) => line.split(",")));
    const state = zooms.get(figure);
    const at = state.last * partAt(figure, pointer.clientX);
    const box = boxOf(state.inner);
    const device = Math.floor((pointer.clientY - box.top) / box.height * Number(state.inner.dataset.rows)) + 1;
    const hit = tables.get(figure).find((row) => Number(row[0]) === device && Number(row[3]) <= at && at < Number(row[4]));
    if (!hit) return "";
    const lasts = (Number(hit[4]) - Number(hit[3])).toPrecision(4);
    const which = hit[2] === "" ? "once a batch" : "microbatch " + hit[2];
    return `device ${hit[0]}: ${hit[1]}, ${which}\n${Number(hit[3]).toPrecision(6)} to ${Number(hit[4]).toPrecision(6)} ms (${lasts} ms)`;
  };

  document.addEventListener("click", (event) => {
    const button = event.target.closest ? event.target.closest("button") : null;
    const figure = button ? button.closest("figure") : null;
    if (!figure) return;
    if (button.dataset.toggle !== undefined) {
      const on = button.getAttribute("aria-pressed") !== "true";
      button.setAttribute("aria-pressed", on);
      for (const mark of all(figure, "[data-s]"))
        if (mark.dataset.s === button.dataset.toggle) mark.classList.toggle("off", !on);
    }
    const name = figure.dataset.name;
    const acts = {
      csv: () => save(new Blob([dataOf(figure)], { type: "text/csv" }), name + ".csv"),
      svg: () => save(new Blob([alone(figure).text], { type: "image/svg+xml" }), name + ".svg"),
      png: () => picture(figure, (blob) => { if (blob) save(blob, name + ".png"); }),
      in: () => zoomBy(figure, 0.5),
      out: () => zoomBy(figure, 2),
      all: () => setZoom(figure, 0, 1),
    };
    if (acts[button.dataset.act]) acts[button.dataset.act]();
  });
  // What tests and scripts of a reader may ask for.
  window.rephaze = { picture, alone: (figure) => alone(figure).text, csv: dataOf };
})();
