// SPDX-License-Identifier: Apache-2.0

package main

import (
	"regexp"
	"strings"
	"testing"
)

// TestFigureIsNotBehindTheMark checks on which side of its dot or bar a figure is.
func TestFigureIsNotBehindTheMark(t *testing.T) {
	for _, tt := range []struct {
		name         string
		log, target  bool
		end, mark, x float64
		class        string
	}{
		{name: "no target", log: true, end: 300, x: 313, class: "v"},
		{name: "mark to the left", log: true, target: true, end: 300, mark: 290, x: 313, class: "v"},
		{name: "mark far to the right", log: true, target: true, end: 300, mark: 400, x: 313, class: "v"},
		{name: "mark beside the dot", log: true, target: true, end: 300, mark: 305, x: 289, class: "v e"},
		{name: "mark beside the bar", target: true, end: 300, mark: 305, x: 287, class: "in e"},
		{name: "no room to the left", log: true, target: true, end: 150, mark: 155, x: 163, class: "v"},
	} {
		class, x := figurePlace(tt.log, "570 ms", tt.end, tt.target, tt.mark)
		if class != tt.class || x != tt.x {
			t.Errorf("%s: %q at %v, want %q at %v", tt.name, class, x, tt.class, tt.x)
		}
	}
}

// TestDotIsInFrontOfTheMark also checks that grid lines are only as high as the bars of a group.
func TestDotIsInFrontOfTheMark(t *testing.T) {
	chart := Chart{Title: "Load", Log: true, Columns: []Column{{Unit: "ns"}}}
	one := bar{label: "one", text: "20.0 ns (target 21 ns)", value: 20, target: 21}
	svg := chart.svg([]group{{title: "first", bars: []bar{one, one}}, {title: "second", bars: []bar{one}}})
	if mark, dot := strings.Index(svg, `class="target"`), strings.Index(svg, "<circle"); mark < 0 || mark > dot {
		t.Errorf("mark at %d, dot at %d", mark, dot)
	}
	lines := regexp.MustCompile(`class="grid" d="M\S+ (\d+ V\d+)"`).FindAllStringSubmatch(svg, -1)
	var heights []string
	for _, line := range lines {
		heights = append(heights, line[1])
	}
	if got := strings.Join(heights, ", "); got != "90 V142, 90 V142, 176 V202, 176 V202" {
		t.Errorf("grid lines: %s", got)
	}
}
