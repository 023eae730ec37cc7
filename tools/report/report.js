// Draws the series of the page as charts that can be zoomed, and read by keyboard.
(function () {
  "use strict";
  const charts = JSON.parse(document.getElementById("series").textContent);
  const drawn = [];
  // It would set an attribute that the page's policy forbids; the page has legends of its own.
  Dygraph.PLUGINS = Dygraph.PLUGINS.filter((plugin) => plugin !== Dygraph.Plugins.Legend);

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

  function options(chart, legend) {
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
      logscale: chart.logscale,
      dateWindow: [0, chart.run],
      valueRange: chart.logscale ? logRange(chart) : null,
      labelsKMB: false,
      includeZero: !chart.logscale,
      gridLineColor: colour("--line"),
      axisLineColor: colour("--line"),
      axisLabelFontSize: 12,
      highlightCircleSize: 4,
      animatedZooms: false,
      ylabel: chart.unit,
      axes: {
        x: { axisLabelFormatter: (value) => seconds(value), axisLabelWidth: 64 },
        y: { axisLabelFormatter: (value) => digits(value), axisLabelWidth: 56 },
      },
      highlightCallback: (event, x, points) => {
        legend.textContent = "At " + seconds(x) + ": " + points
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
    const element = document.getElementById(chart.id);
    const data = rows(chart.series);
    if (data.length === 0) return;
    const values = document.getElementById(chart.id + "-values");
    const graph = new Dygraph(element, data, options(chart, values));
    addToggles(chart, graph, document.getElementById(chart.id + "-legend"));
    addKeys(element, graph);
    drawn.push({ chart, graph });
  });

  if (drawn.length > 1) {
    Dygraph.synchronize(drawn.map((each) => each.graph),
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
