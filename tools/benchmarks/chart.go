// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"html"
	"math"
	"strings"
	"unicode/utf8"
)

// Coordinates of a chart, in SVG user units.
const (
	chartWidth  = 800
	barLeft     = 110
	barRight    = 610 // the figure of the longest bar is to the right of it
	targetRight = 776 // targets are in a column that ends here
	rowHeight   = 26
	headHeight  = 62
	digitWidth  = 9 // of the widest font, with a margin
)

// style is that of the other pictures, with a color for each kind of bar. Dark pages have a style
// of their own.
const style = `<style>
  .bg{fill:#fff} .s0{fill:#4f63c6} .s1{fill:#15803d} .peer{fill:#b45309} .grid{stroke:#d1d5db} .target{stroke:#1f2937}
  .dot{stroke:#fff;stroke-width:1.5} .in{fill:#fff}
  text{font-family:system-ui,-apple-system,"Segoe UI",Roboto,"DejaVu Sans",sans-serif;font-size:14px;fill:#1f2937}
  .t{font-weight:600;font-size:15px} .s{font-size:12.5px;fill:#4b5563} .e{text-anchor:end} .m{text-anchor:middle}
  .v{paint-order:stroke;stroke:#fff;stroke-width:9px;stroke-linejoin:round}
  @media (prefers-color-scheme:dark){
    .bg{fill:#1b1b1f} .dot,.v{stroke:#1b1b1f} .s0{fill:#8ea0ff} .s1{fill:#4ade80} .peer{fill:#f0a94b}
    .grid{stroke:#3f3f46} .target{stroke:#e5e7eb} text{fill:#e5e7eb} .s{fill:#b6bdc9}
    .in{fill:#1b1b1f}
  }
</style>
`

// axis maps values to coordinates.
type axis struct {
	log       bool
	low, high float64
}

// newAxis returns an axis for all bars: from zero, or, with a logarithmic scale, from the power of
// ten below the least.
func newAxis(groups []group, log bool) axis {
	a := axis{log: log, low: math.Inf(1)}
	for _, g := range groups {
		for _, b := range g.bars {
			a.high = max(a.high, b.value, b.target)
			for _, v := range []float64{b.value, b.target} {
				if v > 0 {
					a.low = min(a.low, v)
				}
			}
		}
	}
	if !log || math.IsInf(a.low, 1) {
		return axis{high: max(a.high, math.SmallestNonzeroFloat64)}
	}
	a.low = math.Pow(10, math.Floor(math.Log10(a.low)))
	a.high = math.Pow(10, math.Ceil(math.Log10(a.high)))
	if a.low == a.high {
		a.high *= 10
	}
	return a
}

func (a axis) x(v float64) float64 {
	share := v / a.high
	if a.log {
		share = max(0, math.Log(v/a.low)/math.Log(a.high/a.low))
	}
	return barLeft + share*(barRight-barLeft)
}

// svg draws a chart. With a logarithmic scale, a figure is a dot on a line, because the length of a
// bar would be read as the value.
func (c *Chart) svg(groups []group) string {
	a := newAxis(groups, c.Log)
	var body strings.Builder
	y := float64(headHeight)
	subtitle := "shorter is better"
	if c.Log {
		subtitle = "logarithmic scale, further left is better"
	}
	for _, g := range groups {
		fmt.Fprintf(&body, "<text x=\"24\" y=\"%.0f\">%s</text>\n", y+20, html.EscapeString(g.title))
		y += rowHeight + 2
		if c.Log {
			body.WriteString(drawGrid(a, y, y+rowHeight*float64(len(g.bars))))
		}
		for _, b := range g.bars {
			body.WriteString(drawBar(a, b, y))
			y += rowHeight
		}
		y += 6
	}
	height := y + 14
	if c.Log {
		height += 20
	}
	var s strings.Builder
	fmt.Fprintf(&s, "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%.0f\" viewBox=\"0 0 %d %.0f\"\n",
		chartWidth, height, chartWidth, height)
	s.WriteString("  role=\"img\" aria-labelledby=\"title desc\">\n")
	fmt.Fprintf(&s, "<title id=\"title\">%s</title>\n", html.EscapeString(c.Title))
	fmt.Fprintf(&s, "<desc id=\"desc\">%s</desc>\n", html.EscapeString(describe(groups)))
	s.WriteString("<!-- SPDX-License-Identifier: Apache-2.0 -->\n" + style)
	fmt.Fprintf(&s, "<rect class=\"bg\" width=\"%d\" height=\"%.0f\" rx=\"12\"/>\n", chartWidth, height)
	fmt.Fprintf(&s, "<text class=\"t\" x=\"24\" y=\"34\">%s</text>\n", html.EscapeString(c.Title))
	fmt.Fprintf(&s, "<text class=\"s\" x=\"24\" y=\"54\">%s</text>\n", subtitle)
	if c.Log {
		s.WriteString(c.scale(a, y))
	}
	return s.String() + body.String() + "</svg>\n"
}

