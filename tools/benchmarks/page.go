// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"
)

const (
	generated = "<!-- Made by `make bench-page` from docs/benchmarks/catalogue.yaml and results.json. Do not edit. -->\n"
	// notRecorded is the cell of a row without a figure.
	notRecorded = "–"
	chartPrefix = "docs/pictures/bench-"
)

// page writes all pages and charts, or checks that they are up to date.
func (p *project) page(check bool) error {
	files := p.render()
	charts, err := filepath.Glob(p.path(chartPrefix + "*.svg"))
	if err != nil {
		return err
	}
	var errs []error
	for _, chart := range charts {
		name := chartPrefix + strings.TrimPrefix(filepath.Base(chart), "bench-")
		if _, ok := files[name]; ok {
			continue
		}
		if check {
			errs = append(errs, fmt.Errorf("%s is not a chart of the catalogue", name))
		} else if err := os.Remove(chart); err != nil {
			errs = append(errs, err)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(files)) {
		errs = append(errs, p.put(name, files[name], check))
	}
	if err := errors.Join(errs...); err != nil && check {
		return fmt.Errorf("%w\nrun 'make bench-page'", err)
	} else if err != nil {
		return err
	}
	return p.missing()
}

// missing reports rows of recorded sections that have no result: their benchmarks have other names.
func (p *project) missing() error {
	var errs []error
	for _, s := range p.catalogue.Sections {
		if recording := p.results[s.Name]; recording != nil {
			for _, bench := range s.missing(recording) {
				errs = append(errs, fmt.Errorf("section %s: no result for the row of %s", s.Name, bench))
			}
		}
	}
	return errors.Join(errs...)
}

// put writes a file, or checks that it has the text.
func (p *project) put(name, text string, check bool) error {
	if !check {
		return os.WriteFile(p.path(name), []byte(text), 0o644)
	}
	have, err := os.ReadFile(p.path(name))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if !bytes.Equal(have, []byte(text)) {
		return fmt.Errorf("%s differs from what the catalogue and the results give", name)
	}
	return nil
}

// render returns the text of all files by name.
func (p *project) render() map[string]string {
	var page strings.Builder
	fmt.Fprintf(&page, "%s\n# Benchmarks\n\n%s", generated, p.catalogue.Intro)
	for _, s := range p.catalogue.Sections {
		page.WriteString("\n" + renderSection(s, p.results[s.Name]))
	}
	performance, charts := p.renderPerformance()
	charts["docs/benchmarks.md"] = page.String()
	charts["docs/performance.md"] = performance
	return charts
}

// renderSection returns a section as Markdown. Without a recording it has the targets and peers alone.
func renderSection(s *Section, recording *Recording) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s %s\n\n", strings.Repeat("#", s.Level), s.Title)
	if s.Intro != "" {
		fmt.Fprintf(&b, "%s\n", s.Intro)
	}
	fmt.Fprintf(&b, "```\n%s\n```\n\n", strings.Join(s.Commands, "\n"))
	b.WriteString(provenance(recording) + s.Peer)
	for _, t := range s.Tables {
		b.WriteString("\n" + t.render(recording))
	}
	if s.Notes != "" {
		fmt.Fprintf(&b, "\n%s", s.Notes)
	}
	return b.String()
}

// provenance says when, where and of what a section was recorded.
func provenance(r *Recording) string {
	if r == nil {
		return "**Not recorded yet.**\n"
	}
	return fmt.Sprintf("Recorded on %s at commit `%s`, in %s.\n%s; Linux %s; %s; load average %s at the start.\n",
		r.Date, r.Commit, time.Duration(r.Seconds)*time.Second,
		r.Machine.hardware(), r.Machine.Kernel, r.Machine.Go, r.Machine.Load)
}

func (m Machine) hardware() string { return fmt.Sprintf("%d cores, %s", m.Cores, m.CPU) }

// render returns a table as Markdown. Targets and peers have a column if any row has one.
func (t *Table) render(recording *Recording) string {
	hasTarget := slices.ContainsFunc(t.Rows, func(r Row) bool { return r.Target != "" })
	hasPeer := slices.ContainsFunc(t.Rows, func(r Row) bool { return r.Peer != "" })
	header := []string{t.Title}
	for _, c := range t.Columns {
		header = append(header, c.Title)
	}
	if hasTarget {
		header = append(header, "target")
	}
	if hasPeer {
		header = append(header, "reference")
	}
	var b strings.Builder
	line(&b, header)
	b.WriteString(strings.Repeat("|---", len(header)) + "|\n")
	for _, row := range t.Rows {
		cells := []string{row.Text}
		for i, c := range t.Columns {
			cells = append(cells, row.cell(recording, c, row.unit(t.Columns, i), i == 0))
		}
		if hasTarget {
			cells = append(cells, row.Target)
		}
		if hasPeer {
			cells = append(cells, row.Peer)
		}
		line(&b, cells)
	}
	return b.String()
}

func line(b *strings.Builder, cells []string) {
	for _, cell := range cells {
		b.WriteString(strings.TrimRight("| "+cell, " ") + " ")
	}
	b.WriteString("|\n")
}

// cell returns a figure. The first of a row is bold if its minimum misses the target.
func (r Row) cell(recording *Recording, c Column, unit string, first bool) string {
	f, ok := recording.figure(r.bench(c), unit)
	if !ok && recording != nil {
		return ""
	}
	if !ok {
		return notRecorded
	}
	text := f.show(unit)
	if target, ok := parseQuantity(r.Target, unit); ok && first && f.Min > target {
		text = "**" + text + "**"
	}
	if base, ok := recording.figure(strings.ReplaceAll(r.Base, "{}", c.Bench), unit); ok && base.Min != 0 {
		text += " " + ratio(f.Min, base.Min)
	}
	return text
}

var notInAnchor = regexp.MustCompile(`[^\p{L}\p{N}_ -]`)

// anchor returns the anchor of a heading as GitHub and the site make it.
func anchor(heading string) string {
	return strings.ReplaceAll(notInAnchor.ReplaceAllString(strings.ToLower(heading), ""), " ", "-")
}
