// Makes the page of its content, whose form tools/report/report_blocks.h says. Charts can be zoomed,
// and read by keyboard.
(function () {
  "use strict";
  const content = JSON.parse(document.getElementById("content").textContent);
  const charts = [];  // with their places, which have to be in the page before they are drawn
  const drawn = [];
  // It would set an attribute that the page's policy forbids; the page has legends of its own.
  Dygraph.PLUGINS = Dygraph.PLUGINS.filter((plugin) => plugin !== Dygraph.Plugins.Legend);

  // Text stays text, whatever is in it.
  function make(tag, attributes, ...children) {
    const element = ["svg", "path", "text"].includes(tag)
      ? document.createElementNS("http://www.w3.org/2000/svg", tag) : document.createElement(tag);
    Object.entries(attributes).forEach(([name, value]) => element.setAttribute(name, value));
    element.append(...children.flat());
    return element;
  }
  const scrolled = (name, tag, ...children) => make(tag,
    { class: "scroll", tabindex: "0", role: "region", "aria-label": name }, ...children);
  const cells = (row) => row.map((cell) => make("td", {}, cell));
  const headings = (all) => all.map((heading) => make("th", { scope: "col" }, heading));
  const keys = (all) => make("ul", { class: "keys" }, all.map(([name, colour]) =>
    make("li", {}, make("span", { class: "swatch " + colour }), " " + name)));

  function bar(parts, full) {
    return make("td", { class: "bar" }, make("div", {}, parts
      .filter(([length]) => length > 0 && full > 0).map(([length, colour]) => {
        const part = make("span", { class: colour });
        part.style.width = 100 * length / full + "%";
        return part;
      })));
  }

  const blocks = {
    text: (text) => [make("p", {}, text)],
    soft: (text) => [make("p", { class: "soft" }, text)],
    heading: (text) => [make("h3", {}, text)],
    figures: (figures) => [make("dl", { class: "figures" }, figures.map(([name, figure]) =>
      make("div", {}, make("dt", {}, name), make("dd", {}, figure))))],
    advice: (each) => [make("div", { class: "advice", id: "advice-" + each.rule },
      make("h3", {}, each.title), make("p", {}, each.evidence), make("p", {}, each.action),
      make("p", { class: "soft" }, "More: ", make("cite", {}, each.document)))],
    table: (table) => [make("details", {}, make("summary", {}, table.name),
      scrolled(table.name, "div", make("table", {},
        make("thead", {}, make("tr", {}, headings(table.headings))),
        make("tbody", {}, table.rows.map((row) => make("tr", {}, cells(row)))))))],
    bars: (table) => [keys(table.keys), scrolled(table.caption, "div",
      make("table", { class: "bars" },
        make("caption", { class: "soft left" }, table.caption),
        make("thead", {}, make("tr", {}, headings(table.headings.slice(0, 1)), make("td", {}),
          headings(table.headings.slice(1)))),
        make("tbody", {}, table.rows.map((row) => make("tr", {}, make("td", {}, row.label),
          bar(row.parts, table.full), cells(row.cells))))))],
    strips: (strips) => {
      const height = 24 * strips.rows.length;
      const path = (row, i, colour) => make("path", { class: colour, d: row[colour].map((percent, x) =>
        (percent ? `M${x} ${24 * i + 24}v-${Math.max(1, 0.18 * percent)}h1V${24 * i + 24}z` : ""))
        .join("") });
      return [keys(strips.keys), scrolled("Over time", "figure", make("svg", { class: "strips",
        viewBox: `-90 0 690 ${height + 20}`, role: "img", "aria-label": strips.label },
      strips.rows.map((row, i) => [
        make("text", { x: -6, y: 24 * i + 20, "text-anchor": "end" }, row.label),
        path(row, i, "rest"), path(row, i, "k1")]).flat(),
      make("text", { x: 0, y: height + 16 }, "0"),
      make("text", { x: 600, y: height + 16, "text-anchor": "end" }, strips.end)))];
    },
    chart: (chart) => {
      charts.push(chart);
      chart.legend = make("div", { class: "legend" });
      chart.place = make("div", { class: "chart", id: chart.id, tabindex: "0", role: "application",
        "aria-label": chart.label
          + "; arrow keys read values, plus and minus zoom, 0 shows all" });
      chart.values = make("div", { class: "values", id: chart.id + "-values",
        "aria-live": "polite" });
      return [make("figure", {}, chart.legend, chart.place, chart.values)];
    },
  };

  document.title += ": " + content.command.slice(0, 100);
  document.querySelector("header").append(make("h1", {}, content.heading),
    make("p", { class: "command" }, content.command),
    make("p", { class: "soft" }, content.origin),
    make("nav", { "aria-label": "Panels" }, make("ul", {}, content.sections.map((section) =>
      make("li", {}, make("a", { href: "#" + section.id }, section.title))))),
    ...content.notes.map((note) => make("p", { class: "missing", role: "note" }, note)));
  document.querySelector("main").append(...content.sections.map(({ id, title, blocks: all }) =>
    make("section", { id, "aria-labelledby": id + "-title" },
      make("h2", { id: id + "-title" }, title),
      all.flatMap((block) => Object.entries(block)
        .flatMap(([kind, value]) => blocks[kind](value))))));

  const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  const digits = (value) => {
    const size = Math.abs(value);
    return value.toFixed(size >= 99.95 || size === 0 ? 0 : size >= 9.995 ? 1 : size >= 0.0995 ? 2 : 4);
  };
  const seconds = (value) => (Math.abs(value) < 1 && value !== 0
    ? digits(value * 1000) + " ms" : digits(value) + " s");

  // One row for each time that any series has.
  function rows(series) {
    const at = new Map();
    series.forEach((each, i) => {
      each.t.forEach((t, k) => {
        if (!at.has(t)) at.set(t, new Array(series.length).fill(null));
        at.get(t)[i] = each.v[k];
      });
    });
    return [...at.entries()].sort((a, b) => a[0] - b[0]).map(([t, values]) => [t, ...values]);
  }

  function logRange(chart) {
    const values = chart.series.flatMap((each) => each.v).filter((value) => value > 0);
    return [Math.min(...values) / 1.5, Math.max(...values) * 1.5];
  }

  function options(chart) {
    const isLogarithmic = chart.form === "logarithmic";
    const isOfWindows = chart.form === "windows";  // shares by lengths of time
    const perSeries = {};
    chart.series.forEach((each) => {
      perSeries[each.name] = {
        stepPlot: each.form === "step",
        drawPoints: each.form === "points",
        strokeWidth: each.form === "points" ? 0 : 1.5,
        strokePattern: each.form === "dashed" ? [6, 4] : null,
        pointSize: 2.5,
      };
    });
    return {
      labels: ["s", ...chart.series.map((each) => each.name)],
      series: perSeries,
      colors: chart.series.map((each) => colour(each.colour)),
      visibility: chart.series.map((each) => !each.hidden),
      connectSeparatedPoints: true,
      logscale: isLogarithmic,
      dateWindow: isOfWindows ? [Math.min(1e-4, chart.end) / 1.1, chart.end * 1.1] : [0, chart.end],
      valueRange: isLogarithmic ? logRange(chart) : isOfWindows ? [0, 102] : null,
      labelsKMB: false,
      includeZero: !isLogarithmic,
      gridLineColor: colour("--line"),
      axisLineColor: colour("--line"),
      axisLabelFontSize: 12,
      highlightCircleSize: 4,
      animatedZooms: false,
      ylabel: chart.unit,
      axes: {
        x: { axisLabelFormatter: (value) => seconds(value), axisLabelWidth: 64,
          logscale: isOfWindows, ticker: Dygraph.numericTicks },
        y: { axisLabelFormatter: (value) => digits(value), axisLabelWidth: 56 },
      },
      highlightCallback: (event, x, points) => {
        chart.values.textContent = "At " + seconds(x) + ": " + points
          .filter((point) => point.yval !== null && !Number.isNaN(point.yval))
          .map((point) => point.name + " " + digits(point.yval) + " " + chart.unit).join(", ");
      },
    };
  }

  function addToggles(chart, graph, place) {
    chart.series.forEach((each, i) => {
      const label = document.createElement("label");
      const box = document.createElement("input");
      box.type = "checkbox";
      box.checked = !each.hidden;
      box.addEventListener("change", () => graph.setVisibility(i, box.checked));
      const swatch = document.createElement("span");
      swatch.className = "swatch";
      swatch.style.background = "var(" + each.colour + ")";
      label.append(box, swatch, each.name);
      place.append(label);
    });
  }

  // Left and right move the reading, + and - zoom around it, 0 shows all.
  function addKeys(element, graph) {
    let row = 0;
    element.addEventListener("keydown", (event) => {
      if (event.ctrlKey || event.metaKey || event.altKey) return;  // the browser's
      const last = graph.numRows() - 1;
      const [begin, end] = graph.xAxisRange();
      const zoom = (factor) => {
        const middle = graph.getValue(row, 0);
        const half = (end - begin) * factor / 2;
        graph.updateOptions({ dateWindow: [middle - half, middle + half] });
      };
      const step = event.shiftKey ? 20 : 1;
      if (event.key === "ArrowRight") row = Math.min(last, row + step);
      else if (event.key === "ArrowLeft") row = Math.max(0, row - step);
      else if (event.key === "+") zoom(0.5);
      else if (event.key === "-") zoom(2);
      else if (event.key === "0") graph.resetZoom();
      else return;
      event.preventDefault();
      if (last >= 0) graph.setSelection(row, undefined, false, true);
    });
  }

  charts.forEach((chart) => {
    const data = rows(chart.series);
    if (data.length === 0) return;
    const graph = new Dygraph(chart.place, data, options(chart));
    addToggles(chart, graph, chart.legend);
    addKeys(chart.place, graph);
    drawn.push({ chart, graph });
  });

  const overTime = drawn.filter(({ chart }) => chart.form !== "windows");
  if (overTime.length > 1) {
    Dygraph.synchronize(overTime.map((each) => each.graph),
      { selection: false, zoom: true, range: false });
  }
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => {
    drawn.forEach(({ chart, graph }) => graph.updateOptions({
      colors: chart.series.map((each) => colour(each.colour)),
      gridLineColor: colour("--line"),
      axisLineColor: colour("--line"),
    }));
  });
  document.documentElement.dataset.ready = "yes";
})();