// powers returns the powers of ten of a logarithmic axis.
func (a axis) powers() (values []float64) {
	for v := a.low; v <= a.high*1.001; v *= 10 {
		values = append(values, v)
	}
	return values
}

// drawGrid draws a line for each power of ten, behind the bars of one group.
func drawGrid(a axis, top, bottom float64) string {
	var s strings.Builder
	for _, v := range a.powers() {
		fmt.Fprintf(&s, "<path class=\"grid\" d=\"M%.1f %.0f V%.0f\"/>\n", a.x(v), top, bottom)
	}
	return s.String()
}

// scale writes each power of ten below the grid.
func (c *Chart) scale(a axis, bottom float64) string {
	var s strings.Builder
	for _, v := range a.powers() {
		text := short(c.Columns[0].Unit, v)
		fmt.Fprintf(&s, "<text class=\"s m\" x=\"%.1f\" y=\"%.0f\">%s</text>\n", a.x(v), bottom+16, text)
	}
	return s.String()
}

// short returns a round value, as "10 µs".
func short(unit string, v float64) string {
	text := format(unit, v)
	number, rest, _ := strings.Cut(text, " ")
	if strings.Contains(number, ".") {
		number = strings.TrimRight(strings.TrimRight(number, "0"), ".")
	}
	return strings.TrimSpace(number + " " + rest)
}

// drawBar draws a row: the label, the bar, the mark of the target, and the figures. A dot is in
// front of the mark.
func drawBar(a axis, b bar, y float64) string {
	var s strings.Builder
	end, mark := a.x(b.value), a.x(b.target)
	fmt.Fprintf(&s, "<text class=\"s e\" x=\"%d\" y=\"%.1f\">%s</text>\n", barLeft-10, y+14, html.EscapeString(b.label))
	if a.log {
		fmt.Fprintf(&s, "<rect class=\"%s\" x=\"%d\" y=\"%.1f\" width=\"%.1f\" height=\"2\"/>\n",
			b.class, barLeft, y+9, end-barLeft)
	} else {
		fmt.Fprintf(&s, "<rect class=\"%s\" x=\"%d\" y=\"%.1f\" width=\"%.1f\" height=\"18\" rx=\"3\"/>\n",
			b.class, barLeft, y+1, max(end-barLeft, 1))
	}
	if b.target > 0 {
		fmt.Fprintf(&s, "<path class=\"target\" stroke-width=\"2\" d=\"M%.1f %.1f v22\"/>\n", mark, y-1)
	}
	if a.log {
		fmt.Fprintf(&s, "<circle class=\"dot %s\" cx=\"%.1f\" cy=\"%.1f\" r=\"6.5\"/>\n", b.class, end, y+10)
	}
	figure, target, _ := strings.Cut(b.text, " (")
	class, at := figurePlace(a.log, figure, end, b.target > 0, mark)
	fmt.Fprintf(&s, "<text class=\"%s\" x=\"%.1f\" y=\"%.1f\">%s</text>\n", class, at, y+15, html.EscapeString(figure))
	if target != "" {
		fmt.Fprintf(&s, "<text class=\"s e\" x=\"%d\" y=\"%.1f\">%s</text>\n",
			targetRight, y+14, html.EscapeString(strings.TrimSuffix(target, ")")))
	}
	return s.String()
}

// figurePlace returns the style and the coordinate of a figure. It is to the right of its dot or
// bar. If the mark of the target is there, the figure moves to the left, so that it is not read as
// the target. Without room on the left, it stays.
func figurePlace(log bool, figure string, end float64, hasTarget bool, mark float64) (class string, x float64) {
	const gap = 13
	width := float64(gap + digitWidth*utf8.RuneCountInString(figure))
	switch {
	case !hasTarget || mark < end || mark > end+width || end-width < barLeft:
		return "v", end + gap
	case log:
		return "v e", end - gap + 2 // it hides the line up to the dot
	}
	return "in e", end - gap
}
