"use strict";
(function () {
  var boxes = document.querySelectorAll("input[data-shows]");
  function apply() {
    var shown = {};
    boxes.forEach(function (box) { shown[box.dataset.shows] = box.checked; });
    document.querySelectorAll("[data-severity]").forEach(function (finding) {
      finding.hidden = !shown[finding.dataset.severity];
    });
    var left = document.querySelectorAll("[data-severity]:not([hidden])").length;
    document.getElementById("shown").textContent = left + (left === 1 ? " finding shown" : " findings shown");
  }
  boxes.forEach(function (box) { box.addEventListener("change", apply); });
  addEventListener("beforeprint", function () {
    document.querySelectorAll("details.more").forEach(function (rest) { rest.open = true; });
  });
  var filters = document.getElementById("filters");
  if (filters && boxes.length) { filters.hidden = false; apply(); }
})();
