// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"strings"
	"unicode/utf8"
)

// renderPerformance returns the page for a reader who decides, and its charts by the name of the
// file. A chart whose section is not recorded is left out.
func (p *project) renderPerformance() (page string, charts map[string]string) {
	charts = map[string]string{}
	performance := p.catalogue.Performance
	var b strings.Builder
	fmt.Fprintf(&b, "%s\n# Performance\n\n%s", generated, performance.Intro)
	var left []string
	for _, chart := range performance.Charts {
		section := p.catalogue.section(chart.Section)
		recording := p.results[chart.Section]
		details := fmt.Sprintf("[%s](benchmarks.md#%s)", section.Title, anchor(section.Title))
		groups := chart.groups(section, recording)
		if len(groups) == 0 {
			left = append(left, fmt.Sprintf("- %s:\n  %s\n", chart.Title, details))
			continue
		}
		file := chartPrefix + chart.Name + ".svg"
		charts[file] = chart.svg(groups)
		fmt.Fprintf(&b, "\n## %s\n\n%s\n", chart.Title, chart.Text)
		picture := fmt.Sprintf("![%s](%s)", describe(groups), strings.TrimPrefix(file, "docs/"))
		fmt.Fprintf(&b, "%s\n\n", breakLines(picture))
		fmt.Fprintf(&b, "Recorded on %s at commit `%s`; %s.\nDetails: %s.\n",
			recording.Date, recording.Commit, recording.Machine.hardware(), details)
	}
	if len(left) > 0 {
		fmt.Fprintf(&b, "\n## Not recorded yet\n\n%s", strings.Join(left, ""))
	}
	if performance.Notes != "" {
		fmt.Fprintf(&b, "\n%s", performance.Notes)
	}
	return b.String(), charts
}

// group is the bars of one row of a chart.
type group struct {
	title string
	bars  []bar
}

type bar struct {
	label, text string
	value       float64
	class       string // of the style
	target      float64
}

// groups returns the bars for which there are figures.
func (c *Chart) groups(section *Section, recording *Recording) []group {
	var groups []group
	for _, row := range c.Rows {
		g := group{title: row.Text}
		for i, column := range c.Columns {
			bench, unit := row.bench(column), row.unit(c.Columns, column)
			f, ok := recording.figure(bench, unit)
			if !ok {
				continue
			}
			own := bar{label: column.Title, text: format(unit, f.Min), value: f.Min, class: fmt.Sprint("s", i)}
			if value, ok := parseQuantity(section.target(bench, unit), unit); ok {
				own.target = value
				own.text += " (target " + short(unit, value) + ")"
			}
			g.bars = append(g.bars, own)
			peer := section.Peer
			if f, ok := recording.figure(peer.Prefix+bench, unit); ok && peer.Prefix != "" {
				g.bars = append(g.bars, bar{label: peer.Title, text: format(unit, f.Min), value: f.Min, class: "peer"})
			}
		}
		if len(g.bars) > 0 {
			groups = append(groups, g)
		}
	}
	return groups
}

// target returns the target of the row that shows a figure in its first column.
func (s *Section) target(bench, unit string) string {
	for _, t := range s.Tables {
		for _, row := range t.Rows {
			if row.bench(t.Columns[0]) == bench && row.unit(t.Columns, t.Columns[0]) == unit {
				return row.Target
			}
		}
	}
	return ""
}

// describe returns all figures of a chart as a text for those who do not see it, with a line for
// each row.
func describe(groups []group) string {
	var parts []string
	for _, g := range groups {
		var bars []string
		for _, b := range g.bars {
			bars = append(bars, b.label+" "+b.text)
		}
		parts = append(parts, g.title+": "+strings.Join(bars, ", "))
	}
	return strings.Join(parts, ";\n") + "."
}

// columns is the limit of lines in the repository.
const columns = 120

// breakLines breaks lines at spaces where they are too long for the repository.
func breakLines(text string) string {
	var b strings.Builder
	used := 0
	for line := range strings.Lines(text) {
		for i, word := range strings.Split(line, " ") {
			width := utf8.RuneCountInString(strings.TrimSuffix(word, "\n"))
			switch {
			case i == 0:
				used = 0
			case used+1+width > columns:
				b.WriteByte('\n')
				used = 0
			default:
				b.WriteByte(' ')
				used++
			}
			b.WriteString(word)
			used += width
		}
	}
	return b.String()
}
